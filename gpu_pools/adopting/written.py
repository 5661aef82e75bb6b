"""The two files: a stack file with comments that say where it comes from, and what `pulumi import --file` takes.

Names and values of others are in both. In YAML they are quoted by the library; in comments they are made one harmless line. The
import file names resources by labels of its own, since the Pulumi names of two pools may meet; `logicalName` is the Pulumi name
(pulumi/pulumi 3.259, pkg/cmd/pulumi/operations/import.go).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.adopting.adopted import Imported
from gpu_pools.adopting.adopter import PLATFORM
from gpu_pools.adopting.known import ADOPTERS
from gpu_pools.text.harmless import line

if TYPE_CHECKING:
    from gpu_pools.adopting.adopted import Adopted

#: The component around everything.
_PLATFORM: Final = "gpu-pools:index:GpuPlatform"
_ORDER: Final = ("cluster", "adoption", "flavors", "sharing", "operator", "nodeFeatureDiscovery", "verification", "pools")
#: Sections that say something by being there.
_MEAN_SOMETHING: Final = {"verification"}
_WIDTH: Final = 120


def stack_text(adopted: Adopted, source: str) -> str:
    """The stack file.

    Args:
        adopted: what it says.
        source: what it was made of.
    """
    lines = [f"# Written by gpu-pools adopt from {line(source)}.", "config:"]
    for key in (one for one in _ORDER if adopted.sections.get(one) or one in adopted.sections.keys() & _MEAN_SOMETHING):
        body = yaml.safe_dump({f"gpu-pools:{key}": adopted.sections[key]}, sort_keys=False, width=_WIDTH, allow_unicode=False)
        lines += [f"  {text}" for text in body.splitlines()]
    lines += (
        ["# Not said here:", *(f"# - {line(one.place)}: {line(one.why)}" for one in adopted.unsaid)] if adopted.unsaid else []
    )
    return "\n".join(lines) + "\n"


def import_text(adopted: Adopted, added_to: str = "") -> str:
    """The import file.

    Args:
        adopted: what it names.
        added_to: `project/stack` of a stack that is deployed already, whose platform is there; empty: of one that is new.
    """
    project, _, stack = added_to.partition("/")
    table = {"nameTable": {_label(PLATFORM): f"urn:pulumi:{stack}::{project}::{_PLATFORM}::{PLATFORM}"}} if added_to else {}
    # Below the platform, and by its name (components/platform.py).
    cluster = ADOPTERS[adopted.sections["cluster"]["platform"]].cluster_component
    around = [Imported(_PLATFORM, PLATFORM), *([Imported(cluster, PLATFORM, PLATFORM)] if cluster else [])]
    whole = [*([] if added_to else around), *adopted.imports]
    return json.dumps({**table, "resources": [_spec(one) for one in whole]}, indent=2) + "\n"


def _label(component: str) -> str:
    return f"component {component}"


def _spec(one: Imported) -> dict[str, Any]:
    name = f"resource {one.name}" if one.id else _label(one.name)
    if one.type in {adopter.cluster_component for adopter in ADOPTERS.values()}:
        name = f"cluster {one.name}"
    spec: dict[str, Any] = {"type": one.type, "name": name, "logicalName": one.name}
    spec |= {"id": one.id} if one.id else {"component": True}
    spec |= {"parent": _label(one.parent)} if one.parent else {}
    return spec | ({"version": one.version} if one.version else {})
