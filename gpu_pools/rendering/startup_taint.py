"""The startup taint: nodes of verified pools register with it, and their verifier takes it away once they have passed.

They register with it, and are not given it later: between a node's registration and any patch a pod could start on it. How they
can depends on who makes the nodes.

- AKS: the API server puts it on a node when the node registers, by a MutatingAdmissionPolicy. The pool's own ``nodeTaints``
  cannot do it: AKS refuses everybody who takes such a taint away through the Kubernetes API (azure-aks-docs, use-node-taints;
  Azure/AKS#2934; release 2022-04-24), so no node would ever be free. Its node initialization taints could, but are a preview:
  they go through the managed cluster's request only, block requests for single pools, and the pinned SDK (API 2025-09-01) has
  no field for them. A taint that no pool has may be removed (inferred from those sources; users in #2934 put theirs on by an
  admission webhook). The pool's label is there by then: AKS hands it to the kubelet (``KUBELET_NODE_LABELS`` of its images).
  None of this was tried on a real AKS.
- Magnum's heat driver: the kubelet registers with it (gpu_pools/plan/placing.py).
- Magnum's Cluster API drivers: none. Their labels are synchronized after a node has registered (cluster-api, proposal
  20220927-label-sync-between-machine-and-nodes), so that nothing tells the pool when it registers, and NFD may not set this key.
- Existing clusters: the same policy as on AKS; it sees those nodes that bring the labels of ``nodeSelector`` when they register.

MutatingAdmissionPolicy is stable, and on, since Kubernetes 1.36 (KEP-3962). The key's prefix tells the cluster autoscaler that
the taint goes by itself: such a node is not ready yet, and no reason to add more (kubernetes/autoscaler, FAQ, startup taints).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.known import platform_of
from gpu_pools.stack.kubernetes_names import Taint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.stack.cluster import Cluster
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

STARTUP_TAINT: Final = Taint("startup-taint.cluster-autoscaler.kubernetes.io/gpu-pools-unverified", "", "NoSchedule")
POLICY: Final = "gpu-pools-startup-taint"
_PATH: Final = "gpu-pools:verification.startupTaint"
#: MutatingAdmissionPolicy v1.
_LEAST_KUBERNETES: Final = (1, 36)
LEAST_KUBERNETES: Final = ".".join(map(str, _LEAST_KUBERNETES))


def refusal(cluster: Cluster) -> str:
    """Why nodes of this cluster cannot have the startup taint; empty where they can, as far as is declared."""
    if cluster.driver and cluster.tainted_by is None:
        return f"nodes of Magnum's driver {cluster.driver} cannot register with a taint"
    if cluster.kubernetes_version:
        version = tuple(int(part) for part in cluster.kubernetes_version.split("."))
        if version < _LEAST_KUBERNETES:
            return f"needs Kubernetes {LEAST_KUBERNETES}, and gpu-pools:cluster.kubernetesVersion is {cluster.kubernetes_version}"
    return ""


def check_startup_taint(settings: Settings, problems: Problems) -> None:
    """What stands against the startup taint where a stack wants it."""
    if not settings.verification.startup_taint:
        return
    if against := refusal(settings.cluster):
        on_aks = settings.cluster.declares_version
        problems.add(
            _PATH,
            against,
            allowed=f"true with Kubernetes {LEAST_KUBERNETES} or newer"
            if on_aks
            else "true on AKS, with Magnum's driver heat and on existing clusters",
            remedy=f'Set kubernetesVersion: "{LEAST_KUBERNETES}", or leave startupTaint out.'
            if on_aks
            else "Leave it out; the deploy still waits until the nodes have passed.",
        )
    for pool in settings.pools:
        for index, taint in enumerate(pool.taints):
            if taint.key == STARTUP_TAINT.key:
                problems.add(
                    f"{pool.path}.taints[{index}]",
                    f'"{taint}" is the startup taint of the verification',
                    allowed="taints that stay",
                    remedy="Remove it: `startupTaint: true` puts it on new nodes, and the verifier takes it away.",
                )


def startup_taint_warnings(settings: Settings) -> Iterator[str]:
    """What a stack with the startup taint should know of each of its pools."""
    if not settings.verification.startup_taint:
        return
    yield from platform_of(settings.cluster).startup_taint_warnings(settings.cluster, LEAST_KUBERNETES)


def admission_policy_spec() -> dict[str, Any]:
    """The ``spec`` of the MutatingAdmissionPolicy; which nodes it is for is said by a binding per pool."""
    taint = f"Object.spec.taints{{key: '{STARTUP_TAINT.key}', effect: '{STARTUP_TAINT.effect}'}}"
    added, first = (
        f"[JSONPatch{{op: 'add', path: '{path}', value: {value}}}]"
        for path, value in (("/spec/taints/-", taint), ("/spec/taints", f"[{taint}]"))
    )
    return {
        # A node that cannot be judged waits and asks again: better than one that runs pods unproven.
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["nodes"], "scope": "*"}
            ]
        },
        "matchConditions": [
            {
                "name": "without-it",
                "expression": f"!object.spec.?taints.orValue([]).exists(taint, taint.key == '{STARTUP_TAINT.key}')",
            }
        ],
        "mutations": [
            {"patchType": "JSONPatch", "jsonPatch": {"expression": f"has(object.spec.taints) ? {added} : {first}"}},
        ],
    }


def admission_binding_spec(selector: Mapping[str, str]) -> dict[str, Any]:
    """The ``spec`` of the binding of one pool.

    Args:
        selector: the labels that tell the pool's nodes apart.
    """
    return {"policyName": POLICY, "matchResources": {"objectSelector": {"matchLabels": dict(selector)}}}
