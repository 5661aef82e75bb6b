"""What NVIDIA's programs say last."""

from __future__ import annotations

import re
from typing import Final

_HEADER: Final = re.compile(r'^(?:[IWEF]\d{4} \S+ +\d+ \S+\] |time="[^"]*" level=\w+ msg=)')


def last_line(text: str) -> str:
    """The last line of a log, without the time and place before it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _HEADER.sub("", lines[-1]).strip('"') if lines else ""
