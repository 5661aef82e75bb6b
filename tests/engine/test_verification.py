"""The gate: `pulumi up` fails with the difference that a node shows, however it ends, and going back heals it."""

from __future__ import annotations

import base64
import json
import os
import signal
import zipfile
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from sandbox.nvml import state
from tests.engine.marks import ON_NODES
from tests.patience import output_of, scaled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.engine.trial import Trial

pytestmark = ON_NODES

#: The engine waits 60 s longer than the deadline; an init container has then ended at least once.
STACK: Final = """
config:
  gpu-pools:cluster: {platform: existing, context: byo}
  gpu-pools:sharing: {sliced: {timeSlicing: {replicas: 4}}}
  gpu-pools:verification: {deadlineSeconds: 20}
  gpu-pools:pools:
    - {name: ts, nodeSelector: {pool: ts}, gpuModel: NVIDIA A10, gpusPerNode: 1, sharing: sliced}
"""
OTHER: Final = {"sliced": {"timeSlicing": {"replicas": 8}}}
PROHIBITED, DEFAULT = 2, 0
#: Until the verifier is there, its deadline, the engine's 60 seconds beyond.
LONGEST_SECONDS: Final = 60 + 20 + 60
CONFIG_MAPS: Final = "/api/v1/namespaces/gpu-pools-verifier/configmaps"
PODS: Final = "/api/v1/namespaces/gpu-pools-verifier/pods"
EXPECTATION: Final = "gpu-ts-verification-expectation"
VERIFIERS: Final = "/apis/apps/v1/namespaces/gpu-pools-verifier/daemonsets/gpu-pools-verifier-ts"


def _set_compute_mode(path: Path, mode: int) -> None:
    """As `nvidia-smi -c`: nothing in Kubernetes shows it, and no pod can use such a GPU."""
    state.change(path, lambda seen: replace(seen, gpus=tuple(replace(gpu, compute_mode=mode) for gpu in seen.gpus)))


def test_up_says_why_it_fails_and_going_back_goes_through(sandbox: Callable[..., Trial], tmp_path: Path) -> None:
    trial = sandbox(STACK)
    trial.preview().ok()
    (folder,) = trial.clusters

    def states() -> list[Path]:
        return list(folder.glob("machines/*/state"))

    trial.wait_until(states, "the GPUs of the node")
    (path,) = states()
    _set_compute_mode(path, PROHIBITED)

    failed = trial.up()
    assert failed.code == 1
    # Every ten seconds it was said on which node something was waited for, and what for; and that it ends in its time.
    (node,) = trial.nodes("ts")
    waits = [part for part in failed.err.split("; waited for:")[1:] if "the engine: creating DaemonSet" in part]
    assert len(waits) >= 5, failed.err
    assert f"{node['metadata']['name']} (ts): GpuSharingVerified is False: Differs; not running there yet: " in waits[-1]
    assert "gpu-pools-verifier-ts (init container assert" in waits[-1]
    assert failed.seconds < scaled(LONGEST_SECONDS)
    # The provider itself never says more of a DaemonSet.
    assert "failed to fully initialize or become live: timed out waiting for the condition" in failed.text, failed.text
    for told in (
        "pool ts is not verified.",
        "remedy: ",
        "GPU 0",
        "compute mode is PROHIBITED, expected DEFAULT",
        f"ts/{_name(node)}",
    ):
        assert told in failed.text, f"{told}\n{failed.text}"
    assert f"make verify STACK={trial.stack}" in failed.text
    # What everybody else looks at is as declared; what the verifier found stands on the node.
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert "the compute mode was set by hand" in trial.status().out
    verified = trial.run("verify", trial.stack)
    assert verified.code == 1, verified.text
    assert "compute mode is PROHIBITED, expected DEFAULT" in verified.out

    interrupted = _interrupted_while_it_waits(trial, lambda config: config["gpu-pools:sharing"].update(OTHER))
    assert "pool ts is not verified." in interrupted, interrupted
    assert "compute mode is PROHIBITED, expected DEFAULT" in interrupted, interrupted

    # Back to what failed before the interruption, which is now as declared: nothing of either is in the way, or left.
    trial.write(STACK)
    _set_compute_mode(path, DEFAULT)
    trial.up().ok()
    assert trial.run("verify", trial.stack).ok().out.splitlines()[-1] == "1 node: 1 proven"
    assert trial.get(VERIFIERS)["status"]["numberReady"] == 1
    assert len(_expectations(trial)) == 1
    trial.engine("preview", "--expect-no-changes").ok()

    uid = _expectations(trial)[0]["metadata"]["uid"]
    _as_an_earlier_version_had_it(trial)
    assert trial.planned_steps() == []
    trial.up().ok()
    assert _state(trial)[EXPECTATION]["urn"].rpartition("::")[2] != EXPECTATION
    assert [one["metadata"]["uid"] for one in _expectations(trial)] == [uid]

    _attack_another_program_under_the_same_name(trial, tmp_path)


def _attack_another_program_under_the_same_name(trial: Trial, tmp_path: Path) -> None:
    """Delete the program's ConfigMap and make it anew with a program of one's own, then have a pod start with it."""
    (program,) = _programs(trial)
    evil, owned = BytesIO(), tmp_path / "owned"
    with zipfile.ZipFile(evil, "w") as target:
        target.writestr("__main__.py", f"open({str(owned)!r}, 'w')")
    forged = {"verifier.pyz": base64.b64encode(evil.getvalue()).decode()}
    api, path = trial.api(), f"{CONFIG_MAPS}/{_name(program)}"
    api.delete(path)
    api.create(CONFIG_MAPS, {"metadata": {"name": _name(program)}, "immutable": True, "binaryData": forged})
    (pod,) = _pods(trial)
    api.delete(f"{PODS}/{_name(pod)}")
    trial.wait_until(lambda: "W90" in json.dumps(_pods(trial)), "the new pod has refused the program", 120)
    assert not owned.exists()

    verified = trial.run("verify", trial.stack)
    assert verified.code == 1, verified.text
    assert "(W90)" in verified.out
    assert trial.status().code != 0

    trial.up().ok()
    (repaired,) = _programs(trial)
    assert repaired["binaryData"] == program["binaryData"]
    assert _name(repaired) == f"{_name(program)}-1"
    assert trial.run("verify", trial.stack).ok().out.splitlines()[-1] == "1 node: 1 proven"
    trial.engine("preview", "--expect-no-changes").ok()
    assert not owned.exists()


def _programs(trial: Trial) -> list[dict[str, Any]]:
    return [one for one in trial.api().list(CONFIG_MAPS)["items"] if "binaryData" in one]


def _pods(trial: Trial) -> list[dict[str, Any]]:
    return [one for one in trial.api().list(PODS)["items"] if "deletionTimestamp" not in one["metadata"]]


def _name(node: dict[str, Any]) -> str:
    return str(node["metadata"]["name"])


def _expectations(trial: Trial) -> list[dict[str, Any]]:
    found = trial.api().list(CONFIG_MAPS)["items"]
    return [one for one in found if _name(one).startswith("expectation-")]


def _interrupted_while_it_waits(trial: Trial, change: Callable[[dict[str, Any]], None]) -> str:
    """Change the stack file, press Ctrl-C while the deploy waits for the verifiers; returns what it said."""
    trial.edit(change)
    process = trial.start("up", trial.stack)
    trial.wait_until(lambda: len(_expectations(trial)) == 2, "the other expectation", 120)
    trial.wait_until(lambda: _reported(trial), "the report on the other expectation", 120)
    os.killpg(process.pid, signal.SIGINT)
    out, err = output_of(process, 120)
    assert process.returncode != 0
    return f"{out}\n{err}"


def _reported(trial: Trial) -> bool:
    """Whether the node's verifier has reported on what the DaemonSet now mounts."""
    verifiers = trial.get(VERIFIERS)
    volumes = {volume["name"]: volume for volume in verifiers["spec"]["template"]["spec"]["volumes"]}
    digest = volumes["expectation"]["configMap"]["name"].rpartition("-")[2]
    (node,) = trial.nodes("ts")
    return verifiers["metadata"]["generation"] > 1 and digest in node["metadata"]["annotations"]["gpu-pools/verification"]


def _state(trial: Trial) -> dict[str, Any]:
    """Pulumi name -> resource; the expectation's by what it was once called."""
    names = {one["urn"].rpartition("::")[2]: one for one in trial.exported()["resources"]}
    return {EXPECTATION if "-verification-expectation-" in name else name: one for name, one in names.items()}


def _as_an_earlier_version_had_it(trial: Trial) -> None:
    """Give the expectation the fixed Pulumi name that it had once."""
    urn = _state(trial)[EXPECTATION]["urn"]
    trial.engine("state", "rename", urn, EXPECTATION, "--yes").ok()
    assert any(one["urn"].endswith(f"::{EXPECTATION}") for one in trial.exported()["resources"])
