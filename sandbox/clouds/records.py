"""What a stand-in cloud knows, in one JSON file that survives a kill at any moment.

Nothing is cached: the provider process and the command line (scaling a pool as an autoscaler would) work
on the same file. A change is read, made and written under one lock; when the body of `change` raises,
nothing is written.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sandbox.system import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Data = dict[str, dict[str, Any]]
"""table -> key -> record"""


class Records:
    """Tables of records in one file."""

    def __init__(self, path: Path, tables: Sequence[str]) -> None:
        """Name the file and the tables that it has."""
        self._path = path
        self._tables = tuple(tables)

    def read(self) -> Data:
        """All tables as they are now; changing the result changes nothing."""
        return self._load()

    @contextmanager
    def change(self) -> Iterator[Data]:
        """The tables, to be changed in place and written when the block ends well."""
        with files.locked(self._path):
            data = self._load()
            yield data
            files.write_json(self._path, data)

    def _load(self) -> Data:
        stored = files.read_json(self._path)
        return {table: stored.get(table, {}) for table in self._tables}
