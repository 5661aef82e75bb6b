"""What runs in the Python environment of Keystone and Magnum, started by `sandbox.openstack.service`.

Nothing here may import more of this project than the standard library can carry: the project's own dependencies are not there.
"""
