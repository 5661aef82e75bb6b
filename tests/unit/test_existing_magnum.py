"""A stack for a Magnum cluster that is there: what its section may say, and what does not go together with the cluster found."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.plan.planning import plan_config
from gpu_pools.platforms.judgement import Judgement, Unread
from gpu_pools.platforms.magnum.answers import Cloud, Free, Group, MachineFlavor, Magnum
from gpu_pools.platforms.magnum.cloud import judge, needs
from gpu_pools.platforms.magnum.cluster import MagnumSettings
from gpu_pools.platforms.magnum.found import OWNER_LABEL
from gpu_pools.text.errors import InvalidStackError

OWNER = "gpu-pools/prod"
UUID = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
POOL: dict[str, Any] = {"name": "gpu", "flavor": "g2", "count": 2, "sharing": "shared"}
EXISTING = {"name": "prod"}
WORKERS = Group(3)


def config(cluster: dict[str, Any], **pool: Any) -> dict[str, Any]:
    return {
        "gpu-pools:cluster": {"platform": "magnum", **cluster},
        "gpu-pools:flavors": {"g2": {"gpuModel": "a100-40gb", "gpusPerNode": 1}},
        # capi-helm's clusters may have both.
        "gpu-pools:operator": {"install": True},
        "gpu-pools:nodeFeatureDiscovery": {"install": True},
        "gpu-pools:sharing": {"shared": {"timeSlicing": {"replicas": 4}}},
        "gpu-pools:pools": [{key: value for key, value in {**POOL, **pool}.items() if value is not None}],
    }


def settings(cluster: dict[str, Any], **pool: Any) -> MagnumSettings:
    found = plan_config(config({"driver": "heat", **cluster}, **pool)).settings.cluster
    assert isinstance(found, MagnumSettings)
    return found


def refused(cluster: dict[str, Any]) -> dict[str, tuple[str, str]]:
    with pytest.raises(InvalidStackError) as caught:
        plan_config(config(cluster))
    return {one.path.removeprefix("gpu-pools:cluster."): (one.message, one.remedy) for one in caught.value.problems}


def cloud(**magnum: Any) -> Cloud:
    """A cloud with the cluster `prod`; what Magnum says of it can be changed."""
    said = {
        "status": "CREATE_COMPLETE",
        "namesakes": [UUID],
        "groups": {"default-worker": WORKERS},
        "clusters": ("prod", "dev"),
        **magnum,
    }
    flavors = (MachineFlavor("3", "g2", 16, 65536),)
    return Cloud(Magnum((1, 14), (), limit=2, **said), flavors, (), (), (), Free(None, None, None))


def judged(found: Cloud, driver: str = "heat", existing: dict[str, Any] | None = None, **pool: Any) -> Judgement:
    stack = plan_config(config({"driver": driver, "existing": existing or EXISTING}, **pool)).settings
    assert isinstance(stack.cluster, MagnumSettings)
    return judge(stack.cluster, stack.pools, found, OWNER)


def problems(found: Cloud, driver: str = "heat", existing: dict[str, Any] | None = None, **pool: Any) -> list[tuple[str, str]]:
    return [(one.path.removeprefix("gpu-pools:"), one.message) for one in judged(found, driver, existing, **pool).problems]


# --- the section -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("existing", [EXISTING, {"uuid": UUID}])
def test_the_cluster_is_the_one_that_is_there(existing: dict[str, Any]) -> None:
    cluster = settings({"existing": existing})
    assert cluster.name == next(iter(existing.values()))
    assert (cluster.driver, cluster.check_cloud) == ("heat", True)
    assert settings({"existing": existing, "checkCloud": False}).check_cloud is False


@pytest.mark.parametrize(
    ("beside", "says"),
    [
        ({"name": "x"}, "Write it as `existing.name`."),
        ({"templateId": "x"}, "Leave it out"),
        ({"template": {"image": "x"}}, "Leave it out"),
        ({"keypair": "x"}, "Leave it out"),
        ({"masters": 3}, "Leave it out"),
        ({"workers": 2}, "Leave it out"),
        ({"workerFlavor": "x"}, "Leave it out"),
        ({"labels": {"a": "b"}}, "Leave it out"),
        ({"protect": True}, "Leave it out"),
        ({"fixedNetwork": "x"}, "Leave it out"),
        ({"bootVolume": {"size": 5}}, "Leave it out"),
    ],
)
def test_what_is_the_clusters_own_is_refused_beside_it(beside: dict[str, Any], says: str) -> None:
    (message, remedy) = refused({"driver": "heat", "existing": EXISTING, **beside})[next(iter(beside))]
    assert message == "stands beside `existing`, whose cluster this stack does not make"
    assert says in remedy


@pytest.mark.parametrize(
    ("existing", "path", "message"),
    [
        ("prod", "existing", '"prod" is not a mapping with name or uuid'),
        ({}, "existing", "gives neither `name` nor `uuid`"),
        ({"name": "prod", "uuid": UUID}, "existing", "gives both `name` and `uuid`"),
        ({"name": "-prod"}, "existing.name", '"-prod" does not fit'),
        ({"name": 5}, "existing.name", "5 is not a text"),
        ({"uuid": "prod"}, "existing.uuid", '"prod" does not fit'),
        ({"uuid": UUID.upper()}, "existing.uuid", f'"{UUID.upper()}" does not fit'),
        ({"name": "prod", "resourceGroup": "x"}, "existing.resourceGroup", "unknown key `resourceGroup`"),
    ],
)
def test_a_wrong_section_is_refused(existing: object, path: str, message: str) -> None:
    assert refused({"driver": "heat", "existing": existing})[path][0] == message


def test_all_of_it_comes_at_once() -> None:
    found = refused({"existing": {"name": "-"}, "masters": 3, "colour": "red", "checkCloud": "no"})
    assert set(found) == {"driver", "existing.name", "masters", "colour", "checkCloud"}


# --- the cluster that was found ----------------------------------------------------------------------------


def test_a_cluster_in_which_all_goes_together_has_no_problem() -> None:
    assert judged(cloud()) == Judgement((), ())
    assert judged(cloud(), existing={"uuid": UUID}) == Judgement((), ())


def test_of_the_cloud_only_what_the_pools_name_is_asked_for() -> None:
    stack = plan_config(config({"driver": "heat", "existing": EXISTING}, image="fcos")).settings
    assert isinstance(stack.cluster, MagnumSettings)
    assert [(need.kind, need.name) for need in needs(stack.cluster, stack.pools)] == [("flavor", "g2"), ("image", "fcos")]


def test_what_the_project_does_not_have_is_named() -> None:
    (problem,) = judged(cloud(namesakes=[], status=""), existing={"name": "prid"}).problems
    assert problem.path == "gpu-pools:cluster.existing.name"
    assert problem.message == 'the project that you have logged in for has no cluster "prid"'
    assert (problem.allowed, problem.remedy) == ("dev, prod", "Did you mean `prod`?")
    (problem,) = judged(cloud(namesakes=[], status="", clusters=()), existing={"uuid": UUID}).problems
    assert problem.path == "gpu-pools:cluster.existing.uuid"
    assert problem.allowed == "nothing: it has no cluster"


def test_a_name_of_several_clusters_is_refused() -> None:
    (problem,) = judged(cloud(namesakes=["a", "b"], groups={"gpu": WORKERS})).problems
    assert problem.message == '2 clusters are called "prod", and Magnum takes no such name'
    assert (problem.allowed, problem.remedy) == ("a, b", "Write `uuid` instead of `name`.")


@pytest.mark.parametrize("status", ["CREATE_FAILED", "DELETE_IN_PROGRESS", "DELETE_FAILED"])
def test_a_cluster_that_was_not_made_or_goes_is_refused(status: str) -> None:
    assert problems(cloud(status=status)) == [("cluster.existing", f"the cluster prod is {status}")]
    assert problems(cloud(status=status, reason="no host")) == [("cluster.existing", f"the cluster prod is {status}: no host")]


@pytest.mark.parametrize("status", ["UPDATE_COMPLETE", "UPDATE_IN_PROGRESS", "UPDATE_FAILED", "CREATE_IN_PROGRESS"])
def test_any_other_state_is_worth_a_note_at_most(status: str) -> None:
    found = judged(cloud(status=status))
    assert found.problems == ()
    assert len(found.notes) == (0 if status == "UPDATE_COMPLETE" else 1)


def test_a_name_that_is_taken_is_refused_unless_the_group_is_this_stacks() -> None:
    def with_group(labels: dict[str, str]) -> Cloud:
        return cloud(groups={"gpu": Group(2, labels=labels)})

    taken = '"gpu" is a node group that the cluster has already, '
    assert problems(with_group({})) == [("pools[0].name", f"{taken}made by another")]
    assert problems(with_group({OWNER_LABEL: "gpu-pools/dev"})) == [("pools[0].name", f"{taken}of the stack gpu-pools/dev")]
    assert problems(with_group({OWNER_LABEL: OWNER})) == []


def test_the_workers_of_the_cluster_are_nobodys_business() -> None:
    assert problems(cloud(groups={"default-worker": Group(7)}), driver="magnum-cluster-api") == []


def test_an_autoscaler_that_nobody_has_switched_on_scales_nobody() -> None:
    scaled = {"count": None, "nodes": {"min": 1, "max": 3}}
    (note,) = judged(cloud(), **scaled).notes
    assert note == "the cluster's labels do not turn auto_scaling_enabled on: nobody scales gpu."
    assert judged(cloud(labels={"auto_scaling_enabled": "True"}), **scaled).notes == ()


@pytest.mark.parametrize(
    ("fewest", "path"), [({"count": 0}, "count"), ({"count": None, "nodes": {"min": 0, "max": 2}}, "nodes.min")]
)
def test_capi_helm_wants_a_node_where_the_clusters_autoscaler_is_on(fewest: dict[str, Any], path: str) -> None:
    scaling = cloud(labels={"auto_scaling_enabled": "true"})
    ((where, message),) = problems(scaling, driver="capi-helm", **fewest)
    assert where == f"pools[0].{path}"
    assert message == "0 is too few for the driver capi-helm on this cluster, which has auto_scaling_enabled"
    assert problems(scaling, **fewest) == problems(cloud(), driver="capi-helm", **fewest) == []


def test_kubelet_options_of_the_cluster_do_not_hold_for_pools_with_their_own() -> None:
    (note,) = judged(cloud(labels={"kubelet_options": "--max-pods=50"})).notes
    assert note.startswith("the cluster's label kubelet_options does not hold for a pool that has one of its own")
    assert note.endswith('("--max-pods=50").')


def test_what_pools_need_and_the_quota_are_judged_as_in_any_cluster() -> None:
    few = Cloud(cloud().magnum, cloud().flavors, (), (), (), Free(1, None, None))
    assert problems(few) == [("pools", "2 more machines are asked for in all, and Nova's quota leaves 1")]
    nothing = Cloud(cloud().magnum, (), (), (), (), Free(None, None, None))
    assert problems(nothing) == [("pools[0].flavor", 'this cloud has no flavor "g2" for this project and user')]
    assert judged(Cloud(Unread("no login"), (), (), (), (), Unread("x"))).unchecked == ("anything (no login)",)


# --- groups that were made by hand ---------------------------------------------------------------------------


def test_an_adopted_group_is_known_by_the_stacks_word_since_its_labels_never_change() -> None:
    there = cloud(groups={"gpu": Group(2)})
    assert [message for _, message in problems(there)] == ['"gpu" is a node group that the cluster has already, made by another']
    assert problems(there, adopted=True) == []


def test_an_adopted_group_can_have_no_startup_taint() -> None:
    whole = {**config({"driver": "heat", "existing": EXISTING}, adopted=True), "gpu-pools:verification": {"startupTaint": True}}
    with pytest.raises(InvalidStackError) as caught:
        plan_config(whole)
    assert [one.path for one in caught.value.problems] == ["gpu-pools:pools[0].adopted"]


def test_taints_of_an_adopted_group_are_told_to_be_those_that_it_was_made_with() -> None:
    (pool,) = plan_config(config({"driver": "heat", "existing": EXISTING}, adopted=True, taints=["sku=gpu:NoSchedule"])).pools
    assert any("another one needs another group" in warning for warning in pool.warnings)
