"""How `make test` and `make test-rest` spread tests over processes: whole files, the slowest first.

A file's tests run in one process, since most files bring something up once for all their tests. In a few slow files no test
shares anything with another: each of their tests is given to whoever is free. What takes longest begins first; else one process
works on it alone at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest

#: Files whose tests share nothing, and of which one takes half a minute or more.
INDEPENDENT: Final = (
    "tests/engine/test_environment.py",
    "tests/engine/test_interruption.py",
    "tests/engine/test_platforms.py",
    "tests/engine/test_reverts.py",
)
#: Files that take longest, each above those that take less; measured, see benchmarks/README.md.
SLOWEST: Final = (
    "tests/engine/test_changes.py",
    "tests/engine/test_faults.py",
    "tests/engine/test_real_node.py",
    "tests/engine/test_platforms.py",
    "tests/engine/test_lifecycle.py",
    "tests/engine/test_drift.py",
    "tests/engine/test_mps.py",
    "tests/engine/test_upgrades.py",
)


class Spread(LoadFileScheduling):  # type: ignore[misc] # pytest-xdist has no types
    """Gives whole files to processes, and single tests of files whose tests share nothing."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return nodeid if file in INDEPENDENT else file


def put_slowest_first(items: list[pytest.Item]) -> None:
    """Sort collected tests by their files; the order within a file and of all other files stays."""
    places = {file: number for number, file in enumerate(SLOWEST)}
    items.sort(key=lambda item: places.get(item.nodeid.split("::", 1)[0], len(SLOWEST)))
