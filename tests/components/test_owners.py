"""What a cluster has already is looked for before a namespace is made there, and nowhere else; over HTTP on loopback."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from gpu_pools.components.kubernetes import owners
from gpu_pools.components.kubernetes.owners import looks_for_another, tells_of_another_owner, tells_of_layouts
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.aks.existing import ExistingAks
from gpu_pools.platforms.existing.cluster import ExistingSettings
from gpu_pools.platforms.magnum.cluster import MagnumSettings
from gpu_pools.platforms.magnum.existing import ExistingMagnum
from gpu_pools.text.errors import InvalidStackError
from tests.api_server import ApiServer, kubeconfig
from tests.unit.stacks import aks, existing, plan_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Recorder

    Run = Callable[..., Recorder]

THERE = (
    ExistingSettings(),
    AksSettings(existing=ExistingAks("rg", "prod")),
    MagnumSettings(existing=ExistingMagnum("mine")),
)


def workload(name: str, image: str = "x", labels: dict[str, str] | None = None, owner: str = "") -> dict[str, Any]:
    owners = [{"kind": owner, "name": "o"}] if owner else []
    metadata = {"name": name, "namespace": "ns", "labels": labels or {}, "ownerReferences": owners}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}


# --- when it is looked for ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", [*THERE, AksSettings(), MagnumSettings(driver="capi-helm"), MagnumSettings(driver="heat")])
def test_only_in_clusters_that_were_there(run: Run, cluster: Any) -> None:
    def program() -> None:
        told = tells_of_another_owner("n", cluster)
        hooks = looks_for_another("n", cluster, "nfd", ("kubeconfig", None), told)
        assert bool(hooks and hooks.before_create) is (cluster in THERE)
        assert bool(told) is (cluster in THERE or getattr(cluster, "driver", "") == "capi-helm")
        assert looks_for_another("n", cluster, "nfd", (None, None), told) is told

    run(program)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr(owners.log, "warn", heard.append)
    return heard


def look(run: Run, given: str, wanted: Any = "operator") -> None:
    told = tells_of_another_owner("n", THERE[0])
    called(run, lambda: looks_for_another("n", THERE[0], wanted, (pulumi.Output.secret(given), None), told))


def called(run: Run, hooks: Callable[[], pulumi.ResourceHookBinding | None]) -> None:
    """Run the hook as the engine does, once outputs are known."""
    made: list[pulumi.ResourceHookBinding | None] = []
    run(lambda: made.append(hooks()), preview=True)
    assert made[0]
    assert made[0].before_create
    (hook,) = made[0].before_create
    assert isinstance(hook, pulumi.ResourceHook)
    assert hook.opts
    assert hook.opts.on_dry_run
    callback: Any = hook.callback(pulumi.ResourceHookArgs("urn", "", "n", "Namespace"))
    asyncio.get_event_loop().run_until_complete(callback)


def test_what_is_there_is_refused(run: Run, api: ApiServer) -> None:
    api.items = {
        "deployments": [
            workload("theirs", "nvcr.io/nvidia/gpu-operator:v1"),
            workload("nfd-master", "nfd/node-feature-discovery:v1"),
        ],
        "daemonsets": [workload("plugin", "nvcr.io/nvidia/k8s-device-plugin:v1")],
    }
    with pytest.raises(InvalidStackError) as refused:
        look(run, api.kubeconfig)
    assert [one.message.partition("(")[2].partition(")")[0] for one in refused.value.problems] == [
        "Deployment ns/theirs",
        "DaemonSet ns/plugin",
    ]
    with pytest.raises(InvalidStackError, match="Deployment ns/nfd-master"):
        look(run, api.kubeconfig, "nfd")


def test_a_cluster_that_has_nothing_is_good(run: Run, api: ApiServer, said: list[str]) -> None:
    look(run, api.kubeconfig)
    assert said == []


def test_who_may_not_look_is_warned_and_not_stopped(run: Run, api: ApiServer, said: list[str]) -> None:
    api.items = {"deployments": 403}
    look(run, api.kubeconfig)
    (warning,) = said
    assert warning.startswith("not looked for before the deploy: a GPU operator or device plugin that the cluster has already")
    assert warning.endswith("(the API server answers 403)")


def test_a_cluster_that_is_not_reached_stops_nothing(run: Run, said: list[str]) -> None:
    look(run, kubeconfig(9), "nfd")
    (warning,) = said
    assert warning.startswith(
        "not looked for before the deploy: Node Feature Discovery that the cluster has already (http://127.0.0.1:9 cannot be"
    )


def test_a_kubeconfig_that_is_not_known_is_not_used(run: Run, said: list[str]) -> None:
    look(run, "")
    assert said == []


# --- layouts -----------------------------------------------------------------------------------------------


def layouts(run: Run, given: str) -> None:
    settings = plan_of(existing()).settings
    called(run, lambda: tells_of_layouts("n", settings, (pulumi.Output.secret(given), None), None))


def test_layouts_that_nodes_have_are_told_before_they_go(run: Run, api: ApiServer, said: list[str]) -> None:
    (selector, *_) = [dict(pool.placement.node_selector) for pool in plan_of(existing()).settings.pools]
    api.items = {"nodes": [{"metadata": {"name": "n1", "labels": {**selector, "nvidia.com/mig.config": "all-1g.10gb"}}}]}
    layouts(run, api.kubeconfig)
    (warning,) = said
    assert warning.startswith("nodes have a MIG layout already (label nvidia.com/mig.config): n1 all-1g.10gb. ")
    said.clear()
    api.items = {"nodes": []}
    layouts(run, api.kubeconfig)
    assert said == []


def test_layouts_that_may_not_be_looked_for_stop_nothing(run: Run, api: ApiServer, said: list[str]) -> None:
    api.items = {"nodes": 403}
    layouts(run, api.kubeconfig)
    assert said == ["not looked for before the deploy: MIG layouts that nodes have already (the API server answers 403)"]


def test_nodes_of_a_clouds_pools_had_none(run: Run) -> None:
    found: list[Any] = []
    run(lambda: found.append(tells_of_layouts("n", plan_of(aks()).settings, ("kubeconfig", None), None)))
    assert found == [None]
