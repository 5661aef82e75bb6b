"""An AKS cluster that is there, as a component: what is read of it, and what the engine is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
import yaml

from gpu_pools.components.aks.existing import ExistingAksCluster
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.text.errors import InvalidStackError

from . import conftest
from .conftest import FOUND_CLUSTER as FOUND
from .conftest import NETWORK, Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    import pulumi

    from gpu_pools.components.arguments.stack import ExistingAksClusterArgs

    Run = Callable[..., Recorder]

ARGS: ExistingAksClusterArgs = {"resource_group": "rg", "name": "prod"}
STACK: dict[str, Any] = {
    "cluster": {"platform": "aks", "existing": {"resourceGroup": "rg", "name": "prod"}, "tags": {"team": "ml"}},
    "sharing": {"shared": {"timeSlicing": {"replicas": 4}}},
    "pools": [
        {"name": "gpu", "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "shared"},
        {
            "name": "own",
            "vmSize": "Standard_NC24ads_A100_v4",
            "count": 1,
            "sharing": "shared",
            "subnet": f"{NETWORK}/subnets/own",
        },
    ],
}


class _Refused(grpc.RpcError):
    """As the engine says that a provider has refused."""

    def __init__(self, text: str) -> None:
        self._text = text

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNKNOWN

    def details(self) -> str:
        return self._text


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What Azure answers; a text as the cluster is an error."""
    answers: dict[str, Any] = {"subscription": None, "cluster": {**FOUND}}
    otherwise = Recorder.call

    def call(self: Recorder, args: pulumi.runtime.MockCallArgs) -> dict[Any, Any]:
        if args.token.endswith(":getClientConfig") and answers["subscription"]:
            return {"clientId": "c", "objectId": "o", "subscriptionId": answers["subscription"], "tenantId": "t"}
        if not args.token.endswith(":getManagedCluster"):
            return otherwise(self, args)
        if isinstance(answers["cluster"], str):
            raise _Refused(answers["cluster"])
        assert (args.args["resourceGroupName"], args.args["resourceName"]) == ("rg", "prod")
        found: dict[Any, Any] = answers["cluster"]
        return found

    monkeypatch.setattr(Recorder, "call", call)
    monkeypatch.delenv("AAD_LOGIN_METHOD", raising=False)
    return answers


@pytest.mark.usefixtures("kubelogin")
class TestCluster:
    """Used alone."""

    def test_it_is_read_and_nothing_of_it_is_made(self, run: Run, azure: dict[str, Any]) -> None:
        seen: dict[str, Any] = {}

        def program() -> None:
            cluster = ExistingAksCluster("c", ARGS)
            for key in ("cluster_id", "cluster_name", "resource_group_name", "kubeconfig"):
                getattr(cluster, key).apply(lambda value, key=key: seen.update({key: value}))

        recorded = run(program)
        assert not recorded.of("ManagedCluster")
        assert not recorded.of("ResourceGroup")
        assert (seen["cluster_id"], seen["cluster_name"], seen["resource_group_name"]) == (azure["cluster"]["id"], "prod", "rg")
        (user,) = yaml.safe_load(seen["kubeconfig"])["users"]
        assert user["user"]["exec"]["args"][-2:] == ["--login", "azurecli"]
        assert recorded.is_secret("c-kubernetes", "kubeconfig")

    def test_a_cluster_without_entra_id_gives_what_azure_gives(self, run: Run, azure: dict[str, Any]) -> None:
        del azure["cluster"]["aadProfile"]
        seen: list[str] = []
        recorded = run(lambda: ExistingAksCluster("c", ARGS).kubeconfig.apply(seen.append))
        assert seen == [conftest.KUBECONFIG]
        assert recorded.is_secret("c-kubernetes", "kubeconfig")

    @pytest.mark.parametrize("preview", [True, False])
    def test_a_cluster_that_is_not_there_stops_a_preview_too(self, run: Run, azure: dict[str, Any], preview: bool) -> None:  # noqa: FBT001
        azure["cluster"] = 'Status=404 Code="ResourceNotFound" Message="The Resource was not found."'
        with pytest.raises(InvalidStackError, match=r"ExistingAksCluster\(c\): the cluster prod in rg cannot be read"):
            run(lambda: ExistingAksCluster("c", ARGS), preview=preview)

    def test_who_has_not_logged_in_gets_a_preview_and_no_deploy(self, run: Run, azure: dict[str, Any]) -> None:
        azure["cluster"] = "Please run 'az login' to setup account."
        recorded = run(lambda: ExistingAksCluster("c", ARGS), preview=True)
        assert recorded.of("providers:kubernetes")
        with pytest.raises(InvalidStackError, match="az login who asks"):
            run(lambda: ExistingAksCluster("c", ARGS))

    def test_another_subscription_is_refused(self, run: Run, azure: dict[str, Any]) -> None:
        mine = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
        azure["subscription"] = mine.upper()
        run(lambda: ExistingAksCluster("c", {**ARGS, "subscription": mine}))
        azure["subscription"] = "another"
        with pytest.raises(
            InvalidStackError, match=r"\.subscription: .* is not the one that the provider is configured for, another"
        ):
            run(lambda: ExistingAksCluster("c", {**ARGS, "subscription": mine}))

    def test_wrong_arguments_come_at_once(self, run: Run) -> None:
        with pytest.raises(InvalidStackError) as refused:
            run(lambda: ExistingAksCluster("c", {"resource_group": "rg.", "name": "-", "login": "devicecode"}))
        assert [one.path for one in refused.value.problems] == [
            f"ExistingAksCluster(c).{key}" for key in ("resourceGroup", "name", "login")
        ]


@pytest.mark.usefixtures("kubelogin")
class TestPlatform:
    """With a whole stack."""

    def test_pools_are_all_that_azure_is_asked_for(self, run: Run, azure: dict[str, Any]) -> None:
        del azure
        recorded = run(lambda: GpuPlatform("gpu", STACK))  # type: ignore[arg-type]
        kinds = {one.type for one in recorded.resources if one.type.startswith("azure-native:")}
        assert kinds == {"azure-native:containerservice:AgentPool"}
        pool, own = recorded.one("AgentPool", "gpu-gpu-pool").inputs, recorded.one("AgentPool", "gpu-own-pool").inputs
        assert (pool["resourceName"], pool["resourceGroupName"]) == ("prod", "rg")
        assert (pool["vnetSubnetID"], own["vnetSubnetID"]) == (f"{NETWORK}/subnets/nodes", f"{NETWORK}/subnets/own")
        assert pool["tags"] == own["tags"] == {"team": "ml", "gpu-pools": "gpu-pools/test"}
        assert "orchestratorVersion" not in pool

    def test_nothing_inside_goes_away_with_it(self, run: Run, azure: dict[str, Any]) -> None:
        del azure
        recorded = run(lambda: GpuPlatform("gpu", STACK))  # type: ignore[arg-type]
        assert not any(request.deletedWith for request in recorded.requests.values())

    def test_what_does_not_go_together_stops_it(self, run: Run, azure: dict[str, Any]) -> None:
        azure["cluster"] = {**FOUND, "powerState": {"code": "Stopped"}}
        azure["cluster"]["agentPoolProfiles"] = [*FOUND["agentPoolProfiles"], {"name": "gpu", "mode": "User"}]
        with pytest.raises(InvalidStackError) as refused:
            run(lambda: GpuPlatform("gpu", STACK), preview=True)  # type: ignore[arg-type]
        assert [one.path.rpartition("gpu-pools:")[2] for one in refused.value.problems][:2] == [
            "cluster.existing",
            "pools[0].name",
        ]
