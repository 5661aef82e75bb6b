"""Acknowledgements lift the protection of exactly what they name, as exactly what it is declared to become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.plan.change_ids import pool_goes, pool_use
from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.acknowledged import Acknowledgement, parse_acknowledged
from gpu_pools.text.errors import InvalidStackError, Problems

if TYPE_CHECKING:
    from gpu_pools.plan.planned import Plan

SECTION = "gpu-pools:acknowledged"
AKS = {"platform": "aks", "name": "a", "location": "westeurope", "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1}}
A100, FOUR = "Standard_NC24ads_A100_v4", "Standard_NC96ads_A100_v4"


def aks(acknowledged: Any = None, *, cluster: Any = None, layout: Any = None, driver: str = "operator", **train: Any) -> Plan:
    """Two protected pools of a protected cluster."""
    pools = [
        {"name": "train", "vmSize": A100, "count": 1, "sharing": "s", "protect": True, **train},
        {"name": "other", "vmSize": A100, "count": 1, "sharing": "s", "protect": True},
    ]
    config: dict[str, object] = {
        "gpu-pools:cluster": {**AKS, "protect": True, **(cluster or {})},
        "gpu-pools:sharing": {"s": {"exclusive": {}}, "m": {"mig": {"layout": layout or {"1g.10gb": 7}}}},
        "gpu-pools:operator": {"driver": driver},
        "gpu-pools:pools": pools,
    }
    if acknowledged is not None:
        config[SECTION] = acknowledged
    return plan_config(config)


def magnum(driver: str = "heat", **train: Any) -> Plan:
    return plan_config(
        {
            "gpu-pools:cluster": {"platform": "magnum", "name": "m", "driver": driver, "templateId": "t"},
            "gpu-pools:flavors": {name: {"gpuModel": "a100-80gb", "gpusPerNode": 1} for name in ("f", "g")},
            "gpu-pools:sharing": {"s": {"exclusive": {}}},
            "gpu-pools:pools": [{"name": "train", "flavor": "f", "count": 1, "sharing": "s", "protect": True, **train}],
        }
    )


def entry(resource: str, change: str, reason: str = "nobody trains this week") -> dict[str, str]:
    return {"resource": resource, "change": change, "reason": reason}


def protection(plan: Plan) -> tuple[bool, ...]:
    return (plan.protect, *(pool.protect for pool in plan.pools))


def test_nothing_is_protected_unless_it_is_declared() -> None:
    assert protection(aks(cluster={"protect": False}, protect=False)) == (False, False, True)
    assert protection(aks()) == (True, True, True)


def test_an_acknowledgement_lifts_the_protection_of_what_it_names_alone() -> None:
    assert protection(aks([entry("train", aks().pools[0].change)])) == (True, False, True)


def test_a_cluster_goes_with_its_pools() -> None:
    assert protection(aks([entry("cluster", aks().change)])) == (False, False, False)


@pytest.mark.parametrize(
    "edit", [{"vmSize": FOUR}, {"zones": ["1"]}, {"spot": {}}, {"osSku": "AzureLinux"}, {"driver": "preinstalled"}]
)
def test_after_any_edit_that_could_replace_a_pool_its_protection_is_back(edit: dict[str, Any]) -> None:
    acknowledged = [entry("train", aks().pools[0].change), entry("cluster", aks().change)]
    assert protection(aks(acknowledged)) == (False, False, False)
    assert protection(aks(acknowledged, **edit)) == (True, True, True)


def test_a_layout_replaces_a_pool_that_aks_partitions_and_no_other() -> None:
    seven, three = ({"1g.10gb": 7}, {"2g.20gb": 3})
    for owner, differs in (("aks", True), ("operator", False)):
        train: dict[str, Any] = {"sharing": "m", "partitionedBy": owner, "driver": "preinstalled"}
        assert (aks(layout=seven, **train).pools[0].change != aks(layout=three, **train).pools[0].change) == differs


@pytest.mark.parametrize("edit", [{"count": 3}, {"labels": {"team": "a"}}, {"taints": ["sku=gpu:NoSchedule"]}])
def test_what_a_cloud_changes_in_place_needs_no_new_acknowledgement(edit: dict[str, Any]) -> None:
    assert aks(**edit).pools[0].change == aks().pools[0].change


def test_what_is_declared_of_another_pool_changes_no_id() -> None:
    """Else nobody could add a pool beside one whose protection goes in the same deploy."""
    assert aks(vmSize=FOUR).pools[1].change == aks().pools[1].change
    assert aks(sharing="m", layout={"3g.40gb": 1, "1g.10gb": 4}).pools[1].change == aks().pools[1].change


@pytest.mark.parametrize("cluster", [{"location": "northeurope"}, {"name": "b"}, {"tags": {"a": "b"}}])
def test_an_edit_of_the_cluster_or_of_a_pool_in_it_makes_another_cluster(cluster: dict[str, Any]) -> None:
    assert len({aks().change, aks(cluster=cluster).change, aks(vmSize=FOUR).change}) == 3
    assert aks(cluster=cluster).pools[0].change == aks().pools[0].change
    assert aks(cluster={"protect": False}).change == aks().change


@pytest.mark.parametrize("edit", [{"flavor": "g"}, {"image": "i"}, {"nodeGroupLabels": {"a": "b"}}, {"dockerVolumeSize": 50}])
def test_whatever_replaces_a_node_group_makes_another_id(edit: dict[str, Any]) -> None:
    assert magnum(**edit).pools[0].change != magnum().pools[0].change


def test_taints_replace_node_groups_where_kubelets_set_them() -> None:
    taint = {"taints": ["nvidia.com/gpu=true:NoSchedule"]}
    assert magnum(**taint).pools[0].change != magnum().pools[0].change
    assert magnum("magnum-cluster-api", **taint).pools[0].change == magnum("magnum-cluster-api").pools[0].change
    assert magnum().pools[0].protect


def test_a_pool_called_cluster_is_not_the_cluster() -> None:
    named = aks(name="cluster")
    assert protection(aks([entry("cluster", named.pools[0].change)], name="cluster")) == (True, False, True)


def test_what_goes_is_declared_no_more() -> None:
    assert aks([entry("nowhere", "g0123abcd")]).settings.acknowledged[0].resource == "nowhere"


@pytest.mark.parametrize("change", ["u00000000", "g00000000"])
def test_only_a_replacement_lifts_a_protection(change: str) -> None:
    plan = aks()
    fitting = {"u": pool_use(plan.pools[0]), "g": pool_goes(plan.pools[0])}[change[0]]
    for one in (change, fitting):
        assert protection(aks([entry("train", one)])) == (True, True, True)


@pytest.mark.parametrize(
    ("edit", "differs"),
    [({"count": 3}, True), ({"sharing": "m"}, True), ({"vmSize": FOUR}, False), ({"labels": {"team": "a"}}, False)],
    ids=str,
)
def test_how_a_pool_is_used_is_its_sharing_and_its_nodes(edit: dict[str, Any], differs: bool) -> None:  # noqa: FBT001
    assert (pool_use(aks(layout={"1g.10gb": 7}, **edit).pools[0]) != pool_use(aks(layout={"1g.10gb": 7}).pools[0])) == differs


def test_an_id_that_fits_nothing_any_more_is_no_mistake() -> None:
    assert protection(aks([entry("train", "c00000000")])) == (True, True, True)


@pytest.mark.parametrize(
    ("written", "messages"),
    [
        ("all", ["is not a list"]),
        (["all"], ["is not a mapping"]),
        ([entry("nowhere", "c0123abcd")], ["is unknown"]),
        ([entry("nowhere", "u0123abcd")], ["is unknown"]),
        ([entry("train", "*")], ["does not fit"]),
        ([entry("train", "0123abcd")], ["does not fit"]),
        ([entry("train", "c0123abcd", "because")], ["does not fit"]),
        ([{"resource": "train", "change": "c0123abcd"}], ["is missing"]),
        ([{**entry("train", "c0123abcd"), "until": "2027-01-01"}], ["unknown key"]),
        ([entry("train", "c0123abcd"), entry("train", "c0123abcd", "another reason")], ["a second time"]),
        ([{"change": "*"}, entry("nowhere", "c0123abcd")], ["is missing", "does not fit", "is missing", "is unknown"]),
    ],
)
def test_wrong_entries_are_refused_all_at_once(written: object, messages: list[str]) -> None:
    with pytest.raises(InvalidStackError) as refused:
        aks(written)
    assert all(one.path.startswith(SECTION) for one in refused.value.problems)
    assert len(refused.value.problems) == len(messages)
    for problem, message in zip(refused.value.problems, messages, strict=True):
        assert message in problem.message


def test_a_misspelt_section_is_told() -> None:
    with pytest.raises(InvalidStackError, match=f"Did you mean `{SECTION}`"):
        plan_config({"gpu-pools:cluster": AKS, f"{SECTION}s": []})


def test_nodes_that_are_there_already_are_protected_by_nobody() -> None:
    pool = {"name": "p", "gpuModel": "a100-80gb", "gpusPerNode": 1, "nodeSelector": {"a": "b"}, "sharing": "s", "protect": True}
    with pytest.raises(InvalidStackError, match="`protect` belongs to the cluster of AKS or Magnum"):
        plan_config(
            {
                "gpu-pools:cluster": {"platform": "existing"},
                "gpu-pools:sharing": {"s": {"exclusive": {}}},
                "gpu-pools:pools": [pool],
            }
        )


def _told(*entries: object) -> list[tuple[str, str]]:
    problems = Problems()
    parse_acknowledged(list(entries), "p", ["train"], problems)
    return [(problem.path, problem.message) for problem in problems.found]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (entry("train", "c00000000"), []),
        (entry("cluster", "u9abcdef0", "ten chars."), []),
        (entry("gone", "g00000000", "  ten chars."), []),
        (entry("gone", "c00000000"), [("p[1].resource", '"gone" is unknown')]),
        (entry("train", "d00000000"), [("p[1].change", '"d00000000" does not fit')]),
        (entry("train", "c0000000"), [("p[1].change", '"c0000000" does not fit')]),
        (entry("train", "c0000000g"), [("p[1].change", '"c0000000g" does not fit')]),
        (entry("train", "c00000000", "nine char"), [("p[1].reason", '"nine char" does not fit')]),
        (entry("other", "c00000000", ""), [("p[1].resource", '"other" is unknown'), ("p[1].reason", '"" does not fit')]),
        ({}, [(f"p[1].{key}", "is missing") for key in ("resource", "change", "reason")]),
        ({**entry("train", "c00000000"), "x": 1}, [("p[1].x", "unknown key `x`")]),
        (7, [("p[1]", "7 is not a mapping with `resource`, `change` and `reason`")]),
        (entry("cluster", "c11111111"), [("p[1]", "acknowledges cluster and c11111111 a second time")]),
        (entry("train", "c11111111"), []),
        (entry("cluster", "c22222222"), []),
    ],
)
def test_an_entry(given: object, told: list[tuple[str, str]]) -> None:
    assert _told(entry("cluster", "c11111111"), given) == told


def test_entries_are_those_that_are_whole() -> None:
    problems = Problems()
    written = [entry("train", "c00000000", ""), entry("train", "u00000000"), entry("", "g00000000"), entry("train", "")]
    found = parse_acknowledged(written, "p", ["train"], problems)
    assert [(one.resource, one.change, one.reason) for one in found] == [("train", "u00000000", "nobody trains this week")]
    assert [Acknowledgement("train", change, "x").of_replacement for change in ("c0", "u0", "g0", "u0c")] == [True, *[False] * 3]
    assert parse_acknowledged(None, "p", [], problems) == ()
    before = len(problems)
    assert parse_acknowledged({}, "p", [], problems) == ()
    assert problems.found[before].message == "is not a list"
