"""Takes from the nodes what NVIDIA's operator and our verifier leave there; runs once, in a pod, when the operator has gone.

Started with this text as an argument by a Job of the operator's chart (node_cleanup.py), so it needs Python alone, and no
double brace may stand in it: Helm would take it for its own. Only names that are the operator's or ours are removed. What others
have written under them stays: a part of the operator that was switched off by hand, an upgrade that is to be skipped.
"""

import json
import re
import sys
import time
import urllib.error
from typing import Any

from gpu_pools.rendering.pod_api import request

LABELS = ("nvidia.com/gpu.present", "nvidia.com/mig.config", "nvidia.com/mig.config.state", "nvidia.com/gpu-driver-upgrade-state")
#: Where our own changer has set it; a key of others has no such end.
CONFIG, OUR_KEY = "nvidia.com/device-plugin.config", re.compile(r"(exclusive|time-slicing|mps|mig)-(.*-)?[0-9a-f]{8}")
CHANGE = "gpu-pools/change"
DEPLOY = "nvidia.com/gpu.deploy."
WRITTEN_BY_OPERATOR = ("true", "", "paused-for-mig-change", "paused-for-driver-upgrade")
ANNOTATIONS = (
    "gpu-pools/verification",
    "gpu-pools/leaving",
    CHANGE,
    "nvidia.com/gpu-driver-upgrade-enabled",
    "nvidia.com/gpu-driver-upgrade.",
)
CONDITION = "GpuSharingVerified"
STARTUP_TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/gpu-pools-unverified"
#: Pods that are just ending may write once more.
LOOKS, PAUSE_SECONDS = 20, 1.0


def leftovers(node: dict[str, Any]) -> dict[str, Any] | None:
    """The merge patch that takes everything away but the condition; None where there is nothing."""
    meta, taints = node["metadata"], node["spec"].get("taints") or []
    labels = [key for key, value in (meta.get("labels") or {}).items() if _is_label(key, value)]
    notes = [key for key in meta.get("annotations") or {} if key.startswith(ANNOTATIONS)]
    kept = [taint for taint in taints if taint["key"] != STARTUP_TAINT]
    cordoned = CHANGE in notes and _is_ours(meta["annotations"][CHANGE])
    if not labels and not notes and kept == taints:
        return None
    # The list of taints is replaced whole, so the node must not have changed meanwhile.
    gone = {"labels": dict.fromkeys(labels), "annotations": dict.fromkeys(notes)}
    metadata = {"resourceVersion": meta["resourceVersion"], **gone}
    patch: dict[str, Any] = {"metadata": metadata}
    if kept != taints:
        patch["spec"] = {"taints": kept or None}
    if cordoned:
        patch["spec"] = patch.get("spec", {}) | {"unschedulable": None}
    return patch


def _is_label(key: str, value: str) -> bool:
    ours = key == CONFIG and OUR_KEY.fullmatch(value) is not None
    return ours or key in LABELS or (key.startswith(DEPLOY) and value in WRITTEN_BY_OPERATOR)


def _is_ours(mark: str) -> bool:
    """Whether a change that was not ended has cordoned the node."""
    try:
        found = json.loads(mark)
        return found["cordoned"] is True and not found.get("stopped")
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def clean() -> list[str]:
    """Look at every node once; the names of those that were changed, or could not be."""
    touched = []
    for node in request("/api/v1/nodes")["items"]:
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        patch = leftovers(node)
        conditions = [item["type"] for item in node.get("status", {}).get("conditions") or []]
        if patch is None and CONDITION not in conditions:
            continue
        touched.append(node["metadata"]["name"])
        try:
            if patch is not None:
                request(path, patch)
            if CONDITION in conditions:
                status = {"conditions": [{"type": CONDITION, "$patch": "delete"}]}
                request(f"{path}/status", {"status": status}, "strategic-merge-patch")
        except urllib.error.HTTPError as error:
            # A node that has changed or gone is looked at again.
            sys.stderr.write(f"{path}: {error.code} {error.read()[:500]!r}\n")
    return touched


def main() -> int:
    """Clean until two looks find nothing; 1 if that never happens."""
    quiet = 0
    for _ in range(LOOKS):
        touched = clean()
        quiet = 0 if touched else quiet + 1
        if quiet > 1:
            return 0
        time.sleep(PAUSE_SECONDS)
    return 1


if __name__ == "__main__":
    sys.exit(main())
