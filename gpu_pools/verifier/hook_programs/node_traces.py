"""What verifiers leave on a node, and how it is taken away: condition, annotations, startup taint, the cordon of a change.

Its text is put before that of the programs that take nodes back (hook_jobs.py): Python alone, no double brace.
"""

import json
import re
from typing import Any

from gpu_pools.verifier.hook_programs.pod_api import request

#: Where our own changer has set it; a key of others has no such end.
PLUGIN, OUR_KEY = "nvidia.com/device-plugin.config", re.compile(r"(exclusive|time-slicing|mps|mig)-(.*-)?[0-9a-f]{8}")
CHANGE, REPORT, LEAVING = "gpu-pools/change", "gpu-pools/verification", "gpu-pools/leaving"
CONDITION = "GpuSharingVerified"
STARTUP_TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/gpu-pools-unverified"


def spec_without_traces(node: dict[str, Any]) -> dict[str, Any]:
    """What changes in its spec: the list of taints is replaced whole, so the patch has to name the node's version."""
    taints = node["spec"].get("taints") or []
    kept = [taint for taint in taints if taint["key"] != STARTUP_TAINT]
    changed: dict[str, Any] = {} if kept == taints else {"taints": kept or None}
    mark = (node["metadata"].get("annotations") or {}).get(CHANGE)
    return changed | ({"unschedulable": None} if mark is not None and _is_ours(mark) else {})


def _is_ours(mark: str) -> bool:
    """Whether a change that was not ended has cordoned the node."""
    try:
        found = json.loads(mark)
        return found["cordoned"] is True and not found.get("stopped")
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def has_condition(node: dict[str, Any]) -> bool:
    """Whether a verifier has written its condition."""
    return CONDITION in [item["type"] for item in node.get("status", {}).get("conditions") or []]


def take_condition(path: str) -> None:
    """Take the condition away from the node of this path."""
    status = {"conditions": [{"type": CONDITION, "$patch": "delete"}]}
    request(f"{path}/status", {"status": status}, "strategic-merge-patch")
