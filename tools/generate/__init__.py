"""Writes what follows from the tables of fields: types of arguments, the schema and pages of the reference.

`python -m tools.generate` writes all of it, and the types of azure-native. tests/unit/test_fields.py and tests/components hold
the files to what it writes.
"""
