"""The look before the operator's or NFD's release is changed: by the engine's old inputs, and by the cluster, over HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from gpu_pools.components.gpu_operator import upgrade_first
from gpu_pools.components.gpu_operator.upgrade_first import asks_for_crds, judges_the_step
from gpu_pools.plan.operator_upgrade import RULES_CRD, STATE
from gpu_pools.plan.planning import plan_config
from gpu_pools.text.errors import InvalidStackError
from tests.api_server import ApiServer, kubeconfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Recorder

    Run = Callable[..., Recorder]

READY = {"metadata": {"name": "cluster-policy"}, "status": {"state": "ready"}}
HALF_DONE = {"metadata": {"name": "n1", "labels": {STATE: "pod-restart-required"}}}
FAILED = {"metadata": {"name": "n1", "labels": {STATE: "upgrade-failed", "nvidia.com/cuda.driver-version.full": "595.91.07"}}}


@pytest.fixture
def api(api: ApiServer) -> ApiServer:
    api.items = {"nodes": [], "clusterpolicies": [READY]}
    return api


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr(upgrade_first.log, "warn", heard.append)
    return heard


def plan(version: str = "v26.7.0", driver: str = "", **operator: Any) -> Any:
    values = {"driver": {"version": driver}} if driver else {}
    return plan_config(
        {
            "gpu-pools:cluster": {"platform": "existing"},
            "gpu-pools:operator": {"version": version, "values": values, **operator},
            "gpu-pools:sharing": {"whole": {"exclusive": {}}},
            "gpu-pools:pools": [
                {"name": "a", "gpuModel": "a100-80gb", "gpusPerNode": 1, "sharing": "whole", "nodeSelector": {"pool": "a"}}
            ],
        }
    )


def change(run: Run, before: Any, after: Any, given: str | None, *, preview: bool = False) -> None:
    """Run the hook as the engine does, once outputs are known."""
    made: list[pulumi.ResourceHookBinding] = []
    run(lambda: made.append(judges_the_step("n", after, (given and pulumi.Output.secret(given), None), None)), preview=preview)
    inputs: list[Any] = [{"values": pulumi.Output.secret(one.operator_values)} for one in (before, after)]
    outputs = {"status": {"version": before.settings.operator.chart.version}}
    _call(made[0], pulumi.ResourceHookArgs("urn", "", "n", "Release", inputs[1], inputs[0], None, outputs))


def _call(binding: pulumi.ResourceHookBinding, args: pulumi.ResourceHookArgs) -> None:
    assert binding.before_update
    (hook,) = binding.before_update
    assert isinstance(hook, pulumi.ResourceHook)
    assert hook.opts
    assert hook.opts.on_dry_run
    called: Any = hook.callback(args)
    asyncio.get_event_loop().run_until_complete(called)


@pytest.mark.parametrize("preview", [True, False])
def test_a_release_that_is_left_out_is_refused_without_a_look_at_the_cluster(run: Run, preview: bool) -> None:  # noqa: FBT001
    with pytest.raises(InvalidStackError, match=r"v26\.7\.0 leaves out v26\.3\.3: v25\.10\.1 is deployed"):
        change(run, plan("v25.10.1"), plan(), None, preview=preview)


def test_a_step_back_that_nobody_acknowledged_is_refused(run: Run) -> None:
    with pytest.raises(InvalidStackError, match="NVIDIA documents no way back"):
        change(run, plan(), plan("v26.3.3"), None)


def test_one_step_on_a_cluster_where_nothing_is_half_done(run: Run, api: ApiServer, said: list[str]) -> None:
    change(run, plan("v26.3.3"), plan(), api.kubeconfig)
    assert said
    assert all(one.startswith("gpu-operator v26.3.3 to v26.7.0: ") for one in said)


def test_one_step_while_a_driver_is_being_replaced(run: Run, api: ApiServer, said: list[str]) -> None:
    api.items["nodes"] = [HALF_DONE]
    with pytest.raises(InvalidStackError, match=r"the driver of n1 is being replaced \(pod-restart-required\)"):
        change(run, plan("v26.3.3"), plan(), api.kubeconfig)
    del said[:]
    change(run, plan("v26.3.3"), plan(), api.kubeconfig, preview=True)
    assert any("the driver of n1 is being replaced" in one for one in said), "until the deploy it may be over"


def test_a_driver_is_not_declared_over_a_failed_node_but_back(run: Run, api: ApiServer, said: list[str]) -> None:
    api.items["nodes"] = [FAILED]
    with pytest.raises(InvalidStackError, match="its last driver upgrade has failed"):
        change(run, plan(), plan(driver="580.105.08"), api.kubeconfig)
    change(run, plan(driver="580.105.08"), plan(), api.kubeconfig)
    assert said == []


def test_other_values_look_at_nothing(run: Run, api: ApiServer, said: list[str]) -> None:
    api.items = {}
    change(run, plan(), plan(values={"dcgm": {"enabled": True}}), api.kubeconfig)
    assert said == []


def test_a_cluster_that_cannot_be_asked_stops_nothing(run: Run, api: ApiServer, said: list[str]) -> None:
    api.items["nodes"] = 403
    change(run, plan(), plan(driver="580.105.08"), api.kubeconfig)
    change(run, plan(), plan(driver="580.105.08"), kubeconfig(9))
    assert [one.partition(" (")[0] for one in said] == ["not looked for before the deploy: an upgrade that is half done"] * 2


def test_nfd_waits_for_its_definitions(run: Run, api: ApiServer, said: list[str]) -> None:
    made: list[pulumi.ResourceHookBinding] = []
    chart = plan().settings.nfd.chart
    run(lambda: made.append(asks_for_crds("n", chart, (api.kubeconfig, None), None)))

    def upgraded(before: str) -> None:
        _call(made[0], pulumi.ResourceHookArgs("urn", "", "n", "Release", {}, {"version": before}, None, {}))

    upgraded("0.17.4")  # None is there: Helm makes it.
    api.items[RULES_CRD] = {"spec": {"versions": ["In", "Exists"]}}
    upgraded("0.19.0")
    with pytest.raises(InvalidStackError, match="Helm does not upgrade what is in a chart's folder crds"):
        upgraded("0.17.4")
    api.items[RULES_CRD] = {"spec": {"versions": ["In", "GeLe"]}}
    upgraded("0.17.4")
    assert said == []
    api.items[RULES_CRD] = 403
    upgraded("0.17.4")
    assert said == ["not looked for before the deploy: NFD's CRDs (the API server answers 403)"]
