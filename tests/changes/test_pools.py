"""What becomes of pools, from plans and steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.changes.blast import Dip, Limits, blast_radius
from gpu_pools.changes.pools import ResourceChange, pool_changes
from gpu_pools.changes.sarif import sarif
from gpu_pools.changes.steps import Finding, Preview, Step
from gpu_pools.changes.upkeep import Upkeep
from gpu_pools.changes.workloads import Asking
from gpu_pools.hardware.prices import Prices
from gpu_pools.plan.planning import plan_config

if TYPE_CHECKING:
    from gpu_pools.plan.planned import Plan

A100, H100 = "Standard_NC24ads_A100_v4", "Standard_NC40ads_H100_v5"
POOL = "azure-native:containerservice:AgentPool"
CLUSTER = "azure-native:containerservice:ManagedCluster"


def plan(sharing: Any, pools: int = 1, **pool: Any) -> Plan:
    named = [{"name": f"p{n}", "vmSize": A100, "count": 2, "sharing": "s", **pool} for n in range(pools)]
    config = {"gpu-pools:cluster": {"platform": "aks"}, "gpu-pools:sharing": {"s": sharing}, "gpu-pools:pools": named}
    return plan_config(yaml.safe_load(yaml.safe_dump(config)), complete=False)


def step(op: str, name: str = "p0", *because: str, **new: Any) -> Step:
    inputs = {"agentPoolName": name, "vmSize": A100}
    return Step(op, f"urn:pulumi:a::b::{POOL}::gpu-{name}-pool", POOL, inputs, {**inputs, **new}, because)


def only(before: Plan, after: Plan, *steps: Step) -> Any:
    (found,) = pool_changes(before, after, steps)
    return found


WHOLE, SLICED, MPS = {"exclusive": {}}, {"timeSlicing": {"replicas": 4}}, {"mps": {"replicas": 4}}
#: From one node to three.
SCALED = plan(WHOLE, nodes={"min": 1, "max": 3}, count=None)
#: From one node to three.
SCALED = plan(WHOLE, nodes={"min": 1, "max": 3}, count=None)
SEVEN, HALVES = {"mig": {"layout": {"1g.10gb": 7}}}, {"mig": {"layout": {"3g.40gb": 2}}}


@pytest.mark.parametrize(
    ("before", "after", "effects", "drains"),
    [
        (plan(SLICED), plan(SLICED), ("untouched",), ""),
        (plan(SLICED), plan({"timeSlicing": {"replicas": 8}}), ("reshared",), ""),
        (plan(SLICED), plan({"timeSlicing": {"replicas": 2}}), ("reshared",), "R06"),
        (plan(SLICED), plan(MPS), ("reshared",), ""),
        (plan(MPS), plan(SLICED), ("reshared",), "R14"),
        (plan(SEVEN), plan(HALVES), ("repartitioned",), "R01"),
        (plan(WHOLE), plan(SEVEN), ("rebooted", "repartitioned"), "R01"),
        (plan(SEVEN), plan(WHOLE), ("rebooted", "repartitioned"), "R01"),
        (plan(WHOLE, vmSize=H100), plan({"mig": {"layout": {"1g.12gb": 7}}}, vmSize=H100), ("repartitioned",), "R01"),
        (plan(WHOLE), plan(WHOLE, count=3), ("resized",), ""),
        (plan(WHOLE), plan(WHOLE, taints=["sku=gpu:NoSchedule"]), ("relabelled",), ""),
        (plan(WHOLE), plan(SLICED, count=1), ("reshared", "shrunk"), ""),
        (plan(WHOLE), plan(WHOLE, count=1), ("shrunk",), ""),
        (SCALED, plan(WHOLE), ("shrunk",), ""),
        (SCALED, plan(WHOLE, nodes={"min": 0, "max": 2}, count=None), ("resized",), ""),
    ],
)
def test_what_happens_on_nodes_that_stay(before: Plan, after: Plan, effects: tuple[str, ...], drains: str) -> None:
    found = only(before, after)
    assert found.effects == effects
    assert bool(found.drain) == bool(drains)
    assert not drains or drains in found.drain[0]


def test_the_engine_says_what_is_replaced() -> None:
    found = only(plan(WHOLE), plan(WHOLE, vmSize=H100), step("replace", "p0", "vmSize"))
    assert (found.effects, found.because, found.drain) == (("replaced",), ("vmSize",), ())
    assert found.away


def test_a_replacement_that_is_made_first_takes_no_gpu_away() -> None:
    made_first = Step("replace", "urn:pulumi:a::b::c::x", POOL, {"agentPoolName": "p0"}, {"agentPoolName": "p0"}, (), True)  # noqa: FBT003
    assert not only(plan(WHOLE), plan(WHOLE), made_first).away


def test_pools_that_come_and_go() -> None:
    old, new = plan(WHOLE, pools=1), plan(WHOLE, pools=2)
    assert [one.effects for one in pool_changes(old, new, ())] == [("untouched",), ("created",)]
    gone = pool_changes(new, old, ())
    assert [(one.name, one.effects) for one in gone] == [("p0", ("untouched",)), ("p1", ("deleted",))]
    assert [one.word for one in gone[1].resources] == ["vanishes"]
    assert [one.effects for one in pool_changes(None, old, ())] == [("created",)]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (plan(SLICED), plan({"timeSlicing": {"replicas": 8}}), {"nvidia.com/gpu": "grows"}),
        (plan(SLICED), plan(SLICED, count=1), {"nvidia.com/gpu": "shrinks"}),
        (plan(SLICED), plan(SLICED), {"nvidia.com/gpu": "stays"}),
        (
            plan(SLICED),
            plan({"timeSlicing": {"replicas": 4, "renameByDefault": True}}),
            {"nvidia.com/gpu": "vanishes", "nvidia.com/gpu.shared": "appears"},
        ),
    ],
)
def test_resources_vanish_appear_grow_and_shrink(before: Plan, after: Plan, words: dict[str, str]) -> None:
    found = only(before, after)
    assert {one.name: one.word for one in found.resources} == words
    assert found.renames == (len(words) == 2)


def test_a_layout_that_changes_shows_what_each_kind_of_gpu_loses() -> None:
    four = "Standard_NC96ads_A100_v4"
    halves = {"mig": {"gpus": [{"index": [0, 1], "layout": {"3g.40gb": 2}}, {"index": [2, 3], "layout": {"1g.10gb": 7}}]}}
    found = only(plan(SEVEN, vmSize=four), plan(halves, vmSize=four))
    (one,) = found.gpus
    assert one.indices == (0, 1)
    assert len(one.mig.goes) == 7


class TestRadius:
    """The parts put together."""

    def _radius(self, before: Plan | None, after: Plan, *steps: Step, **given: Any) -> Any:
        return blast_radius(Preview(steps), before, after, **given)

    def test_who_asks_for_what_vanishes_is_named(self) -> None:
        renamed = plan({"timeSlicing": {"replicas": 4, "renameByDefault": True}})
        asking = (Asking("Deployment web", "nvidia.com/gpu"), Asking("pod a/b", "nvidia.com/mig-1g.10gb"))
        radius = self._radius(plan(SLICED), renamed, asking=asking)
        assert [(one.asking.who, one.how, one.pools) for one in radius.affected] == [("Deployment web", "vanishes", ("p0",))]
        assert any("must ask for `nvidia.com/gpu.shared`" in line for _, lines in radius.steps for line in lines)

    def test_a_resource_that_another_pool_still_has_only_shrinks(self) -> None:
        radius = self._radius(plan(SLICED, pools=2), plan(SLICED), asking=(Asking("pod a/b", "nvidia.com/gpu"),))
        assert [one.how for one in radius.affected] == ["shrinks"]

    def test_pods_of_a_replaced_pool_end_however_much_it_has_afterwards(self) -> None:
        two = plan(WHOLE, vmSize="Standard_NC48ads_A100_v4")
        asking = (Asking("pod a/b", "nvidia.com/gpu"), Asking("pod a/c", "nvidia.com/mig-1g.10gb"))
        radius = self._radius(plan(WHOLE), two, step("replace", "p0", "vmSize"), asking=asking)
        assert [(one.asking.who, one.how) for one in radius.affected] == [("pod a/b", "interrupted")]

    def test_less_in_one_pool_and_new_nodes_in_another_is_less(self) -> None:
        two = plan(WHOLE, vmSize="Standard_NC48ads_A100_v4")
        asking = (Asking("pod a/b", "nvidia.com/gpu"),)
        radius = self._radius(plan(WHOLE, pools=2), two, step("replace", "p0", "vmSize"), asking=asking)
        assert [(one.how, one.pools) for one in radius.affected] == [("shrinks", ("p0", "p1"))]

    def test_totals_are_of_all_pools_at_their_smallest_and_largest(self) -> None:
        scaled = plan(SLICED, nodes={"min": 1, "max": 3}, count=None)
        radius = self._radius(plan(SLICED, pools=2), scaled)
        assert radius.totals == (("nvidia.com/gpu", (16, 16), (4, 12)),)
        assert self._radius(None, plan(SEVEN)).totals == (("nvidia.com/gpu", (0, 0), (14, 14)),)

    @pytest.mark.parametrize("label", ["kubernetes.azure.com/agentpool", "gpu-pools/pool"])
    @pytest.mark.parametrize(("pool", "how"), [("p0", []), ("p1", ["vanishes"])])
    def test_who_is_kept_off_a_pool_by_its_selector_loses_nothing_there(self, label: str, pool: str, how: list[str]) -> None:
        asking = (Asking("Job smoke", "nvidia.com/gpu", ((label, pool),)),)
        radius = self._radius(plan(SLICED, pools=2), plan(SLICED), asking=asking)
        assert [one.how for one in radius.affected] == how

    def test_who_selects_what_is_known_of_no_pool_may_run_in_all(self) -> None:
        asking = (Asking("Job smoke", "nvidia.com/gpu", (("disk", "fast"),)),)
        radius = self._radius(plan(SLICED, pools=2), plan(SLICED), asking=asking)
        assert [one.how for one in radius.affected] == ["shrinks"]

    def test_capacity_is_away_until_new_nodes_have_their_driver(self) -> None:
        (dip,) = self._radius(plan(WHOLE), plan(WHOLE, vmSize=H100), step("replace", "p0", "vmSize")).dips
        assert dip.text.startswith("2 GPUs, until the old nodes are deleted")
        assert dip.text.endswith("and have their driver")

    def test_an_autoscaled_pool_may_lose_anything_up_to_its_largest(self) -> None:
        scaled = plan(WHOLE, nodes={"min": 0, "max": 3}, count=None)
        (dip,) = self._radius(scaled, scaled, step("replace", "p0", "vmSize")).dips
        assert dip.text.startswith("0 to 3 GPUs, until")

    def test_a_pool_that_goes_takes_its_gpus_for_good(self) -> None:
        assert [one.text for one in self._radius(plan(WHOLE, pools=2), plan(WHOLE)).dips] == ["2 GPUs, for good"]

    @pytest.mark.parametrize(("most", "broken"), [(3, True), (4, False)])
    def test_a_change_adds_no_more_gpus_than_it_may(self, most: int, broken: bool) -> None:  # noqa: FBT001
        radius = self._radius(plan(WHOLE), plan(WHOLE, count=6), limits=Limits(more_gpus=most))
        assert bool(radius.blocked) == broken
        assert not broken or radius.blocked == ("the change adds up to 4 GPUs; allowed: 3",)

    @pytest.mark.parametrize(("most", "broken"), [(1459, True), (1460, False)])
    def test_a_change_costs_no_more_than_it_may(self, most: float, broken: bool) -> None:  # noqa: FBT001
        prices = Prices("EUR", {A100: 2.0}, {})
        radius = self._radius(plan(WHOLE), plan(WHOLE, count=3), prices=prices, limits=Limits(more_per_month=most))
        assert bool(radius.broken) == broken
        assert (radius.before.per_month, radius.after.per_month) == (2920, 4380)

    @pytest.mark.parametrize("prices", [None, Prices("EUR", {H100: 1.0}, {})])
    def test_without_a_price_a_limit_on_cost_is_not_kept_by_accident(self, prices: Prices | None) -> None:
        radius = self._radius(plan(WHOLE), plan(WHOLE), prices=prices, limits=Limits(more_per_month=10))
        assert radius.broken == ("what the change costs cannot be told: prices are missing",)

    def test_where_a_pool_has_no_upper_bound_limits_are_not_kept_by_accident(self) -> None:
        # An existing cluster's pool is open-ended, and nobody has a price of its nodes.
        pool = {"name": "a", "sharing": "s", "gpuModel": "a100-80gb", "gpusPerNode": 1, "nodeSelector": {"p": "a"}}
        config = {"gpu-pools:cluster": {"platform": "existing"}, "gpu-pools:sharing": {"s": WHOLE}, "gpu-pools:pools": [pool]}
        open_ended = plan_config(config, complete=False)
        radius = self._radius(None, open_ended, prices=Prices("EUR", {A100: 2.0}, {}), limits=Limits(0, 0))
        assert radius.broken == (
            "a pool has no upper bound, so that the GPUs which the change adds cannot be counted",
            "what the change costs cannot be told: prices are missing",
        )
        assert (radius.after.gpus_least, radius.after.gpus_most, radius.after.per_month) == (1, None, None)

    def test_all_pools_count_at_their_largest_and_a_first_deploy_counts_whole(self) -> None:
        prices = Prices("EUR", {A100: 2.0, H100: 5.0}, {A100: 0.5})
        radius = self._radius(
            None, plan(WHOLE, pools=2, nodes={"min": 1, "max": 3}, count=None), prices=prices, limits=Limits(5, 8759)
        )
        assert (radius.before.gpus_most, radius.after.gpus_least, radius.after.gpus_most) == (0, 2, 6)
        assert radius.after.per_month == 2 * 3 * 2.0 * 730
        assert radius.broken == (
            "the change adds up to 6 GPUs; allowed: 5",
            "the change adds up to 8760 EUR a month; allowed: 8759",
        )
        assert self._radius(None, plan(WHOLE), prices=Prices("EUR", {}, {})).after.per_month is None
        spot = self._radius(None, plan(WHOLE, spot={}), prices=prices)
        assert spot.after.per_month == 2 * 0.5 * 730

    def test_a_pool_that_shrinks_loses_the_difference_and_says_what_to_do(self) -> None:
        radius = self._radius(plan(WHOLE, count=5), plan(WHOLE, count=2))
        assert [one.text for one in radius.dips] == ["3 GPUs, for good"]
        ((name, advice),) = radius.steps
        assert name == "p0"
        assert advice == ("Which nodes of `p0` go is the cloud's choice: let end what must not be interrupted, wherever in it.",)

    def test_a_pool_that_goes_is_drained_first(self) -> None:
        ((name, advice),) = self._radius(plan(WHOLE, pools=2), plan(WHOLE)).steps
        assert name == "p1"
        assert advice[0] == "Cordon and drain the nodes of `p1` before the deploy."
        assert advice[1].startswith("Was it to be renamed: no cloud renames a pool.")

    def test_a_replacement_is_told_in_two_commits(self) -> None:
        radius = self._radius(plan(WHOLE), plan(WHOLE, vmSize=H100), step("replace", "p0", "vmSize"))
        ((_, advice),) = radius.steps
        assert [line.split(" `")[0] for line in advice] == [
            "First commit: leave",
            "Then cordon and drain the nodes of",
            "Second commit: take",
        ]
        assert advice[2] == "Second commit: take `p0` out."

    def test_without_the_operator_s_driver_nobody_waits_for_one(self) -> None:
        before, after = plan(WHOLE, driver="preinstalled"), plan(WHOLE, vmSize=H100, driver="preinstalled")
        (dip,) = self._radius(before, after, step("replace", "p0", "vmSize")).dips
        assert dip.text == "2 GPUs, until the old nodes are deleted, and new ones have started"

    def test_the_cluster_s_replacement_has_one_advice(self) -> None:
        whole = Step(
            "replace", f"urn:pulumi:a::b::{CLUSTER}::gpu-cluster", CLUSTER, {"location": "a"}, {"location": "b"}, ("location",)
        )
        radius = self._radius(plan(WHOLE), plan(WHOLE), whole, step("replace"))
        assert radius.cluster_replaced
        assert [name for name, _ in radius.steps] == ["the cluster"]
        assert [one.what for one in radius.endings] == ["cluster"]


class TestNodesThatAreThereAlready:
    """An existing cluster's nodes are nobody's to make or delete."""

    def _plan(self, *names: str, sharing: Any = SLICED, **selector: str) -> Plan:
        pools = [
            {
                "name": name,
                "gpuModel": "a100-80gb",
                "gpusPerNode": 1,
                "nodeSelector": {"example.com/pool": selector.get(name, name)},
                "sharing": "s",
            }
            for name in names
        ]
        config = {"gpu-pools:cluster": {"platform": "existing"}, "gpu-pools:sharing": {"s": sharing}, "gpu-pools:pools": pools}
        return plan_config(config)

    def _effects(self, before: Plan | None, after: Plan) -> dict[str, tuple[str, ...]]:
        return {one.name: one.effects for one in pool_changes(before, after, ())}

    def test_they_are_taken_over_and_left(self) -> None:
        assert self._effects(self._plan("a"), self._plan("b")) == {"b": ("joined",), "a": ("left",)}
        assert self._effects(None, self._plan("a")) == {"a": ("joined",)}

    def test_a_pool_of_the_same_nodes_is_the_same_pool_under_another_name(self) -> None:
        before, after = self._plan("a"), self._plan("b", b="a")
        assert self._effects(before, after) == {"b": ("renamed",)}
        assert not blast_radius(Preview(()), before, after).blocked

    def test_nodes_that_are_left_lose_no_gpu_and_yet_it_is_acknowledged(self) -> None:
        radius = blast_radius(Preview(()), self._plan("a", "b"), self._plan("a"))
        assert radius.blocked == ("the pool b is left to itself, and nobody acknowledged it",)
        assert radius.dips == ()


def test_a_pool_that_loses_nodes_loses_their_gpus() -> None:
    radius = blast_radius(Preview(()), plan(WHOLE, count=5), plan(WHOLE, count=2))
    assert [one.text for one in radius.dips] == ["3 GPUs, for good"]
    scaled = plan(WHOLE, nodes={"min": 1, "max": 5}, count=None)
    assert [one.text for one in blast_radius(Preview(()), scaled, plan(WHOLE, count=2)).dips] == ["0 to 3 GPUs, for good"]


@pytest.mark.parametrize(("op", "effect"), [("create", "created"), ("delete", "deleted"), ("replace", "replaced")])
def test_what_the_engine_does_with_a_pool_of_both_stack_files_counts(op: str, effect: str) -> None:
    """Made although it was planned before: it never was, or the state lost it."""
    found = only(plan(MPS), plan({"timeSlicing": {"replicas": 2}}), step(op, "p0", "vmSize"))
    assert found.effects == (effect,)
    assert found.because == (("vmSize",) if op == "replace" else ())
    # New nodes have no pods to be drained of.
    assert bool(found.drain) == (op != "replace")


def test_steps_of_anything_else_are_of_no_pool() -> None:
    other = Step("replace", "urn:pulumi:a::b::x::gpu-p0-pool", "kubernetes:core/v1:Pod", {"agentPoolName": "p0"}, {}, ())
    assert only(plan(WHOLE), plan(WHOLE), other).effects == ("untouched",)


def test_shares_under_another_name_are_fewer_under_the_old_one() -> None:
    found = only(plan(SLICED), plan({"timeSlicing": {"replicas": 4, "renameByDefault": True}}))
    assert found.drain == ("pods keep the shares that they were given under time-slicing 4 (R06)",)
    left = only(plan(MPS), plan({"timeSlicing": {"replicas": 2}}))
    assert left.drain == (
        "a GPU may stay in exclusive mode after MPS (R14)",
        "pods keep the shares that they were given under MPS 4 (R06)",
    )
    assert only(plan(MPS), plan({"mps": {"replicas": 8}})).drain == (
        "each node's MPS daemon restarts with the new configuration, which ends its clients (W49)",
    )


@pytest.mark.parametrize("sizes", [(A100, H100), (H100, A100)])
def test_one_pool_without_a_price_leaves_the_whole_unknown(sizes: tuple[str, str]) -> None:
    named = [{"name": f"p{n}", "vmSize": size, "count": 1, "sharing": "s"} for n, size in enumerate(sizes)]
    config = {"gpu-pools:cluster": {"platform": "aks"}, "gpu-pools:sharing": {"s": WHOLE}, "gpu-pools:pools": named}
    radius = blast_radius(Preview(()), None, plan_config(config, complete=False), prices=Prices("EUR", {A100: 2.0}, {}))
    assert radius.after.per_month is None


def test_pools_are_replaced_with_their_cluster_though_no_step_tells_it() -> None:
    found = pool_changes(plan(WHOLE), plan(WHOLE), (), with_cluster=True)
    assert [(one.effects, one.because, one.creates_first) for one in found] == [(("replaced",), (), False)]


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ((2, 4), (2, 4), "stays"),
        ((0, 0), (2, 4), "appears"),
        ((2, 4), (0, 0), "vanishes"),
        ((2, 4), (2, 6), "grows"),
        ((2, 4), (3, 3), "grows"),
        ((2, 4), (2, 2), "shrinks"),
        ((2, 4), (1, 9), "shrinks"),
        # With as few nodes as none it is still advertised by each.
        ((2, 0), (2, 4), "grows"),
        ((2, 0), (3, 0), "grows"),
    ],
)
def test_what_becomes_of_a_resource_in_a_word(before: tuple[int, int], after: tuple[int, int], word: str) -> None:
    assert ResourceChange("r", before[0], after[0], before[1], after[1]).word == word


@pytest.mark.parametrize(
    ("least", "most", "until", "text"),
    [
        (1, 1, "", "1 GPU, for good"),
        (2, 2, "later", "2 GPUs, until later"),
        (0, 1, "", "0 to 1 GPUs, for good"),
        (0, None, "", "0 to any number of GPUs, for good"),
    ],
)
def test_a_dip_in_words(least: int, most: int | None, until: str, text: str) -> None:
    assert Dip("p", least, most, until).text == text


def test_what_is_renewed_concerns_the_pools_that_it_names() -> None:
    renewed = [Upkeep("x", "", "", (), ("p1",), "upgraded", ""), Upkeep("y", "", "", (), ("p0", "p1"), "", "")]
    found = pool_changes(plan(WHOLE, pools=2), plan(WHOLE, pools=2), (), renewed)
    assert [one.effects for one in found] == [("untouched",), ("upgraded",)]


def test_as_many_nodes_as_there_may_be_are_none_lost() -> None:
    scaled = plan(WHOLE, nodes={"min": 1, "max": 2}, count=None)
    assert only(scaled, plan(WHOLE, count=2)).effects == ("resized",)


def _existing(sharing: Any, *names: str) -> Plan:
    named = [
        {"name": name, "gpuModel": "a100-80gb", "gpusPerNode": 1, "nodeSelector": {"p": name}, "sharing": share}
        for name, share in zip(names, sharing, strict=True)
    ]
    config = {"gpu-pools:cluster": {"platform": "existing"}, "gpu-pools:sharing": sharing, "gpu-pools:pools": named}
    return plan_config(config, complete=False)


def test_what_no_pool_advertises_is_none_however_many_nodes_there_are() -> None:
    renamed = {"timeSlicing": {"replicas": 4, "renameByDefault": True}}
    totals = blast_radius(Preview(()), _existing({"a": WHOLE, "b": renamed}, "x", "y"), _existing({"b": renamed}, "y")).totals
    assert totals == (("nvidia.com/gpu", (1, None), (0, 0)), ("nvidia.com/gpu.shared", (4, None), (4, None)))


def test_longer_names_are_told_from_those_that_they_begin_with() -> None:
    findings = (Finding("r", "advisory", "gpu-ml-big-pool", "m"), Finding("r", "advisory", "gpu-ml-pool", "m"))
    after = _existing({"a": WHOLE, "b": SLICED}, "ml", "ml-big")
    (run,) = sarif("f", "- name: ml\n- name: ml-big\n", blast_radius(Preview((), findings), None, after))["runs"]
    lines = [one["locations"][0]["physicalLocation"]["region"]["startLine"] for one in run["results"]]
    assert lines == [2, 1]
