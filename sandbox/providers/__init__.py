"""Stand-ins for Pulumi provider plugins: the real engine attaches to them over gRPC.

Each one answers for the plugin whose name it carries (azure-native, openstack, kubernetes) and behind it
stands a service of this sandbox, never a cloud. Error texts are those of the real plugin and service.
"""
