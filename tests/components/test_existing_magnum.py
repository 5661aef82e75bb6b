"""A Magnum cluster that is there, as a component: what is read of it, and what the engine is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest

from gpu_pools.components.magnum.existing import ExistingMagnumCluster
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.text.errors import InvalidStackError

from .conftest import KUBECONFIG, MAGNUM_CLUSTER, Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    import pulumi

    from gpu_pools.components.arguments.stack import ExistingMagnumClusterArgs

    Run = Callable[..., Recorder]

ARGS: ExistingMagnumClusterArgs = {"driver": "heat", "name": "prod"}
STACK: dict[str, Any] = {
    "cluster": {"platform": "magnum", "driver": "heat", "existing": {"name": "prod"}},
    "flavors": {"g2": {"gpuModel": "a100-40gb", "gpusPerNode": 1}},
    "sharing": {"shared": {"timeSlicing": {"replicas": 4}}},
    "pools": [
        {"name": "gpu", "flavor": "g2", "count": 1, "sharing": "shared", "taints": ["a=b:NoSchedule"]},
        {"name": "own", "flavor": "g2", "count": 1, "sharing": "shared", "nodeGroupLabels": {"x": "y"}},
    ],
}
NOT_THERE = "Error getting openstack_containerinfra_cluster_v1 prod: Expected HTTP response code [200] but got 404 instead: {}"
NO_LOGIN = "One of 'auth_url' or 'cloud' must be specified"


class _Refused(grpc.RpcError):
    """As the engine says that a provider has refused."""

    def __init__(self, text: str) -> None:
        self._text = text

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNKNOWN

    def details(self) -> str:
        return self._text


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """With which words the plugin refuses to read the cluster, once there are any."""
    words: list[str] = []
    otherwise = Recorder.call

    def call(self: Recorder, args: pulumi.runtime.MockCallArgs) -> dict[Any, Any]:
        if args.token.endswith(":getCluster"):
            assert args.args["name"] == "prod"
            if words:
                raise _Refused(words[0])
        return otherwise(self, args)

    monkeypatch.setattr(Recorder, "call", call)
    return words


def test_it_is_read_and_nothing_of_it_is_made(run: Run) -> None:
    seen: dict[str, Any] = {}

    def program() -> None:
        cluster = ExistingMagnumCluster("c", ARGS)
        for key in ("cluster_id", "cluster_name", "kubeconfig"):
            getattr(cluster, key).apply(lambda value, key=key: seen.update({key: value}))

    recorded = run(program)
    assert not [one for one in recorded.resources if one.type.startswith("openstack:")]
    assert seen["cluster_id"] == MAGNUM_CLUSTER
    assert seen["cluster_name"] == "prod"


def test_the_kubeconfig_of_the_first_deploy_is_kept_as_a_secret(run: Run) -> None:
    recorded = run(lambda: ExistingMagnumCluster("c", ARGS))
    name = f"c-kubeconfig-{MAGNUM_CLUSTER}"
    assert recorded.one("Stash").name == name
    assert recorded.one("Stash").inputs["input"]["value"] == KUBECONFIG
    assert recorded.is_secret(name, "input")
    assert list(recorded.options(name).ignoreChanges) == ["input"]
    assert recorded.one("providers:kubernetes").inputs["clusterIdentifier"] == MAGNUM_CLUSTER


@pytest.mark.parametrize("preview", [True, False])
def test_a_cluster_that_is_not_there_stops_a_preview_too(run: Run, refusal: list[str], preview: bool) -> None:  # noqa: FBT001
    refusal.append(NOT_THERE)
    with pytest.raises(InvalidStackError, match=r"ExistingMagnumCluster\(c\): the cluster prod cannot be read"):
        run(lambda: ExistingMagnumCluster("c", ARGS), preview=preview)


def test_who_has_not_logged_in_gets_a_preview_and_no_deploy(run: Run, refusal: list[str]) -> None:
    refusal.append(NO_LOGIN)
    recorded = run(lambda: ExistingMagnumCluster("c", ARGS), preview=True)
    assert recorded.of("providers:kubernetes")
    assert not recorded.of("Stash")
    with pytest.raises(InvalidStackError, match="openstack coe cluster show prod"):
        run(lambda: ExistingMagnumCluster("c", ARGS))


def test_wrong_arguments_come_at_once(run: Run) -> None:
    with pytest.raises(InvalidStackError) as refused:
        run(lambda: ExistingMagnumCluster("c", {"driver": "hot", "name": "-", "uuid": "x"}))
    assert {one.path for one in refused.value.problems} == {
        f"ExistingMagnumCluster(c).{key}" for key in ("driver", "existing", "existing.name", "existing.uuid")
    }


def test_node_groups_are_all_that_magnum_is_asked_for(run: Run) -> None:
    recorded = run(lambda: GpuPlatform("gpu", STACK))  # type: ignore[arg-type]
    kinds = {one.type for one in recorded.resources if one.type.startswith("openstack:")}
    assert kinds == {"openstack:containerinfra/nodeGroup:NodeGroup"}
    group, own = recorded.one("NodeGroup", "gpu-gpu-group").inputs, recorded.one("NodeGroup", "gpu-own-group").inputs
    assert group["clusterId"] == own["clusterId"] == MAGNUM_CLUSTER
    assert group["labels"] == {"kubelet_options": "--register-with-taints=a=b:NoSchedule", "gpu_pools_stack": "gpu-pools/test"}
    assert own["labels"] == {"x": "y", "gpu_pools_stack": "gpu-pools/test"}
    assert group["mergeLabels"] is own["mergeLabels"] is True


def test_the_clusters_own_labels_say_whether_it_is_autoscaled(run: Run) -> None:
    cluster = {**STACK["cluster"], "driver": "capi-helm"}
    there: dict[str, Any] = {"install": False}
    stack = {**STACK, "cluster": cluster, "operator": there, "node_feature_discovery": there, "pools": STACK["pools"][1:]}
    recorded = run(lambda: GpuPlatform("gpu", stack))  # type: ignore[arg-type]
    group = recorded.one("NodeGroup").inputs
    assert (group["minNodeCount"], group["maxNodeCount"]) == (1, 1)


def test_nothing_inside_goes_away_with_it(run: Run) -> None:
    recorded = run(lambda: GpuPlatform("gpu", STACK))  # type: ignore[arg-type]
    assert not any(request.deletedWith for request in recorded.requests.values())
