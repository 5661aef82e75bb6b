"""Somebody has to have read of exactly this replacement: what `changes` makes of acknowledgements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from changes.acknowledged import Standing, replacements, standing
from changes.blast import blast_radius
from changes.markdown import comment
from changes.sarif import sarif
from changes.seen import Seen
from changes.steps import Preview, Step
from gpus.plan import plan_config

from .stacks import BEFORE

if TYPE_CHECKING:
    from gpus.plan import Plan

POOL, CLUSTER = "azure-native:containerservice:AgentPool", "azure-native:containerservice:ManagedCluster"
SECTION = "gpu-pools:acknowledged"
#: What the engine stops at when a cluster goes with all that is in it.
STOPPED = Preview((), (), ("urn:pulumi:a::b::x::gpu-train-pool",), complete=False)


def stack(*acknowledged: tuple[str, str], protect: bool = True, **train: Any) -> Plan:
    """The stack of the previews, with other settings of its pool `train`."""
    config = yaml.safe_load(BEFORE)["config"]
    config["gpu-pools:cluster"]["protect"] = protect
    for pool in config["gpu-pools:pools"]:
        pool["protect"] = protect
    config["gpu-pools:pools"][-1].update(train)
    if acknowledged:
        config[SECTION] = [{"resource": name, "change": change, "reason": "moved by hand"} for name, change in acknowledged]
    return plan_config(config)


def replaced(kind: str, name: str, *because: str) -> Step:
    inputs = {"agentPoolName": name, "vmSize": "a"}
    return Step("replace", f"urn:pulumi:a::b::{kind}::gpu-{name}-pool", kind, inputs, {**inputs, "vmSize": "b"}, because)


OLD, NEW = stack(), stack(vmSize="Standard_NC48ads_A100_v4")
TRAIN = Preview((replaced(POOL, "train", "vmSize"),))


def test_a_replacement_is_acknowledged_by_what_the_pool_shall_be() -> None:
    (one,) = replacements(TRAIN, OLD, NEW)
    assert (one.resource, one.acknowledged, one.changes) == ("train", None, (("vmSize", '"a"', '"b"'),))
    (one,) = replacements(TRAIN, OLD, stack(("train", NEW.pools[2].change), vmSize="Standard_NC48ads_A100_v4"))
    assert one.acknowledged == "moved by hand"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(("train", OLD.pools[2].change), id="what it was"),
        pytest.param(("slices", NEW.pools[1].change), id="another pool"),
        pytest.param(("slices", NEW.pools[2].change), id="under the name of another pool"),
        pytest.param(("cluster", NEW.change), id="the cluster"),
    ],
)
def test_an_acknowledgement_holds_for_no_other_change(other: tuple[str, str]) -> None:
    (one,) = replacements(TRAIN, OLD, stack(other, vmSize="Standard_NC48ads_A100_v4"))
    assert one.acknowledged is None


def test_pools_that_follow_their_cluster_need_none_of_their_own_and_others_do() -> None:
    steps = (replaced(POOL, "slices"), replaced(POOL, "train", "vmSize"), replaced(CLUSTER, "c", "location"))
    assert [one.resource for one in replacements(Preview(steps), OLD, NEW)] == ["cluster", "train"]


def test_what_the_stack_file_does_not_declare_cannot_be_acknowledged_there() -> None:
    radius = blast_radius(Preview((replaced(POOL, "raw", "vmSize"),)), OLD, OLD)
    assert [(one.resource, one.id) for one in radius.replaced] == [("gpu-raw-pool", None)]
    assert "the stack file does not declare it" in radius.blocked[0]
    assert SECTION not in comment("shop", radius, Seen())


@pytest.mark.parametrize("op", ["create", "update", "delete", "same"])
def test_only_replacements_count(op: str) -> None:
    assert replacements(Preview((Step(op, "urn:pulumi:a::b::c::x", POOL),)), OLD, NEW) == ()


class TestCluster:
    """A protected cluster goes in two deploys: the engine looks for protection where things are deployed."""

    def test_an_engine_that_stopped_has_told_nothing_and_all_is_taken_for_replaced(self) -> None:
        radius = blast_radius(STOPPED, OLD, OLD)
        assert radius.cluster_replaced
        assert {pool.effects for pool in radius.pools} == {("replaced",)}
        text = comment("shop", radius, Seen())
        assert "did not tell all that happens" in text
        assert len(radius.blocked) == 2
        told = [one["message"]["text"] for one in sarif("Pulumi.shop.yaml", "", radius)["runs"][0]["results"]]
        assert f"The cluster is replaced. Acknowledge it as change {OLD.change}, or avoid it." in told

    def test_what_is_deployed_is_acknowledged_before_what_shall_be(self) -> None:
        (one,) = replacements(STOPPED, OLD, NEW)
        assert (one.resource, one.first, one.id) == ("cluster", OLD.change, NEW.change)
        (one,) = replacements(STOPPED, stack(("cluster", OLD.change)), NEW)
        assert one.first is None

    def test_what_was_never_protected_needs_no_deploy_before(self) -> None:
        (one,) = replacements(Preview((replaced(CLUSTER, "c", "location"),)), stack(protect=False), NEW)
        assert (one.first, one.id) == (None, NEW.change)

    def test_a_change_that_is_acknowledged_but_still_protected_is_blocked(self) -> None:
        radius = blast_radius(STOPPED, OLD, stack(("cluster", OLD.change)))
        assert [one.acknowledged for one in radius.replaced] == ["moved by hand"]
        assert radius.blocked == ("the engine refuses to replace or delete gpu-train-pool, which is protected",)


def test_a_protected_pool_that_goes_is_freed_in_a_commit_before() -> None:
    gone = Step("delete", f"urn:pulumi:a::b::{POOL}::gpu-train-pool", POOL, {"agentPoolName": "train"})
    config = yaml.safe_load(BEFORE)["config"]
    config["gpu-pools:pools"].pop()
    radius = blast_radius(Preview((gone,), (), (gone.urn,)), OLD, plan_config(config))
    assert radius.blocked == ("the engine refuses to replace or delete gpu-train-pool, which is protected",)
    ((pool, steps),) = radius.steps
    assert pool == "train"
    assert f"{{resource: train, change: {OLD.pools[2].change}," in steps[0]
    # What it advises holds: the pool as it is, and unprotected.
    assert not stack(("train", OLD.pools[2].change)).pools[2].protect


def test_the_comment_tells_of_entries_that_nothing_here_asks_for() -> None:
    after = stack(("train", OLD.pools[2].change), ("slices", "c00000000"))
    assert list(standing((), after)) == [
        Standing("train", OLD.pools[2].change, holds=True),
        Standing("slices", "c00000000", holds=False),
    ]
    text = comment("shop", blast_radius(Preview(()), OLD, after), Seen())
    assert f"The acknowledgement `{OLD.pools[2].change}` of `train` keeps its protection off." in text
    assert "The acknowledgement `c00000000` of `slices` is used up: take it out." in text
