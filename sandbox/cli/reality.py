"""What of a stack's sandbox is real and what stands in, in a line: read off what runs and what is deployed.

Which charts were installed is read in the clusters themselves: whether a chart came from its repository shows only there. What
cannot be read is said to be unknown. What stands in always is in docs/what-is-real.md.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any, Final

from sandbox.cluster import machine_groups, node_tools
from sandbox.cluster.api import shared_client
from sandbox.cluster.api_errors import ApiError, UnreachableError
from sandbox.stack import stand_ins
from sandbox.toolchain import plugin_releases

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from sandbox.stack.state import Sandbox

_RELEASES: Final = "/api/v1/secrets?labelSelector=owner%3Dhelm,status%3Ddeployed"
#: Of the charts in sandbox/charts.
_STAND_IN: Final = "gpu-pools/stand-in"
_CLOUDS: Final = {"aks": "Azure", "magnum": "OpenStack's compute"}


def reality(sandbox: Sandbox, platform: str) -> str:
    """The line.

    Args:
        sandbox: of a stack that is up.
        platform: of the stack.
    """
    folders = sandbox.cluster_folders()
    played = stand_ins.attached(sandbox).ports
    records = [node_tools.recorded(folder) for folder in folders]
    real = ["Pulumi", "Kubernetes", "helm", "nfd-master", "nfd-worker"]
    stand_in: list[str] = []

    def tell(what: str, holds: bool | None) -> None:  # noqa: FBT001 - which of three
        (real if holds else stand_in).append(what if holds is not None else f"{what} (not read)")

    if platform == "magnum":
        real.append("Keystone and Magnum")
        tell(*_plugin("openstack plugin", "openstack", played))
    tell(*_plugin("Kubernetes plugin", "kubernetes", played))
    for chart, holds in charts(folders):
        tell(f"chart {chart}", holds)
    operators = {record["version"] for folder in folders if (record := node_tools.recorded_operator(folder))}
    tell(f"GPU operator {', '.join(operators)}".rstrip(), bool(operators))
    tell("NVIDIA's programs on the nodes", not any(isinstance(record, str) for record in records))
    nodes = sum(group.real for folder in folders for group in machine_groups.groups(folder).values())
    if nodes:
        real.append(f"{nodes} of the nodes")
    others = "the other kubelets" if nodes else "kubelets"
    cloud = [_CLOUDS[platform]] if platform in _CLOUDS else []
    stand_in = [*cloud, *stand_in, others, "GPUs", "MPS control program"]
    return f"Real: {', '.join(real)}. Stand-ins: {', '.join(stand_in)} (docs/what-is-real.md)."


def _plugin(what: str, provider: str, played: Collection[str]) -> tuple[str, bool]:
    """What is told of a provider's plugin, and whether it is the real one."""
    if provider not in played:
        return what, True
    return what + (" (its release is out of reach)" if plugin_releases.cannot_be_had(provider) else ""), False


def charts(folders: Iterable[Path]) -> list[tuple[str, bool | None]]:
    """Each chart that is deployed, and whether it is the real one; None where the cluster cannot be read."""
    found: dict[str, bool | None] = {}
    for folder in folders:
        try:
            releases = shared_client(folder / "kubeconfig").list(_RELEASES)["items"]
        except (ApiError, UnreachableError, OSError):
            found["of " + folder.name] = None
            continue
        for release in releases:
            metadata = _metadata(release)
            found[metadata["name"]] = _STAND_IN not in (metadata.get("annotations") or {})
    return sorted(found.items())


def _metadata(release: dict[str, Any]) -> dict[str, Any]:
    """Of the chart, as helm keeps it: JSON that is compressed, and encoded twice, by helm and as any Secret."""
    packed = base64.b64decode(base64.b64decode(release["data"]["release"]))
    found: dict[str, Any] = json.loads(gzip.decompress(packed))["chart"]["metadata"]
    return found
