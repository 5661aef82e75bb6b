"""Objects and looks that every component needs in a cluster: the provider, charts, pull secrets, owners."""
