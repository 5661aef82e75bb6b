"""OpenStack Magnum: clusters that are made and clusters that exist, node groups, the check before a deploy, and the session."""
