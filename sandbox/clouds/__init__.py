"""Stand-ins for the services behind the provider plugins: Azure's container service and OpenStack Magnum.

They keep records, refuse what the real service refuses with the real service's words, and turn node pools
into machine groups of a simulated cluster. They never talk to a cloud.
"""
