"""What NVIDIA's programs say last."""

from __future__ import annotations

import re
from typing import Final

_HEADER: Final = re.compile(r'^(?:[IWEF]\d{4} \S+ +\d+ \S+\] |time="[^"]*" level=\w+ msg=)')

_PANIC: Final = "panic: "


def last_line(text: str) -> str:
    """The last line of a log, without the time and place before it; of a Go program that panicked the line that says why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    panics = [line for line in lines if line.startswith(_PANIC)]
    if panics:
        return panics[-1]
    return _HEADER.sub("", lines[-1]).strip('"') if lines else ""
