"""Collects what the verifiers of a stack have reported: one verdict per node and pool, a table, a JSON file, an HTML page."""
