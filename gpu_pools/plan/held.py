"""What an edit would change of a pool that is only held as it was imported, as problems: nothing of it is sent to a cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.stack.imported import ADOPTION, IMPORTED
from gpu_pools.text.errors import Problem, show

if TYPE_CHECKING:
    from collections.abc import Mapping

#: How the name of the hook ends that refuses the update of such a pool.
HELD: Final = "-held"


def changed(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Problem]:
    """A problem for each property that would be another.

    Args:
        what: the pool, for messages.
        old: its inputs in the state.
        new: those that the program asks for.
    """
    different = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    return [
        Problem(
            f"{what}: {key}",
            f"would be {_shown(new.get(key))}, and {ADOPTION} is {IMPORTED}: nothing of the pool is changed",
            f"{_shown(old.get(key))}, as it was imported",
            f"Take `{ADOPTION}` out first, and deploy that; or, where somebody else has changed the pool, write what it has now "
            "and run `pulumi refresh`.",
        )
        for key in different
    ]


def _shown(value: object) -> str:
    """A whole number as one: the engine hands over all numbers as floats."""
    return show(int(value) if isinstance(value, float) and value.is_integer() else value)
