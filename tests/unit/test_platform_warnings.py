"""What is warned of on one platform and not on another, of the same pools: each difference has a reason here.

A warning that only one platform has is either about that platform, or was forgotten on the others.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.unit.stacks import aks, existing, magnum, plan_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SHARING: Final[Mapping[str, Any]] = {
    "mig": {"mig": {"layout": {"1g.10gb": 7}}},
    "mixed": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}},
    "sliced": {"timeSlicing": {"replicas": 4, "renameByDefault": True}},
    "mps": {"mps": {"replicas": 40}},
    "whole": {"exclusive": {}},
}
SECTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "plain": {},
    "startup taint": {"verification": {"startupTaint": True}},
    "an old chart": {"operator": {"version": "v25.3.4"}},
    "values": {
        "operator": {
            "values": {
                "driver": {"nvidiaDriverCRD": {"enabled": True, "deployDefaultCR": False}},
                "devicePlugin": {"env": [{"name": "DEVICE_LIST_STRATEGY", "value": "volume-mounts"}]},
            }
        }
    },
    "adopted": {"operator": {"install": False}, "nodeFeatureDiscovery": {"install": False}},
    "preinstalled": {"operator": {"driver": "preinstalled"}},
    "a minimum": {"pool": {"minimum": {"driver": "400", "cuda": "11.0"}}},
    "a rollout": {"verification": {}, "pool": {"rollout": {"maxUnavailable": 1}}},
}
#: How a warning begins, or what is in it -> the platforms that have it, and why the others do not.
DIFFERENCES: Final[Mapping[str, tuple[frozenset[str], str]]] = {
    "scaling from zero: until a node lives": (frozenset({"aks"}), "Magnum has W87 and W88; who scales other nodes is not known"),
    "is judged unready (C04)": (frozenset({"aks", "magnum"}), "who scales the nodes of an existing cluster is not known"),
    "a node reboots once": (frozenset({"aks", "magnum"}), "their nodes are virtual; those of an existing cluster may be"),
    "switching MIG mode on needs a reset": (frozenset({"existing"}), "the other half of it"),
    "a RuntimeClass nvidia that the cluster has already": (frozenset({"existing"}), "a new cluster has none"),
    "nothing cleans the nodes": (frozenset({"existing"}), "the nodes of a new cluster go with it"),
    "nobody scales this pool": (frozenset({"magnum"}), "by Magnum's drivers (W87)"),
    "with rollout a new node has no sharing labels": (frozenset({"aks"}), "elsewhere NFD sets them"),
    "whether Azure's own default is": (frozenset({"aks"}), "of the version that an admission policy needs"),
    "reaches only nodes that have the labels": (frozenset({"existing"}), "nodes of a cloud's pools register with them"),
}
STACKS: Final = {"aks": aks, "magnum": magnum, "existing": existing}


def warnings(platform: str, declared: str, sections: Mapping[str, Any]) -> set[str]:
    """What is warned of an autoscaled pool of A100 with 80 GB; no words of the platform's own in it."""
    pool: dict[str, Any] = {"nodes": {"min": 0, "max": 3}, **sections.get("pool", {})}
    more = {name: value for name, value in sections.items() if name != "pool"}
    if platform == "magnum":
        more["flavors"] = {"g2.5xlarge": {"gpuModel": "a100-80gb", "gpusPerNode": 1}}
    if platform == "existing":
        pool.pop("nodes")
    else:
        pool["count"] = ...
    stack = STACKS[platform](pool, sharing={declared: SHARING[declared]}, **more)
    (pool_plan,) = plan_of(stack).pools
    return set(pool_plan.warnings)


def of_all(warning: str) -> str:
    """The warning without what follows from the cluster: its Kubernetes, or the way that its nodes get a taint."""
    return warning.partition(", which needs Kubernetes")[0].partition(" (no startupTaint here")[0]


@pytest.mark.parametrize(("declared", "section"), [*product(SHARING, SECTIONS)])
def test_each_difference_between_platforms_has_its_reason(declared: str, section: str) -> None:
    # A new cluster of AKS comes without an operator.
    platforms = ["magnum", "existing"] if section == "adopted" else [*STACKS]
    told = {name: {of_all(one) for one in warnings(name, declared, SECTIONS[section])} for name in platforms}
    for warning in set.union(*told.values()):
        has = {name for name in platforms if warning in told[name]}
        expected = next((known for part, (known, _) in DIFFERENCES.items() if part in warning), frozenset(STACKS))
        assert has == expected & {*platforms}, warning


@pytest.mark.parametrize("part", DIFFERENCES)
def test_each_difference_is_met(part: str) -> None:
    has = {
        name
        for name, declared, section in product(STACKS, SHARING, SECTIONS)
        if not (name == "aks" and section == "adopted")
        and any(part in one for one in warnings(name, declared, SECTIONS[section]))
    }
    assert has == DIFFERENCES[part][0]


CLUSTERS_THAT_WERE_THERE: Final[Mapping[str, Mapping[str, Any]]] = {
    "aks": {"platform": "aks", "existing": {"resourceGroup": "a", "name": "b"}},
    "magnum": {"platform": "magnum", "driver": "heat", "existing": {"uuid": "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"}},
    "existing": {"platform": "existing"},
}


@pytest.mark.parametrize("platform", STACKS)
def test_what_a_cluster_that_was_there_may_have_and_keeps_is_said_on_every_platform(platform: str) -> None:
    gone = dict.fromkeys(("name", "location", "systemPool", "templateId", "driver"), ...)
    cluster = {**gone, **CLUSTERS_THAT_WERE_THERE[platform]}
    stack = STACKS[platform](cluster=cluster, operator={"version": "v25.10.1"})
    (pool_plan,) = plan_of(stack).pools
    assert sum("(W41)" in one for one in pool_plan.warnings) == 1
    assert sum("(W48)" in one for one in pool_plan.warnings) == 1


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        ({}, "set gpu-pools:operator.values.migManager.env WITH_REBOOT=true"),
        ({"install": False}, "their operator's owner sets migManager.env WITH_REBOOT=true"),
        ({"values": {"migManager": {"env": [{"name": "WITH_REBOOT", "value": "true"}]}}}, ""),
        ({"values": {"migManager": {"env": [{"name": "WITH_REBOOT", "value": "false"}]}}}, "set gpu-pools:operator.values."),
    ],
)
def test_r03_on_an_existing_cluster_ends_with_what_to_write(operator: dict[str, Any], said: str) -> None:
    (pool_plan,) = plan_of(existing(sharing={"mig": SHARING["mig"]}, operator=operator)).pools
    found = [one for one in pool_plan.warnings if "R03" in one]
    assert [said in one for one in found] == ([True] if said else [])


def test_r03_is_not_said_of_gpus_that_need_no_reset() -> None:
    sharing = {"mig": {"mig": {"layout": {"1g.10gb": 7}}}}
    (pool_plan,) = plan_of(existing({"gpuModel": "h100-80gb"}, sharing=sharing)).pools
    assert not [one for one in pool_plan.warnings if "R03" in one]
