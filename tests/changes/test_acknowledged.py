"""Somebody has to have read of exactly this replacement: what `changes` makes of acknowledgements."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.changes.acknowledged import Standing, endings, standing
from gpu_pools.changes.blast import blast_radius
from gpu_pools.changes.markdown import comment
from gpu_pools.changes.report_basis import ReportBasis
from gpu_pools.changes.sarif import sarif
from gpu_pools.changes.steps import Preview, Step
from gpu_pools.plan.change_ids import pool_goes
from gpu_pools.plan.planning import plan_config
from gpu_pools.policies.acknowledged import acknowledged_by

from .stacks import BEFORE

if TYPE_CHECKING:
    from gpu_pools.plan.planned import Plan

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
    (one,) = endings(TRAIN, OLD, NEW)
    assert (one.resource, one.acknowledged, one.changes) == ("train", None, (("vmSize", '"a"', '"b"'),))
    (one,) = endings(TRAIN, OLD, stack(("train", NEW.pools[2].change), vmSize="Standard_NC48ads_A100_v4"))
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
    (one,) = endings(TRAIN, OLD, stack(other, vmSize="Standard_NC48ads_A100_v4"))
    assert one.acknowledged is None


def test_pools_that_follow_their_cluster_need_none_of_their_own_and_others_do() -> None:
    steps = (replaced(POOL, "slices"), replaced(POOL, "train", "vmSize"), replaced(CLUSTER, "c", "location"))
    assert [one.resource for one in endings(Preview(steps), OLD, NEW)] == ["cluster", "train"]


def test_what_the_stack_file_does_not_declare_cannot_be_acknowledged_there() -> None:
    radius = blast_radius(Preview((replaced(POOL, "raw", "vmSize"),)), OLD, OLD)
    assert [(one.resource, one.id) for one in radius.endings] == [("gpu-raw-pool", None)]
    assert "the stack file does not declare it" in radius.blocked[0]
    assert SECTION not in comment("shop", radius, ReportBasis())


@pytest.mark.parametrize("op", ["create", "update", "same"])
def test_only_what_ends_pods_counts(op: str) -> None:
    assert endings(Preview((Step(op, "urn:pulumi:a::b::c::x", POOL),)), OLD, NEW) == ()


def test_a_pool_that_only_the_program_declares_cannot_be_acknowledged_when_it_goes() -> None:
    gone = Step("delete", f"urn:pulumi:a::b::{POOL}::raw", POOL, {"agentPoolName": "raw"})
    radius = blast_radius(Preview((gone,)), OLD, OLD)
    assert radius.blocked[0].startswith("the pool raw is deleted, and the stack file does not declare it")


def test_a_cluster_that_goes_is_told() -> None:
    gone = Step("delete", f"urn:pulumi:a::b::{CLUSTER}::gpu-cluster", CLUSTER)
    assert [one.how for one in blast_radius(Preview((gone,)), OLD, OLD).endings] == ["is deleted"]


class TestCluster:
    """A protected cluster goes in two deploys: the engine looks for protection where things are deployed."""

    def test_an_engine_that_stopped_has_told_nothing_and_all_is_taken_for_replaced(self) -> None:
        radius = blast_radius(STOPPED, OLD, OLD)
        assert radius.cluster_replaced
        assert {pool.effects for pool in radius.pools} == {("replaced",)}
        text = comment("shop", radius, ReportBasis())
        assert "did not tell all that happens" in text
        assert len(radius.blocked) == 2
        told = [one["message"]["text"] for one in sarif("Pulumi.shop.yaml", "", radius)["runs"][0]["results"]]
        assert f"The cluster is replaced. Acknowledge it as change {OLD.change}, or avoid it." in told

    def test_what_is_deployed_is_acknowledged_before_what_shall_be(self) -> None:
        (one,) = endings(STOPPED, OLD, NEW)
        assert (one.resource, one.first, one.id) == ("cluster", OLD.change, NEW.change)
        (one,) = endings(STOPPED, stack(("cluster", OLD.change)), NEW)
        assert one.first is None

    def test_what_was_never_protected_needs_no_deploy_before(self) -> None:
        (one,) = endings(Preview((replaced(CLUSTER, "c", "location"),)), stack(protect=False), NEW)
        assert (one.first, one.id) == (None, NEW.change)

    def test_a_change_that_is_acknowledged_but_still_protected_is_blocked(self) -> None:
        radius = blast_radius(STOPPED, OLD, stack(("cluster", OLD.change)))
        assert [one.acknowledged for one in radius.endings] == ["moved by hand"]
        assert radius.blocked == ("the engine refuses to replace or delete gpu-train-pool, which is protected",)


def test_a_protected_pool_that_goes_is_freed_in_a_commit_before() -> None:
    gone = Step("delete", f"urn:pulumi:a::b::{POOL}::gpu-train-pool", POOL, {"agentPoolName": "train"})
    config = yaml.safe_load(BEFORE)["config"]
    config["gpu-pools:pools"].pop()
    radius = blast_radius(Preview((gone,), (), (gone.urn,)), OLD, plan_config(config))
    assert radius.blocked == (
        "the pool train is deleted, and nobody acknowledged it",
        "the engine refuses to replace or delete gpu-train-pool, which is protected",
    )
    ((pool, steps),) = radius.steps
    assert pool == "train"
    assert f"{{resource: train, change: {OLD.pools[2].change}," in steps[0]
    # What it advises holds: the pool as it is, and unprotected; then it may go, by the same entry.
    freed = stack(("train", OLD.pools[2].change))
    assert not freed.pools[2].protect
    assert not blast_radius(Preview((gone,)), freed, plan_config(config)).blocked


def test_a_pool_is_freed_by_its_own_entry_whatever_stands_before_it() -> None:
    config = yaml.safe_load(BEFORE)["config"]
    config["gpu-pools:cluster"]["protect"] = True
    config["gpu-pools:pools"][-1]["protect"] = True
    config[SECTION] = [
        {"resource": "slices", "change": OLD.pools[2].change, "reason": "another pool's"},
        {"resource": "train", "change": "c00000000", "reason": "another change's"},
        {"resource": "train", "change": OLD.pools[2].change, "reason": "moved by hand"},
    ]
    before = plan_config(config)
    del config[SECTION]
    config["gpu-pools:pools"].pop()
    gone = Step("delete", f"urn:pulumi:a::b::{POOL}::gpu-train-pool", POOL, {"agentPoolName": "train"})
    (one,) = blast_radius(Preview((gone,)), before, plan_config(config)).endings
    assert (one.resource, one.acknowledged) == ("train", "moved by hand")


def test_the_comment_tells_of_entries_that_nothing_here_asks_for() -> None:
    after = stack(("train", OLD.pools[2].change), ("slices", "c00000000"))
    assert list(standing((), after)) == [
        Standing("train", OLD.pools[2].change, holds=True),
        Standing("slices", "c00000000", holds=False),
    ]
    text = comment("shop", blast_radius(Preview(()), OLD, after), ReportBasis())
    assert f"The acknowledgement `{OLD.pools[2].change}` of `train` keeps its protection off." in text
    assert "The acknowledgement `c00000000` of `slices` is used up: take it out." in text


class TestTheSameRuleForAll:
    """Whatever takes nodes or GPUs from pods needs an acknowledgement, which fits nothing else."""

    def _after(self, *acknowledged: tuple[str, str], drop: str = "", **sections: Any) -> Plan:
        config = yaml.safe_load(BEFORE)["config"]
        for name, change in sections.items():
            config[f"gpu-pools:{name}"] = {**config.get(f"gpu-pools:{name}", {}), **change}
        config["gpu-pools:pools"] = [pool for pool in config["gpu-pools:pools"] if pool["name"] != drop]
        config[SECTION] = [{"resource": name, "change": change, "reason": "told in the channel"} for name, change in acknowledged]
        return plan_config(config)

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"drop": "slices"}, "the pool slices is deleted"),
            ({"sharing": {"slices": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}}}}, "the pool slices is repartitioned"),
            ({"sharing": {"slices": {"exclusive": {}}}}, "the pool slices is repartitioned, with a reboot"),
            ({"cluster": {"kubernetesVersion": "1.36"}}, "the cluster has Kubernetes renewed on its nodes"),
            ({"operator": {"values": {"driver": {"version": "580.105.08"}}}}, "the cluster has the driver renewed on its nodes"),
        ],
    )
    def test_it_is_blocked_until_just_that_is_acknowledged(self, change: dict[str, Any], told: str) -> None:
        before = self._after()
        radius = blast_radius(Preview(()), before, self._after(**change))
        assert radius.blocked == (f"{told}, and nobody acknowledged it",)
        (ending,) = radius.endings
        assert ending.id
        entry = (ending.resource, ending.id)
        assert f"      change: {ending.id}" in comment("shop", radius, ReportBasis())
        agreed = blast_radius(Preview(()), before, self._after(entry, **change))
        assert (agreed.blocked, agreed.standing) == ((), ())
        assert f"{told.removeprefix('the ')}" in comment("shop", agreed, ReportBasis()).replace("`", "")
        # An entry that stood there before was for an earlier change.
        assert "used up" in blast_radius(Preview(()), self._after(entry), self._after(entry, **change)).blocked[0]

    def test_what_is_to_be_written_can_be_pasted_as_it_is_and_lets_all_of_it_through(self) -> None:
        halves = {"slices": {"mig": {"layout": {"3g.40gb": 2}}}}
        before, wanted = self._after(), {"drop": "notebooks", "sharing": halves}
        radius = blast_radius(Preview(()), before, self._after(**wanted))
        assert len([one for one in radius.endings if one.acknowledged is None]) >= 2
        snippets = re.findall(r"```yaml\n(  gpu-pools:acknowledged:.*?)```", comment("shop", radius, ReportBasis()), re.DOTALL)
        assert len(snippets) == 1, "a stack file has each section once"
        (pasted,) = yaml.safe_load(snippets[0]).values()
        written = [(one["resource"], one["change"]) for one in pasted]
        assert blast_radius(Preview(()), before, self._after(*written, **wanted)).blocked == ()

    def test_an_acknowledgement_of_one_layout_holds_for_no_other(self) -> None:
        halves = {"slices": {"mig": {"layout": {"3g.40gb": 2}}}}
        thirds = {"slices": {"mig": {"layout": {"2g.20gb": 3}}}}
        (ending,) = blast_radius(Preview(()), self._after(), self._after(sharing=halves)).endings
        assert blast_radius(Preview(()), self._after(), self._after(("slices", str(ending.id)), sharing=thirds)).blocked

    def test_it_lifts_no_protection(self) -> None:
        (ending,) = blast_radius(Preview(()), stack(), stack(count=1)).endings
        assert ending.how == "loses nodes"
        acknowledged = stack((ending.resource, str(ending.id)), count=1)
        assert acknowledged.pools[2].protect
        assert acknowledged_by({SECTION: [{"resource": "train", "change": ending.id, "reason": "nobody trains there"}]}) == {}

    def test_a_renamed_pool_is_one_that_goes(self) -> None:
        config = yaml.safe_load(BEFORE)["config"]
        config["gpu-pools:pools"][0]["name"] = "books"
        radius = blast_radius(Preview(()), self._after(), plan_config(config))
        assert radius.blocked == ("the pool notebooks is deleted, and nobody acknowledged it",)
        assert any("no cloud renames a pool" in step for _, steps in radius.steps for step in steps)

    def test_what_the_cluster_s_replacement_takes_along_is_acknowledged_with_it(self) -> None:
        radius = blast_radius(Preview((replaced(CLUSTER, "c", "location"),)), self._after(), self._after(drop="slices"))
        assert [one.how for one in radius.endings] == ["is replaced"]

    def test_what_keeps_pods_where_they_are_needs_none(self) -> None:
        more = {"notebooks": {"timeSlicing": {"replicas": 2}}}
        assert not blast_radius(Preview(()), self._after(), self._after(sharing=more)).blocked


def test_what_the_engine_deletes_of_anybody_else_is_nobodys_business_here() -> None:
    other = Step("delete", "urn:pulumi:a::b::x::raw", "kubernetes:core/v1:Pod", {"agentPoolName": "raw"}, {}, ())
    assert endings(Preview((other,)), OLD, OLD) == ()


def test_a_pool_that_the_engine_deletes_although_it_is_declared_goes() -> None:
    inputs = {"agentPoolName": "train"}
    gone = Step("delete", f"urn:pulumi:a::b::{POOL}::gpu-train-pool", POOL, inputs, {}, ())
    (one,) = blast_radius(Preview((gone,)), OLD, OLD).endings
    assert (one.resource, one.how, one.id) == ("train", "is deleted", pool_goes(OLD.pools[2]))


def test_an_entry_that_freed_nothing_acknowledges_no_deletion() -> None:
    """It stood there for a replacement, of a pool that was never protected."""
    plain = stack(protect=False)
    before = stack(("train", plain.pools[2].change), protect=False)
    config = yaml.safe_load(BEFORE)["config"]
    config["gpu-pools:pools"].pop()
    (one,) = blast_radius(Preview(()), before, plan_config(config)).endings
    assert (one.resource, one.how, one.acknowledged) == ("train", "is deleted", None)


@pytest.mark.parametrize(("cluster", "pool", "first"), [(True, False, True), (False, True, True), (False, False, False)])
def test_what_is_protected_in_the_state_goes_in_a_deploy_before(cluster: bool, pool: bool, first: bool) -> None:  # noqa: FBT001
    config = yaml.safe_load(BEFORE)["config"]
    config["gpu-pools:cluster"]["protect"] = cluster
    config["gpu-pools:pools"][-1]["protect"] = pool
    before = plan_config(config)
    (one,) = endings(STOPPED, before, OLD)
    assert (one.resource, one.first) == ("cluster", before.change if first else None)
    (one,) = endings(STOPPED, None, OLD)
    assert one.first is None
