"""Before a pool's verifiers are told of another expectation its nodes get the operator's pods: how long, and when no longer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from gpu_pools.components.platform import GpuPlatform
from gpu_pools.components.proof import operands_first
from gpu_pools.components.proof.operands_first import Clock, operand_hooks
from gpu_pools.plan.drivers import driver_pods_digest, seconds_per_round
from gpu_pools.plan.operator_upgrade import HAS, STATE
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.verifier_pods import DRIVER_NOTE
from tests.api_server import ApiServer, kubeconfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Recorder

    Run = Callable[..., Recorder]

NEW, OLD = "595.91.07", "580.126.20"


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr(operands_first.log, "warn", lambda text: heard.append(f"warning: {text}"))
    monkeypatch.setattr(operands_first.log, "info", heard.append)
    return heard


class Time:
    """A clock that goes on when somebody sleeps, and what happens meanwhile."""

    def __init__(self, passes: Callable[[float], None] = lambda _now: None) -> None:
        self.now, self._passes = 0.0, passes

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self._passes(self.now)

    def clock(self) -> Clock:
        return Clock(lambda: self.now, self.sleep)


def config(**operator: Any) -> dict[str, Any]:
    return {
        "cluster": {"platform": "existing"},
        "operator": operator,
        "sharing": {"whole": {"exclusive": {}}},
        "pools": [{"name": "a", "gpuModel": "a100-80gb", "gpusPerNode": 1, "sharing": "whole", "nodeSelector": {"pool": "a"}}],
        "verification": {"deadlineSeconds": 120},
    }


def plan(**operator: Any) -> Any:
    return plan_config({f"gpu-pools:{key}": value for key, value in config(**operator).items()})


def nodes(**has: str) -> list[dict[str, Any]]:
    return [{"metadata": {"name": name, "labels": {"gpu-pools/pool": "a", HAS: version}}} for name, version in has.items()]


def waited(
    run: Run,
    api: ApiServer,
    passes: Callable[[float], None],
    given: str | None = None,
    before: str | None = None,
    **operator: Any,
) -> float:
    """Run the hook as the engine does; how long it took. `before`: what the verifiers' pods said of the driver's."""
    made: list[Any] = []
    stack_plan = plan(**operator)
    for kind in ("pods", "controllerrevisions", "clusterpolicies"):
        api.items.setdefault(kind, [])
    time = Time(passes)
    run(lambda: made.extend(operand_hooks("n", stack_plan, stack_plan.pools[0], given or api.kubeconfig, time.clock())))
    (hook,) = made
    assert not (hook.opts and hook.opts.on_dry_run)
    notes = {DRIVER_NOTE: before} if before else {}
    # As it is where anything in it comes from an Output.
    old = {"spec": pulumi.Output.secret({"template": {"metadata": {"annotations": notes}}})}
    called: Any = hook.callback(pulumi.ResourceHookArgs("urn", "", "n", "DaemonSet", old_inputs=old))
    asyncio.get_event_loop().run_until_complete(called)
    return time.now


def test_nothing_is_waited_for_where_all_have_it(run: Run, api: ApiServer, said: list[str]) -> None:
    api.items["nodes"] = nodes(n1=NEW, n2=NEW)
    assert waited(run, api, lambda _now: None) == 0
    assert said == []


def test_it_is_waited_as_long_as_nodes_get_done_and_said_each_minute(run: Run, api: ApiServer, said: list[str]) -> None:
    """Ten nodes, each for nearly as long as one may take: far longer than the verifiers' own limit."""
    operator = {"driverUpgrade": {"drainTimeoutSeconds": 10}}
    round_ = seconds_per_round(plan(**operator)) - 10
    api.items["nodes"] = nodes(**{f"n{index}": OLD for index in range(10)})

    def passes(now: float) -> None:
        done = int(now // round_)
        api.items["nodes"] = nodes(**{f"n{index}": NEW if index < done else OLD for index in range(10)})

    assert 10 * round_ <= waited(run, api, passes, **operator) < 10 * round_ + 10
    assert said[0] == "pool a: 10 of its nodes get other pods of the operator first: n0, n1, n2, n3, n4 and 5 more"
    assert said[-1] == "pool a: 1 of its nodes get other pods of the operator first: n9"
    assert len(said) == pytest.approx(10 * round_ / 60, abs=1)


def test_it_ends_where_nothing_moves(run: Run, api: ApiServer, said: list[str]) -> None:
    round_ = seconds_per_round(plan())
    api.items["nodes"] = nodes(n1=OLD, n2=OLD, n3=OLD)
    assert round_ < waited(run, api, lambda _now: None) <= round_ + 5
    assert said[-1] == f"warning: it is not waited for the operator's pods of pool a (n1, n2, n3): no node got done in {round_} s"


def test_it_ends_when_all_turns_are_over_although_a_node_got_done(run: Run, api: ApiServer, said: list[str]) -> None:
    """Two at a time are one turn for two nodes."""
    operator = {"driverUpgrade": {"maxUnavailable": 2, "drainTimeoutSeconds": 60}}
    round_ = seconds_per_round(plan(**operator))
    api.items["nodes"] = nodes(n1=OLD, n2=OLD)

    def passes(now: float) -> None:
        api.items["nodes"] = nodes(n1=OLD if now < round_ - 20 else NEW, n2=OLD)

    assert round_ < waited(run, api, passes, **operator) <= round_ + 5
    assert said[-1] == f"warning: it is not waited for the operator's pods of pool a (n2): it took longer than {round_} s"


def test_a_failed_node_ends_it_at_once(run: Run, api: ApiServer, said: list[str]) -> None:
    """With one node at a time no other begins."""
    (failed,) = nodes(n9=OLD)
    failed["metadata"]["labels"] |= {STATE: "upgrade-failed", "gpu-pools/pool": "b"}
    api.items["nodes"] = [*nodes(n1=OLD), failed]
    assert waited(run, api, lambda _now: None) == 0
    assert said == ["warning: it is not waited for the operator's pods of pool a (n1): the driver upgrade of n9 has failed"]


def test_a_cluster_that_is_away_for_a_moment_is_asked_again(run: Run, api: ApiServer, said: list[str]) -> None:
    api.items["nodes"] = 503

    def back(now: float) -> None:
        api.items["nodes"] = 503 if now < 20 else nodes(n1=NEW)

    assert waited(run, api, back) == 20
    assert said == []


def test_one_that_stays_away_stops_nothing(run: Run, api: ApiServer, said: list[str]) -> None:
    assert waited(run, api, lambda _now: None, kubeconfig(1)) == 25
    assert said == ["warning: it is not waited for the operator's pods of pool a: the cluster does not say which nodes have them"]


def operand(node: str, version: str, app: str = "nvidia-driver-daemonset") -> dict[str, Any]:
    labels = {"helm.sh/chart": f"gpu-operator-{version}", "app.kubernetes.io/managed-by": "gpu-operator", "app": app}
    return {"metadata": {"name": f"{app}-{node}", "labels": labels}, "spec": {"nodeName": node}}


def test_another_operator_with_the_same_driver_is_waited_for(run: Run, api: ApiServer, said: list[str]) -> None:
    """Nodes tell the same version before and after; their pods tell the chart."""
    api.items["nodes"] = nodes(n1=OLD, n2=OLD)

    def passes(now: float) -> None:
        versions = {"n1": "v26.7.0" if now >= 30 else "v26.3.3", "n2": "v26.7.0" if now >= 90 else "v26.3.3"}
        api.items["pods"] = [operand(name, version) for name, version in versions.items()]

    passes(0)
    assert waited(run, api, passes, values={"driver": {"version": OLD}}) == 90
    assert said == [
        "pool a: 2 of its nodes get other pods of the operator first: n1, n2",
        "pool a: 1 of its nodes get other pods of the operator first: n2",
    ]
    assert any("/namespaces/gpu-operator/pods" in path for path in api.asked)


DRIVER = {"app.kubernetes.io/component": "nvidia-driver"}


def with_drivers(api: ApiServer, newest: str, changed: str = "2026-11-27T08:00:05Z", **has: str) -> None:
    """The driver's DaemonSet, its revisions, and a pod of it per node, of a revision."""
    own = {"uid": "u", "generation": 1, "labels": DRIVER, "managedFields": [{"time": changed}]}
    api.items["daemonsets"] = [{"metadata": own, "status": {"observedGeneration": 1}}]
    api.items["controllerrevisions"] = [
        {
            "metadata": {"labels": {**DRIVER, "controller-revision-hash": one}, "ownerReferences": [{"uid": "u"}]},
            "revision": 2 if one == newest else 1,
        }
        for one in ("old", "new")
    ]
    api.items["pods"] = [
        {"metadata": {"name": name, "labels": {**DRIVER, "controller-revision-hash": one}}, "spec": {"nodeName": name}}
        for name, one in has.items()
    ]


def test_a_driver_of_the_same_version_is_waited_for_from_when_the_operator_has_followed(
    run: Run, api: ApiServer, said: list[str]
) -> None:
    """Until then all pods are of the newest revision, which is the old one."""
    api.items["nodes"] = nodes(n1=NEW, n2=NEW)
    api.items["clusterpolicies"] = [{"metadata": {"managedFields": [{"time": "2026-11-27T08:00:04Z"}]}}]

    def passes(now: float) -> None:
        if now < 10:
            with_drivers(api, "old", "2026-11-26T08:00:00Z", n1="old", n2="old")
        else:
            with_drivers(api, "new", n1="new" if now >= 30 else "old", n2="new" if now >= 90 else "old")

    passes(0)
    assert waited(run, api, passes, before="another") == 90
    assert said == [
        "pool a: 2 of its nodes get other pods of the operator first: n1, n2",
        "pool a: 1 of its nodes get other pods of the operator first: n2",
    ]


def test_an_operator_that_has_nothing_to_follow_is_given_a_minute(run: Run, api: ApiServer, said: list[str]) -> None:
    api.items["nodes"] = nodes(n1=NEW)
    api.items["clusterpolicies"] = [{"metadata": {"managedFields": [{"time": "2026-11-27T08:00:04Z"}]}}]
    with_drivers(api, "old", "2026-11-26T08:00:00Z", n1="old")
    assert waited(run, api, lambda _now: None, before="another") == 60
    (text,) = said
    assert text.startswith("waiting until the operator has written its ClusterPolicy into the driver's DaemonSet")


def test_of_a_pool_without_nodes_nothing_has_to_be_followed(run: Run, api: ApiServer, said: list[str]) -> None:
    """Without a GPU node in the cluster the operator leaves its DaemonSets as they are."""
    other, plain = nodes(n1=NEW, n2=NEW)
    other["metadata"]["labels"]["gpu-pools/pool"] = "b"
    plain["metadata"].pop("labels")
    api.items["nodes"] = [other, plain]
    api.items["clusterpolicies"] = [{"metadata": {"managedFields": [{"time": "2026-11-27T08:00:04Z"}]}}]
    assert waited(run, api, lambda _now: None, before="another") == 0
    assert said == []


def test_one_that_does_not_answer_is_asked_again_within_it(run: Run, api: ApiServer, said: list[str]) -> None:
    api.items["nodes"], api.items["clusterpolicies"] = nodes(n1=NEW), 503

    def passes(now: float) -> None:
        api.items["clusterpolicies"] = 503 if now < 20 else []

    with_drivers(api, "new", n1="new")
    assert waited(run, api, passes, before="another") == 20
    assert len(said) == 1, "what is waited for, once"


@pytest.mark.parametrize("same", [True, False])
def test_where_the_driver_s_pods_stay_as_they_are_or_nobody_said_what_they_were_it_is_not_given(
    run: Run,
    api: ApiServer,
    same: bool,  # noqa: FBT001
) -> None:
    api.items["nodes"] = nodes(n1=NEW)
    with_drivers(api, "old", n1="old")
    assert waited(run, api, lambda _now: None, before=driver_pods_digest(plan()) if same else None) == 0
    assert not any("clusterpolicies" in path for path in api.asked)


def test_where_nothing_can_be_told_there_is_no_hook() -> None:
    stack_plan = plan(install=False)
    assert operand_hooks("n", stack_plan, stack_plan.pools[0], "kubeconfig") == []


def test_nor_where_nobody_said_how_to_reach_the_cluster() -> None:
    stack_plan = plan()
    assert operand_hooks("n", stack_plan, stack_plan.pools[0], None) == []


def test_the_platform_has_it_at_the_verifiers_of_each_pool(run: Run) -> None:
    given: Any = config()
    given["cluster"] = {"platform": "existing", "kubeconfigContent": kubeconfig(1)}
    recorded = run(lambda: GpuPlatform("gpu", given))
    hooks = recorded.options("gpu-a-verification-verifier").hooks
    assert list(hooks.before_update) == ["gpu-a-verification-operands"]
    assert not hooks.before_create
