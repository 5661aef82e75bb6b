"""`make up` and `make down`, interrupted at every stage and in every way: the next one finishes, and nothing exists twice.

A cycle: an `up` that is interrupted, one `up` that must converge, a `down`, sometimes interrupted too, one that must finish.
Two cycles are in `make test`, five in `make test-all`; the nights try all (`make test-night PART=repeats`, about an hour).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from sandbox.clouds.records import Records
from sandbox.cluster.api import Api
from sandbox.stack import checkpoint
from sandbox.system import processes
from sandbox.system.files import read_json
from tests.engine.trial import PROJECT
from tests.tiers import ALL, these

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.engine.trial import Run, Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs]

STACKS: Final[dict[str, dict[str, Any]]] = {
    "aks": {
        "azure-native:location": "westeurope",
        "gpu-pools:cluster": {
            "platform": "aks",
            "name": "small",
            "location": "westeurope",
            "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1},
        },
        "gpu-pools:sharing": {"nb": {"timeSlicing": {"replicas": 4}}},
        "gpu-pools:pools": [
            {
                "name": "gpu",
                "vmSize": "Standard_NC24ads_A100_v4",
                "count": 1,
                "sharing": "nb",
                "taints": ["sku=gpu:NoSchedule"],
            }
        ],
    },
    "magnum": {
        "gpu-pools:cluster": {
            "platform": "magnum",
            "name": "small",
            "driver": "heat",
            "template": {"image": "fedora-coreos-42", "externalNetwork": "public", "flavor": "m2.large"},
            "keypair": "gpu-admin",
        },
        "gpu-pools:flavors": {"g2": {"gpuModel": "a100-40gb", "gpusPerNode": 1}},
        "gpu-pools:sharing": {
            "nb": {"timeSlicing": {"replicas": 4}},
            "cut": {"mig": {"layout": {"3g.20gb": 1, "2g.10gb": 2}}},
        },
        "gpu-pools:pools": [
            {"name": "one", "flavor": "g2", "count": 1, "sharing": "nb"},
            {"name": "two", "flavor": "g2", "count": 1, "sharing": "cut"},
        ],
    },
    "byo": {
        "gpu-pools:cluster": {"platform": "existing", "context": "byo"},
        "gpu-pools:sharing": {"nb": {"timeSlicing": {"replicas": 4}}},
        "gpu-pools:pools": [
            {
                "name": "gpu",
                "nodeSelector": {"example.com/pool": "gpu"},
                "gpuModel": "a10-24gb",
                "gpusPerNode": 1,
                "sharing": "nb",
            }
        ],
    },
}
#: What one `up` makes, by name: nothing twice, nothing besides.
CLOUD: Final = {
    "aks": {"groups": ["small"], "clusters": ["small"], "pools": ["gpu", "system"]},
    "magnum": {
        "templates": ["small"],
        "clusters": ["small"],
        "groups": ["default-master", "default-worker", "one", "two"],
    },
    "byo": {},
}
NODES: Final = {"aks": 2, "magnum": 4, "byo": 3}
INTERRUPTED, KILLED, FAILED = 128 + signal.SIGINT, 128 + signal.SIGKILL, 1
_LONGEST_END: Final = 180


@dataclass(frozen=True)
class Cycle:
    """One interruption of `up`, perhaps one of `down`.

    Attributes:
        stack: one of STACKS.
        when: seconds after the start of `up`, or a name in STAGES.
        how: a name in WAYS.
        down: when `down` is interrupted, too; in the same way.
    """

    stack: str
    when: float | str
    how: str
    down: float | str | None = None

    def __str__(self) -> str:
        down = "" if self.down is None else f"+down-{self.down}"
        return f"{self.stack}-{self.when}-{self.how}{down}".replace(" ", "-")


# ---------------------------------------------------------------------------------------------- when


def _pending(trial: Trial, kind: str, doing: str = "creating") -> bool:
    """Whether the engine waits for something of this type."""
    path = trial.sandbox.backend / ".pulumi" / "stacks" / "gpu-pools" / f"{trial.stack}.json"
    latest = (read_json(path).get("checkpoint") or {}).get("latest") or {}
    operations = latest.get("pending_operations") or []
    return any(kind in operation["resource"]["type"] and operation["type"] == doing for operation in operations)


def _waits_for_second_group(trial: Trial) -> bool:
    groups = trial.magnum()["groups"]
    return any(group["name"] == "two" and group["status"] == "CREATE_IN_PROGRESS" for group in groups)


def _has_half_a_cluster(trial: Trial) -> bool:
    return any(not path.with_name("kubeconfig").exists() for path in trial.sandbox.clusters.glob("*/cluster.json"))


def _installs_operator(trial: Trial) -> bool:
    query = "labelSelector=owner%3Dhelm%2Cstatus%3Dpending-install%2Cname%3Dgpu-operator"
    return any(Api.at(folder / "kubeconfig").list(f"/api/v1/secrets?{query}")["items"] for folder in trial.clusters)


STAGES: Final[dict[str, Callable[[Trial], bool]]] = {
    "stack init": lambda trial: any(trial.sandbox.backend.rglob("*.json")),
    "half a cluster": _has_half_a_cluster,
    "cluster": lambda trial: _pending(trial, "luster:"),
    "namespace": lambda trial: _pending(trial, ":Namespace"),
    "release": lambda trial: _pending(trial, ":Release"),
    "pending-install": _installs_operator,
    "marker": lambda trial: _pending(trial, ":DaemonSet"),
    "pool": lambda trial: _pending(trial, ":AgentPool"),
    "first group": lambda trial: _pending(trial, ":NodeGroup"),
    "second group": _waits_for_second_group,
    "deleting cluster": lambda trial: _pending(trial, "luster:", "deleting"),
    "deleting release": lambda trial: _pending(trial, ":Release", "deleting"),
    "deleting namespace": lambda trial: _pending(trial, ":Namespace", "deleting"),
    "deleting group": lambda trial: _pending(trial, ":NodeGroup", "deleting"),
    "removing": lambda trial: not trial.sandbox.passphrase.exists(),
}


def _answers_ctrl_c(pid: int) -> bool:
    caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGINT - 1) & 1)


def _wait_for(trial: Trial, command: subprocess.Popen[bytes], when: float | str) -> None:
    """Wait until the moment has come, or the command is over. Time counts from when Python has taken up its signals."""
    begun = math.inf
    while command.poll() is None:
        if begun == math.inf and _answers_ctrl_c(command.pid):
            begun = time.monotonic()
        with contextlib.suppress(Exception):  # what is looked at may be half made, that is the point
            if time.monotonic() - begun >= when if isinstance(when, (int, float)) else STAGES[when](trial):
                return
        time.sleep(0.01)


# ---------------------------------------------------------------------------------------------- how


def _engine_pids(trial: Trial) -> list[int]:
    found = processes.carrying("PULUMI_BACKEND_URL", f"file://{trial.sandbox.backend}")
    return [pid for pid, program in found.items() if program.endswith("/pulumi")]


def _recorded(folder: Path, name: str) -> list[int]:
    alive = processes.running(folder)
    return [alive[name].pid] if name in alive else []


def _kill(*pids: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _ctrl_c(_trial: Trial, command: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(command.pid, signal.SIGINT)


def _ctrl_c_twice(trial: Trial, command: subprocess.Popen[bytes]) -> None:
    _ctrl_c(trial, command)
    time.sleep(0.3)
    _ctrl_c(trial, command)


def _kill_group(_trial: Trial, command: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(command.pid, signal.SIGKILL)


WAYS: Final[dict[str, Callable[[Trial, subprocess.Popen[bytes]], None]]] = {
    "ctrl-c": _ctrl_c,
    "ctrl-c twice": _ctrl_c_twice,
    "kill engine": lambda trial, _command: _kill(*_engine_pids(trial)),
    "kill command": lambda _trial, command: _kill(command.pid),
    "kill group": _kill_group,
    "kill providers": lambda trial, _command: _kill(*_recorded(trial.folder, "providers")),
    "kill kube-apiserver": lambda trial, _command: _kill(
        *(pid for folder in trial.clusters for pid in _recorded(folder, "kube-apiserver"))
    ),
    "kill all": lambda trial, _command: trial.kill_everything(),
}
#: The exit codes of the command that was interrupted, as a shell says them; 0 where it was over, or did not mind.
CODES: Final = {
    "ctrl-c": {0, INTERRUPTED},
    "ctrl-c twice": {0, INTERRUPTED},
    "kill engine": {0, FAILED},
    "kill providers": {0, FAILED},
    "kill kube-apiserver": {0, FAILED},
}


def _interrupt(trial: Trial, name: str, when: float | str, how: str) -> None:
    log = trial.base / f"interrupted-{name}.log"
    with log.open("wb") as output:
        # Not through a pipe: an engine that survives its command would be waited for, or die of it.
        command = subprocess.Popen(
            [sys.executable, "-m", "sandbox", name, trial.stack],
            cwd=PROJECT,
            env=trial.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _wait_for(trial, command, when)
    WAYS[how](trial, command)
    ended = command.wait(_LONGEST_END)
    # A signal's number as a shell says it. Python ends by SIGINT itself where it was met in generated code (a dataclass), and
    # without a word when it was all but over.
    code = ended if ended >= 0 else 128 - ended
    text = log.read_text(encoding="utf-8")
    print(f"{name} interrupted: {how} at {when}, exit {code}\n{text}")  # noqa: T201 shown when a test fails
    assert code in CODES.get(how, {0, KILLED})
    if ended == INTERRUPTED:
        assert "Run the same command again to go on" in text
    # What the user reads is about his stack, never about our code.
    assert "Traceback" not in text


# ---------------------------------------------------------------------------------------------- what then


def _records(trial: Trial) -> dict[str, list[dict[str, Any]]]:
    """What there is in the stack's cloud."""
    if trial.stack == "magnum":
        return trial.magnum()
    tables = Records(trial.folder / "cloud/azure.json", ("groups", "clusters", "pools")).read()
    return {name: list(table.values()) for name, table in tables.items()}


#: As the API server names what a plugin made before it died: nobody told the engine, and the plugin adopts nothing.
_LOST: Final = re.compile(r'([\w.]+) "([^"]+)" already exists')
_LOST_RELEASE: Final = "cannot re-use a name that is still in use"
_RELEASES: Final = ("helm", "list", "--all", "--all-namespaces", "--output=json")
#: Ways after which the engine may not know what was made: a plugin has died between making something and saying so.
_LOSE: Final = frozenset({"kill providers", "kill kube-apiserver", "kill all"})


def _take_away_lost(trial: Trial, failed: Run) -> None:
    """The way out of docs/operations.md."""
    lost = set(_LOST.findall(failed.text))
    assert lost or _LOST_RELEASE in failed.text, failed.text
    for one in json.loads(trial.run("shell", trial.stack, *_RELEASES).ok().out):
        if one["status"] in {"pending-install", "failed"}:
            trial.run("shell", trial.stack, "helm", "uninstall", one["name"], f"--namespace={one['namespace']}").ok()
    for kind, name in lost:
        query = ("kubectl", "get", kind, "--all-namespaces", f"--field-selector=metadata.name={name}", "--output=json")
        for one in json.loads(trial.run("shell", trial.stack, *query).ok().out)["items"]:
            where = [f"--namespace={one['metadata']['namespace']}"] if "namespace" in one["metadata"] else []
            trial.run("shell", trial.stack, "kubectl", "delete", kind, name, *where).ok()


def _check_converged(trial: Trial, how: str) -> None:
    done = trial.up()
    if done.code != 0 and how in _LOSE:
        _take_away_lost(trial, done)
        done = trial.up()
    done.ok()
    assert trial.holds()
    assert len(trial.nodes()) == NODES[trial.stack]
    if CLOUD[trial.stack]:
        records = _records(trial)
        found = {table: sorted(record["name"] for record in entries) for table, entries in records.items()}
        assert found == CLOUD[trial.stack]
        states = {record.get("state", record.get("status", "whole")) for table in records.values() for record in table}
        assert states <= {"Succeeded", "CREATE_COMPLETE", "UPDATE_COMPLETE", "whole"}
    state = trial.exported()
    assert not state.get("pending_operations")
    urns = [resource["urn"] for resource in state["resources"]]
    assert len(urns) == len(set(urns))
    trial.engine("preview", "--expect-no-changes").ok()


def _check_nothing_left(trial: Trial) -> None:
    trial.down().ok()
    assert not trial.folder.exists()
    assert trial.processes() == {}


# ---------------------------------------------------------------------------------------------- the cycles

TIMES: Final = (0.3, 1, 2, 4, 6, 8, 11, 14)
STAGES_OF: Final = {
    "aks": ("stack init", "half a cluster", "cluster", "namespace", "release", "pending-install", "pool"),
    "magnum": ("half a cluster", "cluster", "release", "pending-install", "first group", "second group", "marker"),
    "byo": ("half a cluster", "namespace", "release", "pending-install", "marker"),
}
DOWNS_OF: Final[dict[str, tuple[float | str, ...]]] = {
    "aks": (0.5, "deleting cluster", 2, "removing"),
    "magnum": ("deleting cluster", 1, "removing"),
    "byo": ("deleting namespace", 3, "deleting release", 6, 10, "removing"),
}
CHOSEN: Final = (
    Cycle("aks", 0.3, "ctrl-c"),
    Cycle("aks", "half a cluster", "kill providers"),
    Cycle("aks", "cluster", "kill engine", "deleting cluster"),
    Cycle("aks", "pending-install", "kill group"),
    Cycle("aks", "pool", "kill all"),
    Cycle("magnum", "cluster", "ctrl-c"),
    Cycle("magnum", "first group", "kill providers"),
    Cycle("magnum", "second group", "kill engine", 1),
    Cycle("byo", "pending-install", "kill kube-apiserver"),
    Cycle("byo", "release", "kill command", "deleting namespace"),
)


def _all_cycles() -> Iterator[Cycle]:
    for stack in STACKS:
        downs, ways = cycle(DOWNS_OF[stack]), cycle(WAYS)
        for when in TIMES:
            for how in ("ctrl-c", "kill engine", "kill group") if stack == "aks" else (next(ways),):
                yield Cycle(stack, when, how, next(downs))
        for when in STAGES_OF[stack]:
            for how in WAYS:
                if how != "kill engine" or (stack, when) != ("aks", "cluster"):
                    yield Cycle(stack, when, how, next(downs))


#: In `make test`: an interrupt before anything is made, and a power cut in the middle.
FAST: Final = (Cycle("aks", 0.3, "ctrl-c"), Cycle("aks", "pool", "kill all"))
CYCLES: Final = tuple(dict.fromkeys([*CHOSEN, *(_all_cycles() if ALL else ())]))


@pytest.mark.parametrize("one", these(CYCLES, FAST, by_day=4), ids=str)
def test_the_next_run_finishes_what_was_interrupted(one: Cycle, sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(yaml.safe_dump({"config": STACKS[one.stack]}), one.stack)
    _interrupt(trial, "up", one.when, one.how)
    # Of a killed engine: one that only its command has left goes on meanwhile.
    interrupted = checkpoint.pending(trial.sandbox) if one.how == "kill engine" else []
    _check_converged(trial, one.how)
    said = next(run.err for run in trial.runs if run.command.startswith("up "))
    assert all(what in said for what in ["the last run was interrupted while", *interrupted]) or not interrupted
    if one.down is not None:
        _interrupt(trial, "down", one.down, one.how)
    _check_nothing_left(trial)


def test_the_lock_of_a_stack_that_was_never_made_is_opened(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(yaml.safe_dump({"config": STACKS["aks"]}), "aks")
    lock = trial.sandbox.backend / ".pulumi" / "locks" / "organization" / "gpu-pools" / "aks" / "killed.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"pid": 1, "username": "", "hostname": "", "timestamp": "2026-01-01T00:00:00Z"}))
    trial.preview().ok()
    assert not lock.exists()
