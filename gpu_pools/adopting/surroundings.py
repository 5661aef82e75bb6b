"""The operator and NFD around adopted pools: used where they are there, installed where they are not, and said either way.

A release that Helm has installed cannot come into the engine's state (pulumi/pulumi-kubernetes#2116), so an operator that is
there stays its owner's, and the stack sets only what decides how GPUs are shared (`install: false`, decision 50).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.adopting.adopted import NotAdoptableError, Unsaid
from gpu_pools.adopting.inside import other_policy
from gpu_pools.hardware.operands import parse_version
from gpu_pools.stack.adoption import CLUSTER_POLICY
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from gpu_pools.text.errors import Problem

if TYPE_CHECKING:
    from gpu_pools.adopting.adopted import Adopted
    from gpu_pools.adopting.inside import Inside

#: Bound tokens that name their node (gpu_pools/proof/verifier_rights.py).
_VERIFIES: Final = (1, 30)
#: Set by the operator on each GPU node; it leaves them there when it is uninstalled.
_DEPLOYED: Final = "nvidia.com/gpu.deploy."


def attach(adopted: Adopted, inside: Inside, driver: str, kubernetes: str = "", *, add_ons: bool = False) -> None:
    """Write the sections of operator, NFD and verification.

    Args:
        adopted: is added to.
        inside: what is in the cluster.
        driver: who installs it on these pools, as their cloud says; empty: the cloud does not say.
        kubernetes: version of the cluster; empty where it is not known.
        add_ons: whether clusters of this kind come with operator and NFD, so that a stack must say which it is.

    Raises:
        NotAdoptableError: if the operator that is there cannot be used.
    """
    if why := other_policy(inside):
        path = f"ClusterPolicy {inside.policy_name}"
        remedy = "Have its owner install NVIDIA's chart under its own names, in the namespace gpu-operator."
        raise NotAdoptableError([Problem(path, why, "the operator as NVIDIA's chart installs it", remedy)])
    unseen = add_ons and not inside.looked
    _operator(adopted, inside, driver, there=inside.operator or unseen)
    _nfd(adopted, there=inside.nfd or unseen)
    for section in ("operator", "nodeFeatureDiscovery") if add_ons else ():
        adopted.sections.setdefault(section, {}).setdefault("install", True)
    if (version := parse_version(kubernetes)) and version < _VERIFIES:
        need = f"need Kubernetes 1.30, and the cluster has {kubernetes}"
        why = f"{need}: nothing proves what its nodes do. Write `verification` once it is newer"
        adopted.unsaid.append(Unsaid("the verifiers", why))
    else:
        adopted.sections["verification"] = {}
        adopted.managed.append(
            "the verifiers on the pools' nodes, in gpu-pools-verifier: the first `up` waits until they find what is declared"
        )
    adopted.unsaid += _around(inside)


def _operator(adopted: Adopted, inside: Inside, driver: str, *, there: bool) -> None:
    installs = bool(_section(inside.policy.get("driver")).get("enabled", True))
    owner = driver or ("operator" if not inside.operator or installs else "preinstalled")
    section: dict[str, Any] = {"driver": owner}
    adopted.sections["operator"] = section
    if not there:
        adopted.managed.append(f"the GPU operator, which the first `up` installs in {OPERATOR_NAMESPACE}")
        return
    section["install"] = False
    strategy = _section(inside.policy.get("mig")).get("strategy")
    if strategy in {"single", "mixed"}:
        section["migStrategy"] = strategy
    adopted.managed.append(
        f"of the GPU operator that is there: in its ClusterPolicy {inside.policy_name or CLUSTER_POLICY} the configs, "
        "tolerations, MIG strategy, and whether it installs driver and toolkit; its chart, version and images stay its owner's"
    )
    if inside.operator and installs != (owner == "operator"):
        adopted.managed.append(
            f"driver.enabled and toolkit.enabled of that ClusterPolicy become {str(owner == 'operator').lower()}"
        )


def _nfd(adopted: Adopted, *, there: bool) -> None:
    if not there:
        adopted.managed.append("Node Feature Discovery, which the first `up` installs")
        return
    adopted.sections["nodeFeatureDiscovery"] = {"install": False}
    adopted.managed.append(
        "nothing of the Node Feature Discovery that is there but what it needs for the pools' labels: rules and labellers"
    )


def _around(inside: Inside) -> list[Unsaid]:
    if not inside.looked:
        why = "was not looked at: operator, NFD, other device plugins, and how nodes share. Give --kubernetes or --context"
        return [Unsaid("the inside of the cluster", why)]
    found = [
        Unsaid(
            f"DaemonSet {one}",
            "is a device plugin beside the operator's: both advertise the same GPUs. Delete it right before the first `up`",
        )
        for one in inside.plugins
    ]
    if not inside.operator and any(key.startswith(_DEPLOYED) for node in inside.nodes for key in node.labels):
        why = (
            "has left labels on the nodes, and no ClusterPolicy was read. Where it is still there, give its ClusterPolicy, too "
            "(kubectl get clusterpolicies.nvidia.com --output json): this stack installs one, and its `up` ends beside another"
        )
        found.append(Unsaid("the GPU operator", why))
    for operand in ("devicePlugin", "migManager"):
        name, _, data = inside.config_of(operand)
        if inside.operator and name:
            why = f"with {len(data)} keys stays as it is; the ClusterPolicy names the stack's own from the first `up` on"
            found.append(Unsaid(f"ConfigMap {OPERATOR_NAMESPACE}/{name}", why))
    return found


def _section(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
