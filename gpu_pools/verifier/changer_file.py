"""Where what changes nodes is found: a part of this package that lies in a file of its own on the nodes (archive.py)."""

from __future__ import annotations

import sys


def find_changer() -> None:
    """Have imports of this package look into every file and folder of Python's path: the second file is one of them."""
    places = sys.modules[__package__].__path__
    # A package in a zip is named by the zip and its folder there. What is not there is passed over.
    places.extend(place for path in sys.path if (place := f"{path}/{__package__}") not in places)
