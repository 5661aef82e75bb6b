"""The stand-in of Azure's Resource Manager: who may ask, what is shown, and what is refused for want of room."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.components.aks.check import read_azure
from gpu_pools.components.aks.session import Session, UnreadError, resource_manager
from gpu_pools.plan.planning import plan_config
from gpu_pools.platforms.aks.answers import MadePool, Reservation, Subnet, Usage
from gpu_pools.platforms.aks.cloud import judge
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.judgement import Judgement, Unread
from sandbox.clouds.azure import AzureCloud
from sandbox.clouds.azure_errors import AzureError
from sandbox.clouds.azure_ids import SUBSCRIPTION, cluster_id, group_id, network_id
from sandbox.clouds.azure_rest import ResourceManager
from sandbox.clouds.azure_server import Server, environment
from sandbox.clouds.azure_subscription import family, known_sizes

from .test_azure_cloud import CLUSTER, FakeHost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpu_pools.stack.settings import Settings

TOKEN = "a-token"  # noqa: S105
A100 = "Standard_NC24ads_A100_v4"
FAMILY = "StandardNCADSA100v4Family"
POOL: dict[str, Any] = {"vmSize": A100, "count": 2, "mode": "User"}
LOCATIONS = f"/subscriptions/{SUBSCRIPTION}/locations"
GROUP = f"{group_id('dev')}/providers/Microsoft.Compute/capacityReservationGroups/kept"


@pytest.fixture
def cloud(tmp_path: Path) -> AzureCloud:
    azure = AzureCloud(tmp_path, FakeHost().host())
    azure.put_group("dev", {"location": "westeurope"})
    return azure


@pytest.fixture
def manager(cloud: AzureCloud) -> ResourceManager:
    return ResourceManager(cloud, TOKEN)


def write(tmp_path: Path, **subscription: Any) -> None:
    (tmp_path / "cloud").mkdir(exist_ok=True)
    (tmp_path / "cloud" / "azure-subscription.json").write_text(json.dumps(subscription))


def refused(
    manager: ResourceManager, path: str, authorization: str | None = f"Bearer {TOKEN}", **query: str
) -> tuple[int, str, str]:
    with pytest.raises(AzureError) as error:
        manager.answer("https://here", path, query, authorization)
    return error.value.status, error.value.code, error.value.message


# --- who may ask, and what ---------------------------------------------------------------------------------


def test_metadata_are_for_everybody_and_nothing_else_is(manager: ResourceManager) -> None:
    assert manager.answer("https://here", "/metadata/endpoints", {}, None)["resourceManager"] == "https://here/"
    assert refused(manager, LOCATIONS, None)[:2] == (401, "AuthenticationFailed")
    assert refused(manager, LOCATIONS, "Bearer other")[:2] == (401, "InvalidAuthenticationToken")


def test_what_it_does_not_know_is_refused(manager: ResourceManager) -> None:
    version = {"api-version": "2022-12-01"}
    assert refused(manager, LOCATIONS)[1] == "MissingApiVersionParameter"
    assert refused(manager, f"/subscriptions/{'1' * 8}/locations", **version)[1] == "SubscriptionNotFound"
    assert refused(manager, f"/subscriptions/{SUBSCRIPTION}/nothing", **version)[1] == "InvalidResourceType"
    assert refused(manager, "/providers", **version)[1] == "ResourceNotFound"
    assert refused(manager, LOCATIONS, **{"api-version": "1999-01-01"})[1] == "NoRegisteredProviderFound"
    usages = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/swedencentrl/usages"
    status, code, message = refused(manager, usages, **{"api-version": "2024-07-01"})
    assert (status, code) == (400, "NoRegisteredProviderFound")
    assert message.startswith("No registered resource provider found for location 'swedencentrl' and API version '2024-07-01'")


def test_a_right_that_is_missing_is_named(manager: ResourceManager, tmp_path: Path) -> None:
    write(tmp_path, rights={"without": ["Microsoft.Resources/subscriptions/locations/read"]})
    status, code, message = refused(manager, LOCATIONS, **{"api-version": "2022-12-01"})
    assert (status, code) == (403, "AuthorizationFailed")
    assert "perform action 'Microsoft.Resources/subscriptions/locations/read' over scope" in message


def test_every_size_that_the_sandbox_knows_has_a_quota() -> None:
    assert not [size.name for size in known_sizes({}) if not family(size.name)]
    assert (family(A100), family("standard_nc4as_t4_v3")) == (FAMILY, "StandardNCASv3_T4Family")


# --- asked as a stack asks ---------------------------------------------------------------------------------


@pytest.fixture
def session(manager: ResourceManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    server = Server(manager, tmp_path)
    server.serve()
    for name, value in environment(tmp_path, server.port).items():
        monkeypatch.setenv(name, value)
    yield Session(resource_manager(default_provider=False), SUBSCRIPTION, TOKEN)
    server.shutdown()
    server.server_close()


def settings(*pools: dict[str, Any], **cluster: Any) -> Settings:
    made = {
        "name": "gpu",
        "resourceGroup": "dev",
        "location": "westeurope",
        "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1},
    }
    config = {
        "gpu-pools:cluster": {"platform": "aks", **({} if "existing" in cluster else made), **cluster},
        "gpu-pools:sharing": {"w": {"exclusive": {}}},
        "gpu-pools:pools": [{"name": "a", "vmSize": A100, "count": 1, "sharing": "w", **pool} for pool in pools],
    }
    return plan_config(config, complete=False).settings


def judged(session: Session, stack: Settings) -> Judgement:
    assert isinstance(stack.cluster, AksSettings)
    return judge(stack.cluster, stack.pools, read_azure(session, stack.cluster, stack.pools))


def test_nothing_is_wrong_where_nothing_is_said(session: Session) -> None:
    assert judged(session, settings({"zones": ["1"]}, kubernetesVersion="1.34")) == Judgement((), ())


def test_all_that_the_subscription_lacks(session: Session, tmp_path: Path) -> None:
    write(
        tmp_path,
        limits={FAMILY: 20},
        sizes={
            A100: {"zones": ["2"]},
            "Standard_NC4as_T4_v3": {"regions": ["eastus"]},
            "Standard_D4s_v5": {"restrictions": [{"type": "Location", "reasonCode": "NotAvailableForSubscription"}]},
        },
    )
    stack = settings({"zones": ["1"]}, {"name": "b", "vmSize": "Standard_NC4as_T4_v3"}, kubernetesVersion="1.99")
    assert [problem.path.removeprefix("gpu-pools:") for problem in judged(session, stack).problems] == [
        "cluster.systemPool.vmSize",
        "pools[0].zones",
        "pools[1].vmSize",
        "cluster.kubernetesVersion",
        "pools[0]",
    ]
    (problem,) = judged(session, settings({}, location="swedencentrl")).problems
    assert "Did you mean `swedencentral`?" in problem.remedy


def test_what_is_there_is_shown(session: Session, cloud: AzureCloud, tmp_path: Path) -> None:
    subnets = [{"name": "nodes", "addressPrefix": "10.1.0.0/24"}, {"name": "none", "addressPrefix": "10.1.1.0/24"}]
    cloud.put_network(
        "dev", "hub", {"location": "westeurope", "addressSpace": {"addressPrefixes": ["10.1.0.0/16"]}, "subnets": subnets}
    )
    nodes = f"{network_id('dev', 'hub')}/subnets/nodes"
    flat = {"networkProfile": {"networkPlugin": "azure"}}
    system = {**CLUSTER["agentPoolProfiles"][0], "vnetSubnetID": nodes}
    cloud.put_cluster("dev", "gpu", {**CLUSTER, **flat, "agentPoolProfiles": [system]})
    cloud.put_pool("dev", "gpu", "a", {**POOL, "vnetSubnetID": nodes})
    write(tmp_path, reservations={GROUP: [{"size": A100, "machines": 3, "zones": ["1"]}]})
    stack = settings({"subnet": nodes, "capacityReservationGroup": GROUP}, existing={"resourceGroup": "dev", "name": "gpu"})
    assert isinstance(stack.cluster, AksSettings)
    azure = read_azure(session, stack.cluster, stack.pools)
    assert not isinstance(azure.cluster, Unread)
    assert azure.cluster is not None
    assert azure.cluster.pools["a"] == MadePool(A100.lower(), 2, version=azure.cluster.version)
    assert (azure.cluster.location, azure.cluster.version) == ("westeurope", "1.36.3")
    assert azure.usages[FAMILY.lower()] == Usage(48, 10000)  # type: ignore[index]
    # One system node and two of the pool, each with thirty pods.
    assert azure.subnets == {nodes.lower(): Subnet(3 * 31, 251)}
    assert azure.reservations == {GROUP.lower(): [Reservation(A100.lower(), 3, frozenset("1"))]}
    assert azure.managed == []


def test_a_pool_that_aks_manages_is_told_by_the_preview_alone(session: Session, cloud: AzureCloud) -> None:
    cloud.put_cluster("dev", "gpu", CLUSTER)
    cloud.put_pool("dev", "gpu", "a", {**POOL, "gpuProfile": {"driver": "Install", "nvidia": {"managementMode": "Managed"}}})
    stack = settings({"name": "mine"}, existing={"resourceGroup": "dev", "name": "gpu"})
    assert "AKS manages the GPUs of pool a itself" in judged(session, stack).problems[0].message
    pools = f"{cluster_id('dev', 'gpu')}/agentPools"
    assert "nvidia" not in json.dumps(session.get(pools, "2025-09-01"))


def test_another_token_is_good_for_nothing(session: Session) -> None:
    with pytest.raises(UnreadError, match="401 InvalidAuthenticationToken"):
        Session(session.address, SUBSCRIPTION, "other").get(LOCATIONS, "2022-12-01")


# --- what a deploy is refused with -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subscription", "pool", "says"),
    [
        (
            {"limits": {FAMILY: 40}},
            POOL,
            f"Insufficient vcpu quota requested 48, remaining 40 for family {FAMILY} for region westeurope",
        ),
        (
            {"limits": {"cores": 40}},
            POOL,
            "Insufficient regional vcpu quota left for location westeurope. left regional vcpu quota 36, requested quota 48.",
        ),
        ({"limits": {"lowPriorityCores": 40}}, {**POOL, "scaleSetPriority": "Spot"}, "remaining 40 for family lowPriorityCores"),
        ({"sizes": {A100: {"regions": ["eastus"]}}}, POOL, "is not allowed in your subscription in location 'westeurope'"),
        (
            {"sizes": {A100: {"zones": ["2"]}}},
            {**POOL, "availabilityZones": ["1", "2"]},
            "The zone(s) '1' for resource 'a' is not supported. The supported zones for location 'westeurope' are '2'",
        ),
    ],
)
def test_a_pool_without_room_is_refused(cloud: AzureCloud, tmp_path: Path, subscription: Any, pool: Any, says: str) -> None:
    cloud.put_cluster("dev", "gpu", CLUSTER)
    write(tmp_path, **subscription)
    with pytest.raises(AzureError) as error:
        cloud.put_pool("dev", "gpu", "a", pool)
    assert says in error.value.message
    assert cloud.get(f"{cluster_id('dev', 'gpu')}/agentPools/a") is None


def test_growth_is_refused_and_its_own_nodes_do_not_count_beside_it(cloud: AzureCloud, tmp_path: Path) -> None:
    cloud.put_cluster("dev", "gpu", CLUSTER)
    cloud.put_pool("dev", "gpu", "a", POOL)
    write(tmp_path, limits={FAMILY: 72})
    cloud.put_pool("dev", "gpu", "a", {**POOL, "count": 3})
    for grow in (lambda: cloud.put_pool("dev", "gpu", "a", {**POOL, "count": 4}), lambda: cloud.scale("gpu", "a", 4)):
        with pytest.raises(AzureError, match="requested 96, remaining 72"):
            grow()
    cloud.put_pool("dev", "gpu", "a", {**POOL, "count": 1})


def test_addresses_run_out(cloud: AzureCloud) -> None:
    network = {"location": "westeurope", "addressSpace": {"addressPrefixes": ["10.1.0.0/16"]}}
    cloud.put_network("dev", "hub", {**network, "subnets": [{"name": "small", "addressPrefix": "10.1.0.0/26"}]})
    small = f"{network_id('dev', 'hub')}/subnets/small"
    system = {**CLUSTER["agentPoolProfiles"][0], "vnetSubnetID": small}
    body = {**CLUSTER, "networkProfile": {"networkPlugin": "azure"}, "agentPoolProfiles": [system]}
    cloud.put_cluster("dev", "gpu", body)
    with pytest.raises(
        AzureError, match=r"Pre-allocated IPs 93 exceeds IPs available 59 in Subnet Cidr 10\.1\.0\.0/26, Subnet Name small"
    ):
        cloud.put_pool("dev", "gpu", "a", {**POOL, "vnetSubnetID": small})
