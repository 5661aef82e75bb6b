"""Paths of properties as the engine writes them, and what lies there: ``metadata.labels["a/b"]``, ``nodeTaints[0]``.

Secrets are found on the way and never handed on: the engine has masked them, and where one side of a difference is a secret the
other may not be marked as one.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

#: How the engine's events mark a special value, and a secret among these (pulumi sdk, resource/sig.go).
_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
_SECRET_SIGNATURE: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a mark, no secret
#: What the engine prints in a secret's place.
_MASKED: Final = "[secret]"
_STEP: Final = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|\.?([^.\[\]"]+)')

Step = str | int


class Nothing:
    """No value is there, or one that is not shown."""

    def __init__(self, shown: str) -> None:
        """Say what is shown in its place."""
        self.shown = shown


MISSING: Final = Nothing("-")
SECRET: Final = Nothing("(secret)")


def steps_of(path: str) -> tuple[Step, ...]:
    """The keys and places in lists that a path leads through."""
    found: list[Step] = []
    for key, place, name in _STEP.findall(path):
        found.append(int(place) if place else name or json.loads(f'"{key}"'))
    return tuple(found)


def text_of(steps: tuple[Step, ...]) -> str:
    """The path of these steps."""
    parts = [f"[{step}]" if isinstance(step, int) or not re.fullmatch(r"[\w-]+", step) else f".{step}" for step in steps]
    return "".join(parts).removeprefix(".")


def value_at(values: Any, steps: tuple[Step, ...]) -> Any:  # noqa: ANN401 - JSON, or one of the two above
    """The value there; SECRET where it, something around it or something in it is one."""
    for step in steps:
        if _is_secret(values):
            return SECRET
        inside = isinstance(values, list) and isinstance(step, int) and step < len(values)
        if not inside and not (isinstance(values, dict) and step in values):
            return MISSING
        values = values[step]
    return SECRET if _holds_secret(values) else values


def _is_secret(value: object) -> bool:
    return value == _MASKED or (isinstance(value, dict) and value.get(_SIGNATURE) == _SECRET_SIGNATURE)


def _holds_secret(value: object) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return _is_secret(value) or any(map(_holds_secret, inner))
