"""Where the entries of a data file were read: three keys that each of them ends with.

``sources`` names them, ``from`` says of which of them a table or an entry is, ``one-source`` lists the entries that have a single
one. tests/unit/test_sources.py holds every data file to this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The keys of a data file that are not data.
PROVENANCE: Final = frozenset({"sources", "from", "one-source"})


def without_provenance(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a file that is one table: all its keys but those about sources."""
    return {key: value for key, value in data.items() if key not in PROVENANCE}
