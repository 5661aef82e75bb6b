"""Whether a sandbox observes its stack (`make up OBSERVE=1`), and what runs for it: one background process, programs below it.

A stack without the section `gpu-pools:observability` gets one in the engine's copy of its file, with a short interval; one that
has it keeps it as it is. What was chosen stays so until the stack goes down. A stack whose metrics another one reads (Azure's,
a Prometheus of its own that has no program here, nobody) is refused.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from gpu_pools.observing import rules
from gpu_pools.observing.prometheus import CannotAskError, Prometheus
from gpu_pools.observing.series import DECLARED_GPUS
from gpu_pools.stack.observability import PATH
from sandbox.cluster import node_tools
from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError, UnreachableError
from sandbox.observing import accounts
from sandbox.observing.observer import PROGRAMS
from sandbox.stack.names import PROJECT
from sandbox.stack.scaled import OBSERVED
from sandbox.stack.state import without_salt
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import read_json, write_atomic
from sandbox.system.own_code import own_code
from sandbox.toolchain.find import find_built

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpu_pools.plan.planned import Plan
    from sandbox.stack.state import Sandbox
    from sandbox.system.progress import Progress

NAME: Final = "observing"
_START_SECONDS: Final = 60.0
#: Until the first scrape and the first evaluation are there; a busy machine takes several times as long as a quiet one.
_VALUES_SECONDS: Final = 180.0
_GONE_SECONDS: Final = 60.0


def with_section(config: Mapping[str, object]) -> dict[str, object]:
    """The sections of a stack that is observed."""
    return {**config, PATH: config.get(PATH, OBSERVED)}


def programs(progress: Progress) -> dict[str, Path]:
    """The folders of the programs, made where they are not there yet.

    Raises:
        SandboxError: one cannot be made.
    """
    return {name: find_built(name, progress) for name in PROGRAMS}


def choose(sandbox: Sandbox, plan: Plan, *, real_nodes: bool) -> None:
    """Have a sandbox observe its stack from now on.

    Args:
        sandbox: whose stack it is.
        plan: with the section.
        real_nodes: whether a node of it is a real one.

    Raises:
        SandboxError: its metrics are read by another one, or its nodes have no exporter that answers.
    """
    if reason := node_tools.obstacle():
        message = f"OBSERVE=1: the nodes' exporters tell of a simulated NVML, and here rules stand in for it: {reason}"
        raise SandboxError(message, "Leave OBSERVE out, or remove that obstacle.")
    if real_nodes:
        message = "OBSERVE=1: the exporter of a real node sleeps here (NODES=real), so that node would have no values."
        raise SandboxError(message, "Leave OBSERVE or NODES out; what was chosen before holds until make down.")
    settings = plan.settings.observability
    if not settings.monitored or settings.installs:
        says = f"to: {settings.to}" if settings.enabled else "empty, which is nobody"
        message = f"OBSERVE=1: the metrics of {sandbox.stack} are read by another one ({PATH}: {says})."
        raise SandboxError(message, "Leave OBSERVE out; or write `to: prometheus`, or leave the section out: then there is one.")
    write_atomic(sandbox.observed, "")


def start(sandbox: Sandbox, folders: Mapping[str, Path], progress: Progress) -> None:
    """Have it run, with the stack file as the engine has it.

    Raises:
        SandboxError: it does not come up.
    """
    before = read_json(_record(sandbox))
    kept = sandbox.folder / "observed.yaml"
    text = without_salt(sandbox.config_file.read_text(encoding="utf-8"))
    alive = processes.running(sandbox.folder).get(NAME)
    same = kept.exists() and kept.read_text(encoding="utf-8") == text
    if alive and same and (before.get("pid"), before.get("code")) == (alive.pid, own_code()):
        return
    with progress.step("Starting what observes"):
        stop(sandbox)
        write_atomic(kept, text)
        command = [sys.executable, "-m", "sandbox.observing", "--sandbox", str(sandbox.folder), "--stack", sandbox.stack]
        command += ["--file", str(kept), *(word for name, folder in folders.items() for word in (f"--{name}", str(folder)))]
        for name, port in (before.get("ports") or {}).items():
            command += [f"--{name}-port", str(port)]
        processes.spawn(sandbox.folder, NAME, command, env={**os.environ, "PYTHONPATH": str(PROJECT)}, cwd=PROJECT)
        processes.wait_until(lambda: _settled(sandbox), timeout=_START_SECONDS, what="what observes")
    _see_that_it_lives(sandbox)


def stop(sandbox: Sandbox) -> None:
    """Stop it; what was measured stays."""
    processes.stop(sandbox.folder, [NAME])
    _record(sandbox).unlink(missing_ok=True)


def leave(sandbox: Sandbox) -> None:
    """Stop it, and take back what it has made in clusters."""
    stop(sandbox)
    for folder in sandbox.cluster_folders():
        try:
            api = Api.at(folder / "kubeconfig")
            accounts.leave(api)
            processes.wait_until(lambda api=api: accounts.is_gone(api), timeout=_GONE_SECONDS, what=accounts.NAMESPACE)  # type: ignore[misc]
        except (ApiError, UnreachableError, OSError):
            # One that is about to go has nothing to keep.
            continue


def await_values(sandbox: Sandbox, nodes: int, progress: Progress) -> None:
    """Wait until Prometheus has recorded a value of each node's GPUs.

    Raises:
        SandboxError: it does not.
    """
    prometheus = Prometheus(_url(sandbox, "prometheus"))
    series = rules.NODE_GPUS if nodes else DECLARED_GPUS

    def there() -> bool:
        _see_that_it_lives(sandbox)
        try:
            return len(prometheus.ask(series)) >= max(1, nodes)
        except CannotAskError:
            return False

    with progress.step("Waiting for the first values of the dashboards"):
        processes.wait_until(there, timeout=_VALUES_SECONDS, what=f"values of {nodes} nodes in Prometheus")


def links(sandbox: Sandbox) -> str:
    """Where the page is, and Prometheus; empty where the stack is not observed."""
    if not sandbox.observed.exists():
        return ""
    if NAME not in processes.running(sandbox.folder) or not _record(sandbox).exists():
        return f"Live dashboards: not running; make up STACK={sandbox.stack} starts them again"
    return f"Live dashboards: {_url(sandbox, 'page')}/\nPrometheus' HTTP API: {_url(sandbox, 'prometheus')}"


def _see_that_it_lives(sandbox: Sandbox) -> None:
    if NAME in processes.running(sandbox.folder):
        return
    message = f"What observes the stack has ended:\n{processes.describe_end(sandbox.folder, NAME)}"
    raise SandboxError(message, f"Read the logs in {sandbox.folder / 'logs'}; run the same command again.")


def _settled(sandbox: Sandbox) -> bool:
    return _record(sandbox).exists() or NAME not in processes.running(sandbox.folder)


def _record(sandbox: Sandbox) -> Path:
    return sandbox.folder / "observing.json"


def _url(sandbox: Sandbox, name: str) -> str:
    return f"http://127.0.0.1:{read_json(_record(sandbox))['ports'][name]}"
