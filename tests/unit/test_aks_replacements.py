"""Pools of AKS that follow each other: which one Azure's quota has room for, and what is refused before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_pools.platforms.aks.answers import MadePool, Usage, read_cluster
from gpu_pools.platforms.aks.cloud import judge
from gpu_pools.platforms.aks.replacements import as_declared
from gpu_pools.stack.kubernetes_names import POOL_LABEL, REPLACEMENT_LABEL
from tests.unit.test_azure_cloud import A100, FAMILY, POOL, T4, settings, there, usages

NEW = {"p0": "new"}


def made(replacement_id: str, size: str = A100, count: int = 2) -> MadePool:
    return MadePool(size.lower(), count, pool="p0" if replacement_id else "", replacement_id=replacement_id)


def told(left: int, size: str = A100, scaled: Any = None, **pools: MadePool) -> dict[str, str]:
    nodes = {"count": None, "nodes": scaled} if scaled else {"count": 2}
    stack: Any = settings({"vmSize": size, "replace": "surge", **nodes})
    azure = replace(usages(**{FAMILY.lower(): Usage(1000 - left, 1000)}), cluster=there(**pools))
    return {one.path: one.message for one in judge(stack.cluster, stack.pools, azure, NEW).problems}


def test_while_both_are_there_the_new_one_needs_room_of_its_own() -> None:
    assert told(48, p0=made("old")) == {}
    assert told(47, p0=made("old")) == {
        POOL: f"48 more vCPUs of the family {FAMILY} are asked for (p0), and the quota of the region leaves 47 of 1000"
    }
    assert POOL in told(47, p0old=made("old"), p0older=made("older"))


def test_the_one_that_is_there_needs_none() -> None:
    assert told(0, p0new=made("new"), p0=made("old")) == {}
    assert told(24, p0new=made("new", count=1), p0=made("old")) == {}
    assert POOL in told(23, p0new=made("new", count=1), p0=made("old"))


def test_one_that_may_be_empty_begins_with_a_node_and_needs_none_once_it_is_there() -> None:
    scaled = {"min": 0, "max": 4}
    assert POOL in told(23, scaled=scaled, p0=made("old"))
    assert told(24, scaled=scaled, p0=made("old")) == {}
    assert told(0, scaled=scaled, p0new=made("new", count=0), p0=made("old")) == {}


def test_one_that_was_there_before_is_taken_for_the_declared_one() -> None:
    assert told(0, p0=made("")) == {}


def test_a_replacement_of_one_that_was_there_before_is_refused_until_it_has_an_id() -> None:
    assert told(1000, p0=made("", T4)) == {
        f"{POOL}.replace": f'is not deployed yet, and the pool that is there is of another size ("{T4.lower()}"): it would be '
        "deleted first, with the pods on it"
    }
    assert told(1000, p0=made("old", T4)) == {}


def test_others_stay_as_they_are() -> None:
    cluster = there(p0=made("old"), p0new=made("new"), other=MadePool("x", 1))
    cluster = replace(cluster, subnets={"p0": ("old", ""), "p0new": ("lies", ""), "other": ("o", "")})
    seen = as_declared(cluster, NEW)
    assert (seen.pools["p0"], seen.subnets["p0"], seen.pools["other"]) == (made("new"), ("lies", ""), MadePool("x", 1))
    assert "p0" not in as_declared(there(p0=made("old")), NEW).pools
    assert as_declared(cluster, {}) == cluster


def test_azure_tells_both_labels() -> None:
    labels = {POOL_LABEL: "p0", REPLACEMENT_LABEL: "new", "a": "b"}
    pools = [{"name": "p0new", "vmSize": A100, "count": 1, "nodeLabels": labels}, {"name": "p1", "vmSize": A100, "count": 1}]
    cluster = read_cluster({"location": "westeurope", "properties": {"agentPoolProfiles": pools}})
    assert cluster.pools == {
        "p0new": MadePool(A100.lower(), 1, pool="p0", replacement_id="new"),
        "p1": MadePool(A100.lower(), 1),
    }
