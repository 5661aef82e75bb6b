"""Reads what az, openstack and kubectl print as JSON. Only shapes are judged here; what they mean is the other modules' matter.

az writes the API's names in another case than the API does (`osDiskSizeGb` for `osDiskSizeGB`), and flattens `properties`. Both
are read: what the REST API, `az rest` and the portal's export show, and what `az aks show` does.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.adopting.adopted import NotAdoptableError
from gpu_pools.platforms.aks import azure_types
from gpu_pools.stack.stack_file import STANDARD_INPUT
from gpu_pools.text.errors import Problem, show
from gpu_pools.text.files import read_text
from gpu_pools.text.nested import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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


def flat(value: Mapping[str, Any]) -> dict[str, Any]:
    """A resource of ARM without its `properties` around what is in it, and without what kind of resource it is.

    A pool has a `type` of its own beside that of the resource; az, which has room for one, calls it `typePropertiesType`.
    """
    inner = value.get("properties")
    own = {"type": value["typePropertiesType"]} if value.get("typePropertiesType") else {}
    kind = str(value.get("type", "")).startswith("Microsoft.")
    rest = {key: one for key, one in value.items() if key != "properties" and not (key == "type" and kind)}
    return {**rest, **(inner if isinstance(inner, dict) else {}), **own}


def as_inputs(value: Mapping[str, Any], type_: str) -> dict[str, Any]:
    """What of a resource could be an input of azure-native's, by the plugin's names: what an import has as inputs.

    As the plugin does it (provider.go, Read: ResponseToSdkInputs): every writable property that the answer has, Azure's own
    defaults included; what is read-only or null is left out.

    Args:
        value: the resource, flat; names in any case.
        type_: of azure-native, e.g. ``AgentPool``.
    """
    by_name = {key.lower(): one for key, one in value.items()}
    found = {
        key: _converted(by_name[key.lower()], kind)
        for key, kind in azure_types.types()[type_].items()
        if by_name.get(key.lower()) is not None
    }
    return {key: one for key, one in found.items() if one is not None}


def unknown(value: Mapping[str, Any], type_: str, above: str = "") -> Iterator[tuple[str, Any]]:
    """What of a resource azure-native's type lacks: (dotted path, value), without what is off or empty.

    Args:
        value: the resource, flat; names in any case.
        type_: of azure-native, e.g. ``AgentPool``.
        above: what each path begins with.
    """
    kinds = {key.lower(): kind for key, kind in azure_types.types()[type_].items()}
    for key, one in value.items():
        path, kind = (f"{above}.{key}" if above else key), kinds.get(key.lower())
        if kind in azure_types.types() and isinstance(one, dict):
            yield from unknown(one, str(kind), path)
        elif kind is None:
            yield from ((name, inner) for name, inner in leaves({path: one}) if inner not in (None, False, "", [], {}))


def _converted(value: Any, kind: str) -> Any:  # noqa: ANN401 - JSON
    if kind.startswith("list of ") and isinstance(value, list):
        return [_converted(one, kind.removeprefix("list of ")) for one in value]
    if kind in azure_types.types() and isinstance(value, dict):
        return as_inputs(value, kind)
    return value
