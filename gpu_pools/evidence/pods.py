"""``python -m gpu_pools.evidence.pods STACK``: the pods that run in a stack's cluster, for `python -m gpu_pools changes --pods`.

Prints a list as the API has it, of each pod only what counts there: its name, its phase, which nodes it wants and what its
containers ask for. Environments and arguments, which may hold secrets, do not get out of here.

Exit codes: 0 printed; 2 it cannot be told, and the standard error says why.
"""

from __future__ import annotations

if __name__ == "__main__":
    from gpu_pools.text.interrupts import end_at_once

    # Before the rest is loaded.
    end_at_once()

import argparse
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.stack import kubeconfig_of, outputs_of
from gpu_pools.kubernetes_api.cluster_api import ClusterApi
from gpu_pools.kubernetes_api.errors import ClusterError
from gpu_pools.kubernetes_api.login import Kubeconfig
from gpu_pools.text.interrupts import answered
from gpu_pools.text.terminal import guarded

if TYPE_CHECKING:
    from collections.abc import Sequence

_CANNOT_TELL: Final = 2


@guarded()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gpu_pools.evidence.pods", description="List the pods of a stack's cluster.")
    parser.add_argument("stack", help="the stack, whose outputs `pulumi stack output` tells")
    options = parser.parse_args(arguments)
    try:
        outputs = outputs_of(options.stack, with_secrets=True)
        with ClusterApi(Kubeconfig(kubeconfig_of(outputs), context=_context(outputs))) as api:
            pods = api.items("/api/v1/pods")
    except (ClusterError, EvidenceError) as error:
        print(f"cannot tell: {error.message}\n{error.remedy}", file=sys.stderr)
        return _CANNOT_TELL
    print(json.dumps({"items": [_short(pod) for pod in pods]}))
    return 0


def _context(outputs: Mapping[str, Any]) -> str | None:
    verification = _at(outputs, "verification")
    context = verification.get("context")
    return context if isinstance(context, str) else None


def _short(pod: Mapping[str, Any]) -> dict[str, Any]:
    metadata, spec = _at(pod, "metadata"), _at(pod, "spec")
    containers = {
        group: [{"resources": one.get("resources") or {}} for one in _items(spec, group)]
        for group in ("initContainers", "containers")
    }
    return {
        "metadata": {key: metadata.get(key) for key in ("namespace", "name")},
        "spec": {"nodeSelector": spec.get("nodeSelector") or {}, **containers},
        "status": {"phase": _at(pod, "status").get("phase")},
    }


def _at(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inside = value.get(key)
    return inside if isinstance(inside, Mapping) else {}


def _items(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    inside = value.get(key)
    return [one for one in inside if isinstance(one, Mapping)] if isinstance(inside, list) else []


if __name__ == "__main__":
    sys.exit(answered(main))
