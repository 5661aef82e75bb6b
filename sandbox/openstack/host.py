"""Makes the clusters and machines that the Magnum driver asks for; one request per run, as JSON on standard input.

The driver runs in the Python environment of Magnum, which lacks what a simulated cluster needs, and asks the project's own
Python in this way. Requests carry the key of a cluster's authority: never in arguments, never in a log.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sandbox.cluster import add_ons, machine_groups
from sandbox.cluster import control_plane as clusters
from sandbox.cluster.machine_groups import MachineGroup
from sandbox.cluster.node_tools import find_platform_tools
from sandbox.openstack import replicas
from sandbox.openstack.marks import CAPI_HELM, CLUSTER_API, node_marks
from sandbox.openstack.seed import read_seed
from sandbox.system.errors import SandboxError
from sandbox.system.files import make_folder, write_atomic
from sandbox.system.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.toolchain.tools import Tools

_BASE32: Final = "abcdefghijklmnopqrstuvwxyz234567"
_KUBERNETES_VERSION: Final = "v1.36.3"
_CONTROL_PLANE_TAINT: Final = {"key": "node-role.kubernetes.io/control-plane", "value": "", "effect": "NoSchedule"}

Request = dict[str, Any]


def main() -> int:
    """Answer the request on standard input; the answer, a JSON object, goes to standard output."""
    try:
        answer = handle(json.load(sys.stdin))
    except SandboxError as error:
        sys.stderr.write(f"{error.message}\n{error.remedy}\n")
        return 1
    json.dump(answer, sys.stdout)
    return 0


def handle(request: Request) -> dict[str, Any]:
    """Do what the driver asks for; doing it twice is as good as once.

    Args:
        request: `action` (boot, put, remove, erase), `driver`, `cluster` (uuid, name, stack_id), `clusters` and `seed` (paths),
            `auto_scaling_enabled` (the cluster's label), `groups` for the first three, `ca_certificate` and `ca_key` (PEM) for
            boot.

    Returns:
        For boot the `server` and the Kubernetes `version`; for boot and put `counts`, the machines of each group by its UUID.

    Raises:
        SandboxError: it could not be done.
    """
    folder = folder_of(Path(request["clusters"]), request["cluster"])
    action = request["action"]
    if action == "erase":
        clusters.erase(folder)
        return {}
    if action != "boot" and not folder.exists():
        # The cluster was deleted meanwhile.
        return {}
    if action == "remove":
        for group in request["groups"]:
            machine_groups.remove(folder, group["uuid"])
        return {}
    tools = find_platform_tools(Progress(sys.stderr)) if action == "boot" else None
    answer: dict[str, Any] = {**_boot(folder, request, tools)} if tools else {}
    present = machine_groups.groups(folder)
    wanted = [machines_of(request, group, present.get(group["uuid"])) for group in request["groups"]]
    for group in wanted:
        machine_groups.put(folder, group)
    answer["counts"] = {group.id: group.count for group in wanted}
    if tools and request["driver"] == CAPI_HELM:
        # A cluster of that driver is complete when its add-ons are deployed, not before (driver.py, _update_status_updating).
        add_ons.install(clusters.load(folder), tools.helm, read_seed(Path(request["seed"])).add_ons)
    return answer


def folder_of(all_clusters: Path, cluster: Mapping[str, str]) -> Path:
    """The folder of one of Magnum's clusters."""
    return all_clusters / f"{_dns(cluster['name'])}-{cluster['uuid'][:6]}"


def _boot(folder: Path, request: Request, tools: Tools) -> dict[str, str]:
    """Start the control plane with Magnum's authority, so that certificates signed by Magnum's API are good there."""
    keys = make_folder(folder / "pki")
    if not (keys / "sa.pub").exists():
        write_atomic(keys / "ca.crt", request["ca_certificate"])
        write_atomic(keys / "ca.key", request["ca_key"])
    running = clusters.boot(folder, request["cluster"]["name"], tools)
    return {"server": running.server, "version": _KUBERNETES_VERSION}


def machines_of(request: Request, group: Mapping[str, Any], present: MachineGroup | None = None) -> MachineGroup:
    """The machines of a node group.

    Args:
        request: as of `handle`.
        group: the node group's row.
        present: its machines so far; None for a new group.

    Raises:
        SandboxError: the cloud has no such flavor; or no such image, which Magnum does not ask after for a node group.
    """
    seed = read_seed(Path(request["seed"]))
    flavors, images = seed.flavors, seed.images
    for what, name, known in (("Flavor", group["flavor"], flavors), ("Image", group.get("image"), images)):
        if name and name not in known:
            message = f"{what} {name} could not be found."
            raise SandboxError(message, f"The cloud has {', '.join(known)}.")
    master = group["role"] == "master"
    marks = node_marks(request["driver"], group["name"], group["role"], group["labels"])
    labels, taints = marks.labels, list(marks.taints)
    if master:
        labels = {**labels, "node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/master": ""}
        taints.append(_CONTROL_PLANE_TAINT)
    autoscaling = request.get("auto_scaling_enabled", "")
    count = replicas.machines(request["driver"], autoscaling, group, present.count if present else None)
    return MachineGroup(
        id=group["uuid"],
        node_prefix=_node_prefix(request["driver"], request["cluster"], group),
        count=count if marks.joins else 0,
        labels=labels,
        taints=taints,
        hardware=flavors[group["flavor"]],
        control_plane=master,
    )


def _node_prefix(driver: str, cluster: Mapping[str, str], group: Mapping[str, Any]) -> str:
    """Node names as the drivers make them."""
    name, kind = cluster["name"], "master" if group["role"] == "master" else "node"
    own, stack = _suffix(group["uuid"], 5), cluster["stack_id"]
    if driver == CLUSTER_API:
        return f"kube-{_suffix(stack, 5)}-{_dns(group['name'])}-{own}-"
    if driver == CAPI_HELM:
        return f"{_dns(name)}-{_suffix(stack, 12)}-{_dns(group['name'])}-{own}-"
    if group["default"]:
        return f"{_dns(name[:20])}-{_suffix(stack, 12)}-{kind}-"
    return f"{_dns(name[:20])}-{_dns(group['name'][:9])}-{_suffix(group['uuid'], 12)}-{kind}-"


def _suffix(text: str, length: int) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_BASE32[byte % len(_BASE32)] for byte in digest[:length])


def _dns(name: str) -> str:
    """A name as the machines' host names carry it."""
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in name.lower()).strip("-")


if __name__ == "__main__":
    sys.exit(main())
