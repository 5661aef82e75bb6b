"""A stack for an AKS cluster that is there: what its section may say, and what does not go together with the cluster found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.plan.checks import drivers_of
from gpu_pools.plan.cluster_checks import check_kubernetes
from gpu_pools.plan.planning import plan_config
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.aks.found import OWNER_TAG, FoundCluster, FoundPool, check_found, notes
from gpu_pools.text.errors import InvalidStackError

if TYPE_CHECKING:
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problem

OWNER = "gpu-pools/prod"
NETWORK = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/hub"
POOL: dict[str, Any] = {"name": "gpu", "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "shared"}
SYSTEM = FoundPool("system", "System", f"{NETWORK}/subnets/nodes", f"{NETWORK}/subnets/pods", {})
FOUND = FoundCluster(
    "/id", "1.34.2", running=True, state="Succeeded", entra=True, private=False, own_identity=False, pools=(SYSTEM,)
)


def config(cluster: object = None, **pool: Any) -> dict[str, Any]:
    section = {"platform": "aks", "existing": {"resourceGroup": "rg", "name": "prod"}} if cluster is None else cluster
    return {
        "gpu-pools:cluster": section,
        "gpu-pools:sharing": {"shared": {"timeSlicing": {"replicas": 4}}},
        "gpu-pools:pools": [{**POOL, **pool}],
    }


def settings(**pool: Any) -> Settings:
    return plan_config(config(**pool)).settings


def refused(section: dict[str, Any]) -> dict[str, tuple[str, str]]:
    with pytest.raises(InvalidStackError) as caught:
        plan_config(config({"platform": "aks", **section}))
    return {one.path.removeprefix("gpu-pools:cluster."): (one.message, one.remedy) for one in caught.value.problems}


def all_problems(stack: Settings, found: FoundCluster, owner: str) -> list[Problem]:
    """As the component asks for them."""
    return check_found(stack, found, owner, drivers_of(stack), check_kubernetes(stack, found.version, "the cluster has"))


def problems(found: FoundCluster, owner: str = OWNER, **pool: Any) -> list[tuple[str, str]]:
    return [(one.path.removeprefix("gpu-pools:"), one.message) for one in all_problems(settings(**pool), found, owner)]


# --- the section -------------------------------------------------------------------------------------------


def test_the_cluster_is_the_one_that_is_there() -> None:
    cluster = plan_config(
        config({"platform": "aks", "existing": {"resourceGroup": "rg", "name": "prod"}, "tags": {"a": "b"}})
    ).settings.cluster
    assert isinstance(cluster, AksSettings)
    assert cluster.existing
    assert (cluster.name, cluster.resource_group, cluster.tags, cluster.existing.login) == ("prod", "rg", {"a": "b"}, "azurecli")


EXISTING = {"resourceGroup": "rg", "name": "prod"}


@pytest.mark.parametrize(
    ("beside", "says"),
    [
        ({"name": "x"}, "Write it as `existing.name`."),
        ({"resourceGroup": "x"}, "Write it as `existing.resourceGroup`."),
        ({"entra": {"adminGroups": []}}, "how kubelogin does is `existing.login`."),
        ({"kubernetesVersion": "1.34"}, "Pools follow the cluster"),
        ({"location": "westeurope"}, "Leave it out"),
        ({"tier": "Free"}, "Leave it out"),
        ({"systemPool": {"vmSize": "Standard_D4s_v5", "count": 1}}, "Leave it out"),
        ({"protect": True}, "Leave it out"),
    ],
)
def test_what_is_the_clusters_own_is_refused_beside_it(beside: dict[str, Any], says: str) -> None:
    (message, remedy) = refused({"existing": EXISTING, **beside})[next(iter(beside))]
    assert message == "stands beside `existing`, whose cluster this stack does not make"
    assert says in remedy


@pytest.mark.parametrize(
    ("existing", "path", "message"),
    [
        ("prod", "existing", '"prod" is not a mapping with resourceGroup and name'),
        ({"name": "prod"}, "existing.resourceGroup", "is missing"),
        ({"resourceGroup": "rg"}, "existing.name", "is missing"),
        ({**EXISTING, "name": "-prod"}, "existing.name", '"-prod" does not fit'),
        ({**EXISTING, "resourceGroup": "rg."}, "existing.resourceGroup", '"rg." does not fit'),
        ({**EXISTING, "subscription": "mine"}, "existing.subscription", '"mine" does not fit'),
        ({**EXISTING, "login": "devicecode"}, "existing.login", '"devicecode" is unknown'),
        ({**EXISTING, "nmae": "x"}, "existing.nmae", "unknown key `nmae`"),
        ({**EXISTING, "name": 5}, "existing.name", "5 is not a text"),
    ],
)
def test_a_wrong_section_is_refused(existing: object, path: str, message: str) -> None:
    assert refused({"existing": existing})[path][0] == message


def test_all_of_it_comes_at_once() -> None:
    found = refused({"existing": {"name": "-"}, "tier": "Free", "tags": ["a"], "colour": "red"})
    assert set(found) == {"existing.name", "existing.resourceGroup", "tier", "tags", "colour"}


def test_an_operator_that_is_there_may_stay() -> None:
    stack = {**config(), "gpu-pools:operator": {"install": False}}
    assert plan_config(stack).settings.operator.adopted
    made = {"platform": "aks", "name": "x", "location": "westeurope", "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1}}
    with pytest.raises(InvalidStackError, match="an AKS cluster that the stack makes comes without GPU operator"):
        plan_config({**stack, "gpu-pools:cluster": made})


# --- the cluster that was found ----------------------------------------------------------------------------


def test_a_cluster_in_which_all_goes_together_has_no_problem() -> None:
    assert problems(FOUND) == []
    assert list(notes(FOUND)) == []


def test_a_stopped_cluster_is_refused() -> None:
    assert problems(replace(FOUND, running=False)) == [("cluster.existing", "the cluster is stopped: Azure makes no pools in it")]


def test_a_name_that_is_taken_is_refused_unless_the_pool_is_this_stacks() -> None:
    def with_pool(tags: dict[str, str]) -> FoundCluster:
        return replace(FOUND, pools=(SYSTEM, FoundPool("gpu", "User", SYSTEM.subnet, "", tags)))

    taken = '"gpu" is a pool that the cluster has already, '
    assert problems(with_pool({})) == [("pools[0].name", f"{taken}made by another")]
    assert problems(with_pool({OWNER_TAG: "gpu-pools/dev"})) == [("pools[0].name", f"{taken}of the stack gpu-pools/dev")]
    assert problems(with_pool({OWNER_TAG: OWNER})) == []


def test_an_adopted_pool_needs_no_tag_but_another_stacks_pool_stays_that_stacks() -> None:
    def with_pool(tags: dict[str, str], driver: str = "") -> FoundCluster:
        return replace(FOUND, pools=(SYSTEM, FoundPool("gpu", "User", SYSTEM.subnet, "", tags, driver)))

    assert problems(with_pool({}), adopted=True) == []
    assert problems(with_pool({OWNER_TAG: OWNER}), adopted=True) == []
    ((path, message),) = problems(with_pool({OWNER_TAG: "gpu-pools/dev"}), adopted=True)
    assert (path, message) == ("pools[0].name", '"gpu" is a pool that the cluster has already, of the stack gpu-pools/dev')


@pytest.mark.parametrize(("made_with", "owner"), [("None", "operator"), ("Install", "preinstalled")])
def test_who_installs_the_driver_of_an_adopted_pool_is_who_did_when_it_was_made(made_with: str, owner: str) -> None:
    there = replace(FOUND, pools=(SYSTEM, FoundPool("gpu", "User", SYSTEM.subnet, "", {OWNER_TAG: OWNER}, made_with)))
    other = {"operator": "preinstalled", "preinstalled": "operator"}[owner]
    assert problems(there, adopted=True, driver=owner) == []
    assert problems(there, driver=other) == []
    assert problems(there, adopted=True, driver=other) == [
        ("pools[0].driver", f"{other}, and the pool was made with gpuProfile.driver {made_with}, which never changes")
    ]


@pytest.mark.parametrize(
    ("version", "asked", "message"),
    [
        ("1.34.2", "1.35", "1.35 is newer than the cluster's kubernetesVersion, 1.34.2"),
        ("1.34.2", "1.34.3", "1.34.3 is newer than the cluster's kubernetesVersion, 1.34.2"),
        ("1.34.2", "1.30", "1.30 is more than 3 minor versions older than the cluster's kubernetesVersion, 1.34.2"),
    ],
)
def test_a_version_that_does_not_fit_the_clusters_is_refused(version: str, asked: str, message: str) -> None:
    assert problems(replace(FOUND, version=version), kubernetesVersion=asked) == [("pools[0].kubernetesVersion", message)]
    assert problems(replace(FOUND, version=asked), kubernetesVersion=asked) == []


def test_the_startup_taint_needs_a_cluster_that_can_put_it_on() -> None:
    stack = plan_config({**config(), "gpu-pools:verification": {"startupTaint": True}}).settings
    found = [one.message for one in all_problems(stack, FOUND, OWNER)]
    assert found == ["needs Kubernetes 1.36, and the cluster has 1.34.2"]
    assert all_problems(stack, replace(FOUND, version="1.36.0"), OWNER) == []


def test_subnets_are_of_the_clusters_network() -> None:
    mine, other = f"{NETWORK}/subnets/gpu", NETWORK.replace("hub", "other") + "/subnets/gpu"
    assert problems(FOUND, subnet=mine) == []
    assert problems(FOUND, subnet=mine.replace("/rg/", "/RG/")) == []
    assert problems(FOUND, subnet=other) == [
        ("pools[0].subnet", '"other/subnets/gpu" is not in the network of the cluster\'s other pools')
    ]
    azures = replace(FOUND, pools=(replace(SYSTEM, subnet="", pod_subnet=""),))
    assert problems(azures, subnet=mine) == [
        ("pools[0].subnet", "\"hub/subnets/gpu\": the cluster's network is of Azure's own making, and its pools are in it")
    ]


def test_a_reservation_needs_a_cluster_with_an_identity_of_its_own() -> None:
    group = f"{NETWORK.partition('/Microsoft')[0]}/Microsoft.Compute/capacityReservationGroups/g"
    (problem,) = problems(FOUND, capacityReservationGroup=group)
    assert problem == (
        "pools[0].capacityReservationGroup",
        "the cluster acts as an identity of Azure's making, which cannot use it",
    )
    assert problems(replace(FOUND, own_identity=True), capacityReservationGroup=group) == []


def test_a_pool_without_a_subnet_lies_where_it_is_then_where_the_system_pool_is() -> None:
    apps = FoundPool("apps", "User", f"{NETWORK}/subnets/apps", "", {})
    cluster = replace(FOUND, pools=(apps, SYSTEM))
    assert cluster.subnets_for("gpu") == (SYSTEM.subnet, SYSTEM.pod_subnet)
    assert cluster.subnets_for("apps") == (apps.subnet, "")
    assert replace(FOUND, pools=(apps,)).subnets_for("gpu") == (apps.subnet, "")
    assert replace(FOUND, pools=()).subnets_for("gpu") == ("", "")


def test_what_whoever_deploys_should_know_is_told() -> None:
    (private,) = notes(replace(FOUND, private=True))
    assert "must run where that is reached" in private
    (failed,) = notes(replace(FOUND, state="Failed"))
    assert "its last operation is Failed" in failed


def test_an_autoscaled_pool_beside_node_auto_provisioning_is_refused_where_nothing_shows_that_both_may_be() -> None:
    scaled = {"count": None, "nodes": {"min": 1, "max": 2}}
    pool = {key: value for key, value in {**POOL, **scaled}.items() if value is not None}
    stack = plan_config({**config(), "gpu-pools:pools": [pool]}).settings

    def found(cluster: FoundCluster) -> list[str]:
        return [one.message for one in all_problems(stack, cluster, OWNER)]

    (message,) = found(replace(FOUND, provisions=True))
    assert (
        message == "the cluster has node auto-provisioning, and Azure refuses a pool with the cluster autoscaler beside it (C23)"
    )
    both = FoundPool("user", "User", *(SYSTEM.subnet, SYSTEM.pod_subnet), {}, autoscaled=True)
    assert found(replace(FOUND, provisions=True, pools=(SYSTEM, both))) == []
    assert found(FOUND) == []
    assert problems(replace(FOUND, provisions=True)) == []
