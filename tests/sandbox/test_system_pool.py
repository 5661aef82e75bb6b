"""How the system pool is raised, against the stand-in of Azure: done, refused, not done, left alone."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpu_pools.components.aks import system_pool
from gpu_pools.components.aks.session import Session, UnreadError, resource_manager
from gpu_pools.components.aks.system_pool import NotRaisedError, SystemPool
from gpu_pools.components.engine import log
from gpu_pools.plan.planning import plan_config
from gpu_pools.platforms.aks.cluster import AksSettings
from sandbox.clouds.azure import AzureCloud
from sandbox.clouds.azure_ids import SUBSCRIPTION, cluster_id, pool_id
from sandbox.clouds.azure_rest import ResourceManager
from sandbox.clouds.azure_server import Server, environment

from .test_azure_cloud import CLUSTER, SYSTEM, FakeHost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "a-token"  # noqa: S105
POOL = pool_id("dev", "gpu", "system")
PATH = POOL.partition(SUBSCRIPTION)[2]
VERSION = "2025-09-01"
SHOWN = {"orchestratorVersion", "currentOrchestratorVersion", "eTag", "powerState"}
CONFIG = {
    "gpu-pools:cluster": {
        "platform": "aks",
        "name": "gpu",
        "resourceGroup": "dev",
        "location": "westeurope",
        "kubernetesVersion": "1.34",
        "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1},
    },
    "gpu-pools:sharing": {"w": {"exclusive": {}}},
    "gpu-pools:pools": [{"name": "a", "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "w"}],
}


@pytest.fixture
def cloud(tmp_path: Path) -> AzureCloud:
    """Its control plane was just raised."""
    azure = AzureCloud(tmp_path, FakeHost().host())
    azure.put_group("dev", {"location": "westeurope"})
    for version in ("1.33", "1.34"):
        azure.put_cluster("dev", "gpu", {**CLUSTER, "kubernetesVersion": version})
    return azure


@pytest.fixture
def session(cloud: AzureCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    server = Server(ResourceManager(cloud, TOKEN), tmp_path)
    server.serve()
    for name, value in environment(tmp_path, server.port).items():
        monkeypatch.setenv(name, value)
    yield Session(resource_manager(default_provider=False), SUBSCRIPTION, TOKEN)
    server.shutdown()
    server.server_close()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What users are told."""
    said: list[str] = []
    for level in ("info", "warn"):
        monkeypatch.setattr(log, level, lambda message, _parent, level=level: said.append(f"{level}: {message}"))
    return said


@pytest.fixture
def system(session: Session, told: list[str], monkeypatch: pytest.MonkeyPatch) -> SystemPool:
    assert told == []
    monkeypatch.setattr(system_pool, "log_in", lambda _parent: session)
    monkeypatch.setattr(system_pool, "_FIRST_WAIT", 0.01)
    return made()


def made() -> SystemPool:
    settings = plan_config(CONFIG, complete=False).settings.cluster
    assert isinstance(settings, AksSettings)
    return SystemPool(settings, cast("Any", None))


def write(tmp_path: Path, **subscription: Any) -> None:
    (tmp_path / "cloud" / "azure-subscription.json").write_text(json.dumps(subscription))


def pool(cloud: AzureCloud) -> dict[str, Any]:
    return cloud.get(POOL) or {}


def version(cloud: AzureCloud) -> str:
    return str(pool(cloud)["currentOrchestratorVersion"])


def failure(system: SystemPool) -> str:
    with pytest.raises(NotRaisedError) as error:
        asyncio.run(system.follow("1.34"))
    return str(error.value)


def set_state(cloud: AzureCloud, state: str, table: str = "pools") -> None:
    with cloud._records.change() as data:
        data[table][(POOL if table == "pools" else cluster_id("dev", "gpu")).lower()]["state"] = state


# --- done --------------------------------------------------------------------------------------------------


def test_it_is_raised_and_nothing_else_of_it_changes(cloud: AzureCloud, system: SystemPool, told: list[str]) -> None:
    before = pool(cloud)
    asyncio.run(system.follow("1.34"))
    after = pool(cloud)
    assert (before["currentOrchestratorVersion"], after["currentOrchestratorVersion"]) == ("1.33.0", "1.34.0")
    assert {key for key in {*before, *after} if before.get(key) != after.get(key)} <= SHOWN
    assert told == [
        "info: the pool `system` of gpu goes from Kubernetes 1.33.0 to 1.34.0",
        "info: the pool `system` of gpu is at Kubernetes 1.34.0",
    ]


def test_whoever_asks_and_how_often_it_is_raised_once(system: SystemPool, told: list[str]) -> None:
    async def all_pools() -> None:
        await asyncio.gather(*(system.follow("1.34") for _ in range(3)))

    asyncio.run(all_pools())
    assert [line for line in told if "goes from" in line] == told[:1]


def test_one_that_is_not_behind_is_left_alone(cloud: AzureCloud, system: SystemPool, told: list[str]) -> None:
    cloud.put_pool("dev", "gpu", "system", {**SYSTEM, "orchestratorVersion": "1.34"})
    before = pool(cloud)
    asyncio.run(system.follow("1.34"))
    assert (pool(cloud), told) == (before, [])


def test_a_cluster_that_is_not_there_has_none(cloud: AzureCloud, system: SystemPool, told: list[str]) -> None:
    cloud.delete_cluster("dev", "gpu")
    asyncio.run(system.follow("1.34"))
    assert told == []


def test_who_is_at_it_already_is_waited_for(cloud: AzureCloud, system: SystemPool, told: list[str]) -> None:
    cloud.put_pool("dev", "gpu", "system", {**SYSTEM, "orchestratorVersion": "1.34"})
    with cloud._records.change() as data:
        data["pools"][POOL.lower()].update(version="1.33.0", state="Updating")

    def done() -> None:
        with cloud._records.change() as data:
            data["pools"][POOL.lower()].update(version="1.34.0", state="Succeeded")

    timer = threading.Timer(0.3, done)
    timer.start()
    asyncio.run(system.follow("1.34"))
    assert (told, version(cloud)) == ([], "1.34.0")


# --- refused, or not done ----------------------------------------------------------------------------------


def test_what_azure_does_not_get_done_is_told_and_stops_what_comes_after(
    cloud: AzureCloud, system: SystemPool, tmp_path: Path
) -> None:
    write(tmp_path, upgrades={"blocked": ["system"]})
    text = failure(system)
    assert text.startswith("the pool `system` of gpu is not raised to Kubernetes 1.34.0: UpgradeFailed: Drain node aks-system-")
    assert "deploy again" in text
    assert (version(cloud), pool(cloud)["provisioningState"]) == ("1.33.0", "Failed")
    write(tmp_path)
    # In the same deploy it is not tried again; in the next it is.
    with pytest.raises(NotRaisedError, match="nothing was done here: the pool `system` of gpu is not raised"):
        system.stop_after_failure()
    assert failure(system).startswith("nothing was done here")
    asyncio.run(made().follow("1.34"))
    assert (version(cloud), pool(cloud)["provisioningState"]) == ("1.34.0", "Succeeded")


def test_one_that_somebody_changes_meanwhile_is_not_written_over(
    cloud: AzureCloud, system: SystemPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = system_pool.raise_request

    def later(shown: Any, wanted: str) -> dict[str, Any]:
        cloud.put_pool("dev", "gpu", "system", {**SYSTEM, "tags": {"theirs": "yes"}})
        return request(shown, wanted)

    monkeypatch.setattr(system_pool, "raise_request", later)
    assert "Azure answers 412 PreconditionFailed: The request was rejected" in failure(system)
    assert (version(cloud), pool(cloud)["tags"]) == ("1.33.0", {"theirs": "yes"})


def test_another_operation_of_the_cluster_is_told(cloud: AzureCloud, system: SystemPool) -> None:
    set_state(cloud, "Updating", "clusters")
    assert "409 OperationNotAllowed: Operation is not allowed because there's an in progress updating" in failure(system)
    assert version(cloud) == "1.33.0"


def test_an_azure_that_is_heard_of_no_more_is_a_failure(
    cloud: AzureCloud, system: SystemPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_session: Session, _url: str) -> dict[str, Any]:
        raise UnreadError("Azure: timed out")

    monkeypatch.setattr(Session, "operation", gone)
    assert "nothing is known of it any more: Azure: timed out" in failure(system)
    assert cloud.get(POOL)


# --- left alone --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("right", ["agentPools/read", "agentPools/write", "read"])
def test_without_a_right_the_command_is_told_and_nothing_stopped(
    cloud: AzureCloud, system: SystemPool, told: list[str], tmp_path: Path, right: str
) -> None:
    write(tmp_path, rights={"without": [f"Microsoft.ContainerService/managedClusters/{right}"]})
    asyncio.run(system.follow("1.34"))
    assert told[-1].startswith("warn: the pool `system` does not follow the control plane to Kubernetes 1.34")
    assert f"the right Microsoft.ContainerService/managedClusters/{right} is missing" in told[-1]
    assert "az aks nodepool upgrade --resource-group dev --cluster-name gpu --name system" in told[-1]
    assert version(cloud) == "1.33.0"


def test_without_a_login_as_well(system: SystemPool, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_parent: object) -> Session:
        raise UnreadError("no login: nobody is there")

    monkeypatch.setattr(system_pool, "log_in", nobody)
    assert system.login_problem() == "no login: nobody is there"
    asyncio.run(system.follow("1.34"))
    assert "by itself (no login: nobody is there). After the deploy: az aks nodepool upgrade" in told[-1]


def test_one_at_which_somebody_is_for_ever_is_left(
    cloud: AzureCloud, system: SystemPool, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_pool, "_LONGEST_SECONDS", 0.1)
    monkeypatch.setattr(system_pool, "_TOLD_EVERY", 0.0)
    set_state(cloud, "Updating")
    asyncio.run(system.follow("1.34"))
    assert told[0] == "info: the pool `system` of gpu is Updating for 0 minutes"
    assert "(Azure is not done after" in told[-1]


# --- the stand-in itself -----------------------------------------------------------------------------------


def test_the_stand_in_refuses_what_azure_refuses(cloud: AzureCloud, session: Session) -> None:
    body = {"properties": {**SYSTEM, "orchestratorVersion": "1.34"}}
    for path, api, sent, etag, refusal in (
        (PATH, VERSION, {"properties": {**SYSTEM, "orchestratorVersion": "1.35"}}, "", "400 NodePoolMcVersionIncompatible"),
        (PATH, VERSION, body, "another", "412 PreconditionFailed"),
        (PATH, "1999-01-01", body, "", "400 NoRegisteredProviderFound"),
        (PATH.rpartition("/agentPools")[0], VERSION, body, "", "Azure answers 404"),
    ):
        with pytest.raises(UnreadError, match=refusal):
            session.put_below(path, api, sent, etag)
    with pytest.raises(UnreadError, match="401 InvalidAuthenticationToken"):
        Session(session.address, SUBSCRIPTION, "other").put_below(PATH, VERSION, body, "")
    assert version(cloud) == "1.33.0"


def test_the_stand_in_shows_a_pool_as_azure_does(session: Session) -> None:
    shown = session.below(PATH, VERSION)
    assert shown["type"] == "Microsoft.ContainerService/managedClusters/agentPools"
    assert {"eTag", "provisioningState", "currentOrchestratorVersion"} <= {*shown["properties"]}
    assert not {"id", "name", "eTag"} & {*shown} - {"id", "name"}


def test_the_stand_in_knows_its_operations_alone(session: Session) -> None:
    url = session.put_below(PATH, VERSION, {"properties": {**SYSTEM, "orchestratorVersion": "1.34"}}, "*")
    assert url is not None
    assert url.startswith(f"{session.address}/subscriptions/{SUBSCRIPTION}/providers/Microsoft.ContainerService/locations/")
    assert session.operation(url)["status"] in {"InProgress", "Succeeded"}
    with pytest.raises(UnreadError, match="404"):
        session.operation(url.replace("/operations/", "/operations/1"))
