"""A pool with `rollout` as it is registered, and the hook that waits for it: over HTTP on loopback."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from gpu_pools.components.platform import GpuPlatform
from gpu_pools.components.proof import rolled_out
from gpu_pools.components.proof.rolled_out import RolledOut
from gpu_pools.components.proof.verification import Verification, Verifier
from gpu_pools.components.proof.why import Failed
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.rollout_wait import NotRolledOutError
from gpu_pools.proof.verifier_pods import Program
from gpu_pools.proof.verifier_reports import reports
from tests.api_server import ApiServer, kubeconfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Recorder

    Run = Callable[..., Recorder]

GATE, PROOF = "gpu-a-verification-rolled-out", "gpu-a-verification-verifier"
WAIT_FOR = "pulumi.com/waitFor"
POOL: dict[str, Any] = {"name": "a", "nodeSelector": {"p": "a"}, "gpuModel": "NVIDIA A10", "gpusPerNode": 1, "sharing": "s"}
OVER = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady")


@pytest.fixture
def api(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    monkeypatch.setattr(rolled_out, "_PAUSE_SECONDS", 0.0)
    api.items = {"nodes": [], "pods": []}
    return api


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    heard: list[str] = []
    for level in ("info", "warn", "error"):
        monkeypatch.setattr(rolled_out.log, level, lambda text, *_where: heard.append(text))
    return heard


def config(reached: str, **pool: Any) -> Any:
    return {
        "cluster": {"platform": "existing", "kubeconfigContent": reached},
        "sharing": {"s": {"timeSlicing": {"replicas": 4}}},
        "pools": [{**POOL, **pool}],
        "verification": {"smokeTest": True},
    }


def deployed(run: Run, reached: str, *, preview: bool = False, **pool: Any) -> Recorder:
    return run(lambda: GpuPlatform("gpu", config(reached, **pool)), preview=preview)


def annotations(recorded: Recorder) -> dict[str, str]:
    found: dict[str, str] = recorded.one("DaemonSet", PROOF).inputs["metadata"].get("annotations") or {}
    return found


def nodes_asked(api: ApiServer) -> list[str]:
    """What the wait asks first; kubectl looks for the program in previews, too."""
    return [path for path in api.asked if "/nodes" in path]


# --- as it is registered -------------------------------------------------------------------------------------


def test_a_config_map_that_is_due_with_each_new_declaration_waits_in_the_place_of_the_provider(run: Run, api: ApiServer) -> None:
    recorded = deployed(run, api.kubeconfig, rollout={})
    gate = recorded.one("ConfigMap", GATE).inputs
    assert gate["metadata"] == {"name": "rollout-of-a", "namespace": "gpu-pools-verifier"}
    assert set(gate["data"]) == {"daemonSet", "generation"}
    hooks = recorded.options(GATE).hooks
    assert list(hooks.before_create) == list(hooks.before_update) == [GATE]
    # With a hook of a deletion in its state the engine would ask each destroy for the program.
    assert not any(recorded.options(name).hooks.before_delete for name in (GATE, PROOF))
    assert PROOF in recorded.depends_on(GATE)
    assert annotations(recorded)[WAIT_FOR] == "jsonpath={.metadata.uid}"


def test_what_comes_after_the_proof_waits_for_it(run: Run, api: ApiServer) -> None:
    recorded = deployed(run, api.kubeconfig, rollout={})
    (job,) = recorded.of(":Job")
    assert GATE in recorded.depends_on(job.name)


def test_old_nodes_are_emptied_after_it(run: Run, api: ApiServer) -> None:
    aks = {"platform": "aks", "name": "c", "location": "westeurope", "checkCloud": False, "systemPool": SYSTEM}
    pool = {"name": "a", "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "s", "replace": "surge", "rollout": {}}
    settings: Any = {**config(api.kubeconfig), "cluster": aks, "pools": [pool]}
    recorded = run(lambda: GpuPlatform("gpu", settings), preview=True)
    assert GATE in recorded.depends_on("gpu-a-verification-emptied")


SYSTEM = {"vmSize": "Standard_D4s_v5", "count": 1}


def test_without_a_rollout_there_is_nothing_of_it(run: Run, api: ApiServer) -> None:
    recorded = deployed(run, api.kubeconfig)
    assert [one.name for one in recorded.of("ConfigMap") if "rolled-out" in one.name] == []
    assert annotations(recorded) == {}
    hooks = recorded.options(PROOF).hooks
    assert list(hooks.before_create) == []
    assert list(hooks.before_update) == ["gpu-a-verification-operands"]
    assert nodes_asked(api) == []


def test_a_pool_with_mps_is_waited_for_in_the_same_way(run: Run, api: ApiServer) -> None:
    """An operator that cannot serve MPS is reported within seconds, and no time changes it (W49)."""
    sections = {**config(api.kubeconfig), "sharing": {"s": {"mps": {"replicas": 4}}}}
    recorded = run(lambda: GpuPlatform("gpu", sections), preview=False)
    assert list(recorded.options(GATE).hooks.before_create) == [GATE]
    assert annotations(recorded)[WAIT_FOR] == "jsonpath={.metadata.uid}"


def test_where_nobody_said_how_to_reach_the_cluster_the_provider_waits(run: Run) -> None:
    sections: Any = {**config(""), "cluster": {"platform": "existing"}, "pools": [{**POOL, "rollout": {}}]}

    def program() -> None:
        Verification("v", {"pool": "a", "program": Verifier("r", {}).program, "config": sections})

    recorded = run(program)
    assert [one.name for one in recorded.of("ConfigMap") if "rolled-out" in one.name] == []
    assert WAIT_FOR not in recorded.one("DaemonSet").inputs["metadata"]["annotations"]
    assert recorded.options("v-verifier").customTimeouts.update


def test_a_preview_asks_nobody(run: Run, api: ApiServer) -> None:
    recorded = deployed(run, api.kubeconfig, preview=True, rollout={})
    assert annotations(recorded)[WAIT_FOR]
    assert nodes_asked(api) == []


@pytest.mark.parametrize("status", [None, 401, 403])
def test_where_the_program_cannot_ask_the_provider_waits_and_the_deploy_says_so(
    run: Run, api: ApiServer, said: list[str], status: int | None
) -> None:
    api.items["nodes"] = status
    reached = kubeconfig(1) if status is None else api.kubeconfig
    recorded = deployed(run, reached, rollout={})
    assert WAIT_FOR not in annotations(recorded)
    assert annotations(recorded), "what the nodes become is told all the same"
    (text,) = [one for one in said if "cannot reach" in one]
    why = (
        "http://127.0.0.1:1 cannot be reached: [Errno 111] Connection refused"
        if status is None
        else f"the API server answers {status}"
    )
    assert f"pool a: the program cannot reach the cluster ({why})" in text
    assert f"after {recorded.options(PROOF).customTimeouts.update.removesuffix('s')} s" in text


# --- the hook ------------------------------------------------------------------------------------------------


def failed(reached: str) -> Failed:
    return Failed("a", reports(_plan(), Program("verifier-1", "d" * 64, "5" * 64), "a"), reached)


def _plan(**rollout: Any) -> Any:
    sections = {f"gpu-pools:{key}": value for key, value in config("", rollout=rollout).items()}
    return plan_config({**sections, "gpu-pools:cluster": {"platform": "existing"}})


def waits(run: Run, reached: str, seconds: int = 600, *, fell_back: bool = False) -> None:
    """Run the hook as the engine does."""
    made: list[RolledOut] = []
    facts = failed(reached)
    run(lambda: made.append(RolledOut("n", _plan().pools[0], pulumi.Output.from_input(facts), seconds, 0)))
    made[0]._waited_for = fell_back
    asyncio.get_event_loop().run_until_complete(made[0]._wait(pulumi.ResourceHookArgs("", "", "", "")))


def daemon_set(nodes: int, updated: int) -> dict[str, Any]:
    status = {**dict.fromkeys(OVER, nodes), "updatedNumberScheduled": updated, "observedGeneration": 1}
    return {"metadata": {"generation": 1}, "status": status}


def test_it_ends_with_the_rollout_and_says_how_it_goes(
    run: Run, api: ApiServer, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def goes_on(_seconds: float) -> None:
        api.items["gpu-pools-verifier-a"] = daemon_set(2, 2)

    monkeypatch.setattr(rolled_out, "asyncio", SimpleNamespace(to_thread=asyncio.to_thread, sleep=goes_on))
    api.items["gpu-pools-verifier-a"] = daemon_set(2, 1)
    waits(run, api.kubeconfig)
    assert said == ["pool a: 1 of 2 nodes are as declared", "pool a: 2 of 2 nodes are as declared"]
    assert "/api/v1/nodes?labelSelector=p%3Da" in api.asked
    assert any(path.startswith("/api/v1/namespaces/gpu-pools-verifier/pods?labelSelector=") for path in api.asked)


def test_where_it_fails_it_says_why_as_every_verification_does(
    run: Run, api: ApiServer, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulumi.get_stack", lambda: "byo")
    api.items["gpu-pools-verifier-a"] = daemon_set(2, 1)
    with pytest.raises(NotRolledOutError, match="pool a: its rollout was not over in 0 s: 1 of 2 nodes are as declared"):
        waits(run, api.kubeconfig, seconds=0)
    assert "pool a is not verified." in said[-1]
    assert "Where to look:" in said[-1]


def test_where_the_provider_has_waited_it_asks_nobody(run: Run, api: ApiServer) -> None:
    waits(run, api.kubeconfig, fell_back=True)
    assert api.asked == []


# --- when it is due ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "known"),
    [
        (None, {"spec": {"a": 1}}, False),
        ({"spec": {"a": 1}}, {"spec": {"a": 2}}, False),
        # What stands beside the spec is no new generation, so nothing is to be proven anew.
        ({"spec": {"a": 1}, "metadata": {}}, {"spec": {"a": 1}, "metadata": {"annotations": {}}}, True),
    ],
)
@pytest.mark.parametrize("preview", [True, False])
def test_a_preview_tells_no_generation_of_what_it_would_change(run: Run, old: Any, new: Any, known: bool, preview: bool) -> None:  # noqa: FBT001
    """An engine that is held to its plan would refuse another one."""
    found: list[Any] = []

    def program() -> None:
        made = RolledOut("n", _plan().pools[0], pulumi.Output.from_input(failed("")), 1, 0)
        hook: Any = made.notes()
        assert hook.opts.on_dry_run
        hook.callback(pulumi.ResourceHookArgs("", "", "", "", new, old))
        proven: Any = pulumi.Output.from_input("u").apply(lambda uid: made._proven(uid, 3))
        pulumi.Output.from_input(proven.is_known()).apply(found.append)

    run(program, preview=preview)
    assert found == [known or not preview]
