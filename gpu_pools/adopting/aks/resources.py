"""Resources as Azure shows them, and as azure-native's inputs.

az writes the API's names in another case than the API does (`osDiskSizeGb` for `osDiskSizeGB`), and flattens `properties`. Both
are read: what the REST API, `az rest` and the portal's export show, and what `az aks show` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_pools.platforms.aks import azure_types
from gpu_pools.text.nested import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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
