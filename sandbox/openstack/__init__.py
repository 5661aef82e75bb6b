"""A real OpenStack of the size that Magnum needs: Keystone and Magnum, with few answers of Glance, Nova and Neutron.

Keystone, Magnum's API and conductor, their databases, policies and certificates are the real programs, in a Python environment
of their own. Stand-ins are the catalogue (`catalogue.py`) and the machines that the project's own Magnum driver makes.
"""
