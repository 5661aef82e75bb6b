"""What NVIDIA's operator writes on nodes: which operands run there, the default MIG label, a note for the driver's manager.

After controllers/nodelabeling_controller.go of gpu-operator v26.7.0. Looked at are all nodes, but only after a trigger: another
spec of the policy, a node that is new, a GPU found or gone, operands switched off or on, MIG found. So a label that somebody
removes by hand stays away until then. Nothing takes these labels away when the policy goes.

Unlike the real one, which patches without the version that it has read, it writes no node that has changed since: what it has
read here is seconds old where the machine is busy, and there a moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sandbox.cluster.api_errors import ApiError
from sandbox.machines import objects
from sandbox.machines.operands import DEPLOY
from sandbox.machines.store import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.machines.objects import Json
    from sandbox.machines.world import World

PRESENT: Final = "nvidia.com/gpu.present"
UPGRADE_ENABLED: Final = "nvidia.com/gpu-driver-upgrade-enabled"
_NFD_LABELS: Final = tuple(f"feature.node.kubernetes.io/pci-{device}.present" for device in ("10de", "0302_10de", "0300_10de"))
_PARTS: Final = (
    "driver", "gpu-feature-discovery", "container-toolkit", "device-plugin", "dcgm", "dcgm-exporter",
    "node-status-exporter", "operator-validator", "client",
)  # fmt: skip
_MIG_MANAGER: Final = f"{DEPLOY}mig-manager"
_MIG_CONFIG: Final = "nvidia.com/mig.config"
_MIG_MODELS: Final = ("h100", "a100", "a30")
_CONFLICT, _AGAIN_SECONDS = 409, 0.3


class OperatorLabels:
    """The controller that labels nodes."""

    def __init__(self) -> None:
        """Nothing has been seen."""
        self._policy: tuple[str, int] | None = None
        self._seen: dict[str, tuple[object, ...]] = {}

    def step(self, world: World, policy: Json) -> None:
        """Label all nodes, if something has happened since."""
        seen = {node: _watched(objects.labels(found)) for node, found in world.nodes.items()}
        version = (objects.uid(policy), policy["metadata"].get("generation", 0))
        if (version, seen) == (self._policy, self._seen):
            return
        for node, found in world.nodes.items():
            labels = objects.labels(found)
            wanted = node_labels(labels, policy["spec"])
            present = {**labels, **wanted}.get(PRESENT) == "true"
            if not _write(world, found, wanted, _upgrade_note(found, policy["spec"]) if present else {}):
                seen.pop(node)
                world.again_in(_AGAIN_SECONDS)
        self._policy, self._seen = version, seen


def node_labels(labels: Mapping[str, str], spec: Json) -> dict[str, str | None]:
    """The changes to a node's labels that the operator makes (None removes)."""
    wanted: dict[str, str | None] = {}
    has_gpu = _has_gpu(labels)
    if has_gpu != (labels.get(PRESENT) == "true"):
        if has_gpu:
            wanted[PRESENT] = "true"
        elif PRESENT in labels:
            wanted[PRESENT] = "false"
    if not has_gpu or labels.get(f"{DEPLOY}operands") == "false":
        ours = [f"{DEPLOY}{part}" for part in _PARTS] + [_MIG_MANAGER]
        return {**wanted, **dict.fromkeys((key for key in ours if key in labels), None)}
    # A value that is there is honoured: that is how mig-manager pauses an operand, and how people turn one off.
    wanted.update({f"{DEPLOY}{part}": "true" for part in _PARTS if not labels.get(f"{DEPLOY}{part}")})
    if _mig_capable(labels):
        if _MIG_MANAGER not in labels:
            wanted[_MIG_MANAGER] = "true"
        manager = spec.get("migManager") or {}
        default = (manager.get("config") or {}).get("default")
        if manager.get("enabled", True) and not labels.get(_MIG_CONFIG) and default == "all-disabled":
            wanted[_MIG_CONFIG] = default
    return wanted


def _has_gpu(labels: Mapping[str, str]) -> bool:
    return any(labels.get(key) == "true" for key in _NFD_LABELS)


def _watched(labels: Mapping[str, str]) -> tuple[object, ...]:
    """What of a node's labels the operator reacts to."""
    off = labels.get(f"{DEPLOY}operands") == "false"
    return _has_gpu(labels), labels.get(PRESENT), off, _mig_capable(labels), labels.get("nvidia.com/gpu.workload.config")


def _mig_capable(labels: Mapping[str, str]) -> bool:
    if labels.get("nvidia.com/vgpu.host-driver-version"):
        return False
    if "nvidia.com/mig.capable" in labels:
        return labels["nvidia.com/mig.capable"] == "true"
    product = labels.get("nvidia.com/gpu.product", "").lower()
    return any(model in product for model in _MIG_MODELS)


def _upgrade_note(node: Json, spec: Json) -> dict[str, str | None]:
    driver = spec.get("driver") or {}
    automatic = driver.get("enabled", True) and (driver.get("upgradePolicy") or {}).get("autoUpgrade")
    wanted = "true" if automatic else None
    return {} if objects.notes(node).get(UPGRADE_ENABLED) == wanted else {UPGRADE_ENABLED: wanted}


def _write(world: World, node: Json, labels: Mapping[str, str | None], notes: Mapping[str, str | None]) -> bool:
    """Write them on the node as it was read; whether it still is so."""
    if not labels and not notes:
        return True
    same = {"resourceVersion": node["metadata"]["resourceVersion"]}
    body = {"metadata": {**same, "labels": dict(labels), "annotations": dict(notes)}}
    try:
        world.store.wrote("nodes", world.api.patch(f"{KINDS['nodes']}/{objects.name(node)}", body))
    except ApiError as error:
        if error.status != _CONFLICT:
            raise
        return False
    return True
