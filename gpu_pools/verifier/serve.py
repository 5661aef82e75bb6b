"""The process that reads NVML, from the inside. What it answers is JSON, and gpu_pools/verifier/sources.py makes a Reading of it.

Nothing is imported here or in gpu_pools/verifier/nvml.py but what a reading needs: loading takes longer than reading does.
"""

from __future__ import annotations

import os

from .nvml import read_nvml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .nvml import Profiles

_PLAIN = ('"', "\\")


def serve() -> None:
    """For each byte on standard input read NVML, and write the reading as a line; before each call its name on a line."""
    profiles: Profiles = {}
    while os.read(0, 1):
        _tell(to_json(read_nvml(_tell, profiles)))
    # There is nothing to tidy up, and somebody waits.
    os._exit(0)


def to_json(value: object) -> str:
    """What json.dumps would write of texts, whole numbers, None, lists and mappings; json itself takes long to load."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{to_json(key)}: {to_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(to_json, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return "null"
    return ("false", "true")[value] if isinstance(value, bool) else repr(value)


def _text(text: str) -> str:
    if text.isascii() and text.isprintable() and not any(character in text for character in _PLAIN):
        return f'"{text}"'
    # A character beyond 16 bits is two of these, in JSON too.
    units = text.encode("utf-16-be", "surrogatepass")
    return '"' + "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True)) + '"'


def _tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())
