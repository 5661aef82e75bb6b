"""Reads what az, openstack and kubectl print as JSON, and judges the shapes only: what they mean is for the other modules."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.adopting.adopted import NotAdoptableError
from gpu_pools.stack.stack_file import STANDARD_INPUT
from gpu_pools.text.errors import Problem, show
from gpu_pools.text.files import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Larger answers are none of a cluster.
_LARGEST: Final = 64 << 20


def read_json(name: str, how: str) -> Any:  # noqa: ANN401 - JSON is whatever its author wrote
    """The JSON in a file.

    Args:
        name: of the file; ``-`` for the standard input.
        how: the command that prints such a file.

    Raises:
        NotAdoptableError: if it cannot be read.
    """
    try:
        text = sys.stdin.read(_LARGEST) if name == STANDARD_INPUT else read_text(name, _LARGEST)
        return json.loads(text)
    except FileNotFoundError:
        raise refused(name, "there is no such file", how) from None
    except (OSError, UnicodeDecodeError) as error:
        raise refused(name, f"cannot be read: {error}", how) from None
    except (ValueError, RecursionError) as error:
        raise refused(name, f"is not JSON: {error}", how) from None


def refused(path: str, message: str, how: str) -> NotAdoptableError:
    """That a document is not what it must be."""
    return NotAdoptableError([Problem(path, message, f"what `{how}` prints", f"Print it anew: {how} > {path}")])


def mapping(value: object, path: str, how: str) -> dict[str, Any]:
    """The value, where it is a mapping."""
    if not isinstance(value, dict) or not value:
        raise refused(path, f"is {show(value)}, not one object", how)
    return value


def mappings(value: object, path: str, how: str) -> list[dict[str, Any]]:
    """The value, where it is a list of mappings."""
    if not isinstance(value, list) or not all(isinstance(one, dict) and one for one in value):
        raise refused(path, f"is {show(value)}, not a list of objects", how)
    return value


def text_of(value: Mapping[str, Any], key: str, path: str, how: str) -> str:
    """A text that must be there."""
    found = value.get(key)
    if not isinstance(found, str) or not found:
        raise refused(path, f"has {show(found)} as `{key}`, not a text", how)
    return found
