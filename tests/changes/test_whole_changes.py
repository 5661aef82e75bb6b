"""Whole changes as they are told: the comment, the document for machines and what code scanning gets, against golden files.

Each is a change that somebody could make, put together so that together they have everything that can happen to a pool. The
files are in tests/golden/changes; tests/unit/golden.py says how they are renewed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.changes.blast import Limits, blast_radius
from gpu_pools.changes.markdown import comment
from gpu_pools.changes.report import document
from gpu_pools.changes.report_basis import ReportBasis
from gpu_pools.changes.sarif import sarif
from gpu_pools.changes.steps import Finding, Preview, Step
from gpu_pools.changes.workloads import Asking
from gpu_pools.hardware.prices import Prices
from gpu_pools.plan.planning import plan_config
from tests.unit.golden import golden_object

if TYPE_CHECKING:
    from gpu_pools.plan.planned import Plan

POOL, CLUSTER = "azure-native:containerservice:AgentPool", "azure-native:containerservice:ManagedCluster"
ONE, FOUR, H100, T4 = (
    *("Standard_NC24ads_A100_v4", "Standard_NC96ads_A100_v4", "Standard_NC40ads_H100_v5", "Standard_NC4as_T4_v3"),
)
SHARING: dict[str, Any] = {
    "whole": {"exclusive": {}},
    "four": {"timeSlicing": {"replicas": 4}},
    "two": {"timeSlicing": {"replicas": 2}},
    "renamed": {"timeSlicing": {"replicas": 4, "renameByDefault": True}},
    "server": {"mps": {"replicas": 4}},
    "seven": {"mig": {"layout": {"1g.10gb": 7}}},
    "sevenths": {"mig": {"layout": {"1g.12gb": 7}}},
    "uneven": {"mig": {"layout": {"1g.12gb": 4, "3g.47gb": 1}}},
    "halves": {
        "mig": {"gpus": [{"index": [0, 1], "layout": {"3g.40gb": 2}}, {"index": [2, 3], "layout": {"1g.10gb": 7}}]},
    },
}
PRICES = Prices("EUR", {ONE: 2.0, FOUR: 8.0, H100: 4.0, T4: 0.5}, {ONE: 0.5})


def aks(*pools: dict[str, Any], cluster: dict[str, Any] | None = None, **sections: Any) -> Plan:
    named = [{"vmSize": ONE, "count": 2, "sharing": "whole", **pool} for pool in pools]
    return _plan({"platform": "aks", **(cluster or {})}, named, sections)


def magnum(*pools: dict[str, Any], cluster: dict[str, Any] | None = None, **sections: Any) -> Plan:
    flavors = {"f": {"gpuModel": "a100-80gb", "gpusPerNode": 1}}
    named = [{"flavor": "f", "count": 2, "sharing": "whole", **pool} for pool in pools]
    return _plan({"platform": "magnum", "driver": "heat", **(cluster or {})}, named, {"flavors": flavors, **sections})


def existing(*pools: dict[str, Any], **sections: Any) -> Plan:
    named = [{"gpuModel": "a100-80gb", "gpusPerNode": 1, "sharing": "whole", **pool} for pool in pools]
    return _plan({"platform": "existing"}, named, sections)


def _plan(cluster: dict[str, Any], pools: list[dict[str, Any]], sections: dict[str, Any]) -> Plan:
    # Only what is used, since the rest would be warned of.
    sharing = {name: SHARING[name] for name in dict.fromkeys(pool["sharing"] for pool in pools)}
    config = {"cluster": cluster, "sharing": sharing, "pools": pools, **sections}
    text = yaml.safe_dump({f"gpu-pools:{key}": value for key, value in config.items()})
    return plan_config(yaml.safe_load(text), complete=False)


def step(op: str, name: str, kind: str = POOL, **because: tuple[str, str]) -> Step:
    old, new = ({"agentPoolName": name, **{key: sides[side] for key, sides in because.items()}} for side in (0, 1))
    return Step(op, f"urn:pulumi:a::b::{kind}::gpu-{name}-pool", kind, old, new, tuple(because))


def told(preview: Preview, before: Plan | None, after: Plan, no_pods: str = "", **given: Any) -> dict[str, Any]:
    radius = blast_radius(preview, before, after, **given)
    seen = ReportBasis("the sandbox", no_pods)
    text = "\n".join(f"- {{name: {pool.name}, count: 1}}" for pool in after.pools)
    (run,) = sarif("stacks/Pulumi.shop floor.yaml", text, radius)["runs"]
    return {"comment": comment("shop", radius, seen), "document": document("shop", radius, seen), "sarif": run}


def asking(who: str, resource: str = "nvidia.com/gpu", pool: str = "") -> Asking:
    return Asking(who, resource, (("gpu-pools/pool", pool),) if pool else ())


# ---------------------------------------------------------------- the changes


def pools_of_every_kind() -> dict[str, Any]:
    """Replaced, deleted, made, shrunk, repartitioned, shared otherwise, left alone; with prices, limits, policies and askers."""
    before = aks(
        {"name": "train", "protect": True},
        {"name": "gone", "vmSize": T4, "count": 1},
        {"name": "less", "nodes": {"min": 1, "max": 5}, "count": None},
        {"name": "cut", "vmSize": FOUR, "sharing": "seven"},
        {"name": "web", "sharing": "four"},
        {"name": "mps", "sharing": "server"},
        {"name": "grow", "count": 1, "spot": {}},
        {"name": "same", "taints": ["sku=gpu:NoSchedule"]},
        {"name": "label", "labels": {"team": "a"}},
    )
    after = aks(
        {"name": "train", "vmSize": H100, "protect": True},
        {"name": "less", "count": 2},
        {"name": "cut", "vmSize": FOUR, "sharing": "halves"},
        {"name": "web", "sharing": "renamed"},
        {"name": "mps", "sharing": "two"},
        {"name": "grow", "nodes": {"min": 1, "max": 3}, "count": None, "spot": {}},
        {"name": "same", "taints": ["sku=gpu:NoSchedule"]},
        {"name": "label", "labels": {"team": "b"}},
        {"name": "new", "count": 3},
        verification={"deadlineSeconds": 900},
    )
    findings = (
        Finding("no-spot", "mandatory", "gpu-grow-pool", "spot nodes\nmay go"),
        Finding("know-shares", "advisory", "", "a word"),
        Finding("other", "remediate", "unknown", "note"),
    )
    preview = Preview(
        (step("replace", "train", vmSize=(ONE, H100)), step("delete", "gone"), step("create", "new"), step("update", "less")),
        findings,
        ("urn:pulumi:a::b::c::gpu-train-pool",),
    )
    who = (
        asking("Deployment web", pool="web"),
        asking("Job nightly", "nvidia.com/mig-1g.10gb"),
        asking("pod a/any"),
        asking("pod a/train", pool="train"),
        asking("pod a/mps", pool="mps"),
    )
    return told(preview, before, after, asking=who, prices=PRICES, limits=Limits(2, 10.0))


def a_protected_cluster() -> dict[str, Any]:
    """The engine stops at it, and tells no more."""
    pools = ({"name": "train", "protect": True}, {"name": "web", "sharing": "four"})
    before = aks(*pools, cluster={"location": "westeurope", "protect": True})
    after = aks(*pools, cluster={"location": "northeurope", "protect": True})
    stopped = Preview((), (), ("urn:pulumi:a::b::c::gpu-cluster", "urn:pulumi:a::b::c::gpu-train-pool"), complete=False)
    return told(stopped, before, after, asking=(asking("pod a/b"),))


def a_cluster_and_an_unknown_pool() -> dict[str, Any]:
    """Two inputs force it; one of its pools would be replaced anyway, another is in no stack file."""
    pools = ({"name": "train"}, {"name": "web", "sharing": "four"})
    steps = (
        step("replace", "cluster", CLUSTER, location=("westeurope", "northeurope"), dnsPrefix=("a", "b")),
        step("replace", "web"),
        step("replace", "train", vmSize=(ONE, H100)),
        step("replace", "raw", vmSize=(ONE, H100)),
    )
    return told(Preview(steps), aks(*pools), aks({**pools[0], "vmSize": H100}, pools[1]), prices=PRICES)


def everything_is_renewed() -> dict[str, Any]:
    """Kubernetes, driver, tolerations and operands; nodes of spot pools are taken as they are."""
    pools = (
        {"name": "web", "sharing": "server"},
        {"name": "big", "vmSize": FOUR, "sharing": "seven"},
        {"name": "spot", "spot": {}},
    )
    before = aks(*pools, cluster={"kubernetesVersion": "1.36"})
    policy = {"maxParallelUpgrades": 2, "drain": {"enable": True}}
    values = {
        "driver": {"version": "580.105.08", "upgradePolicy": policy},
        "gfd": {"imagePullPolicy": "Always"},
        "toolkit": {"imagePullPolicy": "Always"},
        "daemonsets": {"rollingUpdate": {"maxUnavailable": "2"}},
    }
    after = aks(
        *pools[:2],
        {**pools[2], "taints": ["team=ml:NoExecute"]},
        cluster={"kubernetesVersion": "1.37"},
        operator={"values": values},
    )
    return told(Preview(()), before, after, no_pods="nobody may")


def another_owner_of_the_driver() -> dict[str, Any]:
    """Whoever installs it, on nodes that stay."""
    return told(Preview(()), aks({"name": "web"}), aks({"name": "web"}, operator={"driver": "preinstalled"}))


def nodes_that_exist() -> dict[str, Any]:
    """Taken over, left, and under another name; nobody knows how many there are."""
    before = existing({"name": "a", "nodeSelector": {"p": "a"}}, {"name": "b", "nodeSelector": {"p": "b"}, "sharing": "seven"})
    after = existing({"name": "c", "nodeSelector": {"p": "a"}, "sharing": "four"}, {"name": "d", "nodeSelector": {"p": "d"}})
    return told(Preview(()), before, after, prices=PRICES, limits=Limits(1, 1.0))


def a_cluster_of_magnum() -> dict[str, Any]:
    """Another template for all, a pool that goes though it is protected, one that loses nodes."""
    before = magnum({"name": "a", "protect": True}, {"name": "b", "count": 5}, cluster={"templateId": "kubernetes-1.34"})
    after = magnum({"name": "b", "count": 3}, cluster={"templateId": "kubernetes-1.35"})
    return told(Preview((), (), ("urn:pulumi:a::b::c::gpu-a-pool",)), before, after)


def what_is_acknowledged() -> dict[str, Any]:
    """Of one change now, of another that was deployed, of none."""
    pools = ({"name": "train", "sharing": "seven"}, {"name": "web", "count": 5}, {"name": "old", "count": 5})
    later = ({"name": "train"}, {"name": "web", "count": 2}, {"name": "old", "count": 2})
    (plain, draft) = aks(*pools), aks(*later)
    ids = {one["resource"]: one["change"] for one in told(Preview(()), plain, draft)["document"]["endings"]}
    used = {"resource": "old", "change": ids["old"], "reason": "it was done last week"}
    entries = [
        {"resource": "web", "change": ids["web"], "reason": "nobody works on Sunday"},
        used,
        {"resource": "train", "change": draft.pools[0].change, "reason": "it gets new nodes"},
        {"resource": "train", "change": "c00000000", "reason": "of another time"},
    ]
    return told(Preview(()), aks(*pools, acknowledged=[used]), aks(*later, acknowledged=entries))


def a_first_deploy() -> dict[str, Any]:
    """Nothing was there."""
    return told(Preview((step("create", "web"),)), None, aks({"name": "web", "sharing": "four"}), prices=PRICES, limits=Limits(1))


def an_uneven_layout() -> dict[str, Any]:
    """It changes the strategy of the whole cluster, and needs no reboot on later GPUs."""
    cut, again, web = {"name": "cut", "vmSize": H100}, {"name": "again", "vmSize": H100}, {"name": "web", "sharing": "four"}
    before = aks(cut, {**again, "sharing": "sevenths"}, web)
    after = aks({**cut, "sharing": "uneven"}, {**again, "sharing": "uneven"}, web)
    return told(Preview(()), before, after)


CHANGES = (
    *(pools_of_every_kind, a_protected_cluster, a_cluster_and_an_unknown_pool, everything_is_renewed),
    *(another_owner_of_the_driver, nodes_that_exist, a_cluster_of_magnum),
    *(what_is_acknowledged, a_first_deploy, an_uneven_layout),
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_as_it_is_told(change: Any) -> None:
    golden_object(f"changes/{change.__name__.replace('_', '-')}.yaml", change())
