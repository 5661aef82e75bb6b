"""One stack on the embedded platform, driven from outside as a user drives it: the command line, kubectl's API, the files.

Everything a trial makes lies in one folder, so that what it leaves can be looked for: files, and processes that name the
folder in their arguments or their environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from gpu_pools.verifier.claims import SLICES
from sandbox.cli.observe import observe
from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError
from sandbox.machines.pool_guard import AKS
from sandbox.openstack import service
from sandbox.openstack.magnum_api import MagnumApi
from sandbox.stack import offline_charts
from sandbox.stack.engine import Engine
from sandbox.stack.stand_ins import attached
from sandbox.stack.state import Sandbox, prepare
from sandbox.system import processes
from sandbox.system.patience import Patience
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.patience import output_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROJECT = Path(__file__).resolve().parents[2]
LONGEST_COMMAND = 420
_LOG_LINES = 25


@dataclass(frozen=True)
class Run:
    """A command that has ended."""

    command: str
    code: int
    out: str
    err: str
    seconds: float

    @property
    def text(self) -> str:
        return f"{self.out}\n{self.err}"

    def ok(self) -> Run:
        """Fail the test with everything the command said, unless it ended well."""
        assert self.code == 0, f"{self.command} ended with {self.code} after {self.seconds:.1f} s\n{self.text}"
        return self

    def json(self) -> Any:
        return json.loads(self.out)


class Trial:
    """A stack file in a folder of its own, and the sandbox that grows from it."""

    def __init__(self, folder: Path, text: str, stack: str = "small") -> None:
        self.stack = stack
        self.base = folder
        self.root = folder / "state"
        self.stacks = folder / "stacks"
        self.stacks.mkdir(parents=True)
        self.sandbox = Sandbox(stack, self.root / stack, self.stacks / f"Pulumi.{stack}.yaml")
        #: Every command that was run and what it printed.
        self.runs: list[Run] = []
        self.write(text)

    # ------------------------------------------------------------------ the user's side

    @property
    def file(self) -> Path:
        """The user's stack file."""
        return self.sandbox.stack_file

    @property
    def folder(self) -> Path:
        """Where the sandbox keeps everything."""
        return self.sandbox.folder

    def write(self, text: str) -> None:
        self.file.write_text(text, encoding="utf-8")

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the stack file's `config` section in place."""
        whole = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        change(whole["config"])
        self.write(yaml.safe_dump(whole, sort_keys=False))

    def environment(self, **more: str) -> dict[str, str]:
        own = {"GPU_POOLS_SANDBOX_DIR": str(self.root), "GPU_POOLS_STACKS_DIR": str(self.stacks)}
        return {**os.environ, **own, **more}

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Begin a command; in a session of its own, as a shell's job is in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "sandbox", *arguments],
            cwd=PROJECT,
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, **environment: str) -> Run:
        """Run a command to its end, whatever that is."""
        begun = time.monotonic()
        process = self.start(*arguments, **environment)
        try:
            out, err = output_of(process, LONGEST_COMMAND)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        done = Run(" ".join(arguments), process.returncode, out, err, time.monotonic() - begun)
        self.runs.append(done)
        return done

    def up(self, *more: str) -> Run:
        return self.run("up", self.stack, *more)

    def up_and_scale(self, pool: str, count: int, *, once: Callable[[], object], what: str) -> None:
        """Play the autoscaler while `up` runs, at a moment of it; `up` must end well."""
        command = self.start("up", self.stack)
        self.wait_until(once, what, 180)
        self.scale(pool, count).ok()
        out, err = output_of(command, 400)
        assert command.returncode == 0, f"{out}\n{err}"

    def preview(self) -> Run:
        return self.run("preview", self.stack)

    def status(self) -> Run:
        return self.run("status", self.stack)

    def scale(self, pool: str, count: int) -> Run:
        return self.run("scale", self.stack, pool, str(count))

    def down(self) -> Run:
        return self.run("down", self.stack)

    # ------------------------------------------------------------------ the engine's side

    def _engine(self) -> Engine:
        """The engine, with the configuration as the stack file says it now."""
        prepare(self.sandbox)
        tools = find_tools(Progress(), only={"pulumi", "helm"})
        if tools.kubernetes_plugin:
            # As `make up` does it: a real plugin knows nothing of the charts' stand-ins.
            offline_charts.use(self.sandbox, self.plan(), Progress())
        return Engine(self.sandbox, tools, attached(self.sandbox))

    def kill_engine(self, *arguments: str, once: Callable[[], object], what: str) -> None:
        """Begin a command of the engine, and kill it and the Helm that it has begun; nothing is mended, as `make` would do it."""
        engine = self._engine()
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(engine._command(arguments), cwd=PROJECT, env=engine.environment(), **quiet) as process:
            try:
                self.wait_until(once, what, 120)
            finally:
                process.kill()
        for pid, command in self.processes().items():
            if Path(command.partition(" ")[0]).name in {"helm", "pulumi-resource-kubernetes"}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.engine("cancel", "--yes").ok()

    def engine(self, *arguments: str) -> Run:
        """Run the engine itself, with the configuration as the stack file says it now."""
        engine, begun = self._engine(), time.monotonic()
        done = subprocess.run(
            engine._command(arguments),
            cwd=PROJECT,
            env={**engine.environment(), "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "false"},
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_COMMAND,
        )
        run = Run(f"pulumi {' '.join(arguments)}", done.returncode, done.stdout, done.stderr, time.monotonic() - begun)
        self.runs.append(run)
        return run

    def gpu_pools(self, *arguments: str) -> Run:
        """Run the project's own command, with the engine of this stack on its PATH."""
        tools = find_tools(Progress(), only={"pulumi", "helm"})
        engine = Engine(self.sandbox, tools, attached(self.sandbox))
        command, begun = [sys.executable, "-m", "gpu_pools", *arguments], time.monotonic()
        done = subprocess.run(command, cwd=PROJECT, env=engine.environment(), capture_output=True, text=True, check=False)
        run = Run(" ".join(command), done.returncode, done.stdout, done.stderr, time.monotonic() - begun)
        self.runs.append(run)
        return run

    def planned_steps(self) -> list[dict[str, Any]]:
        """What the engine would do, step by step; what stays as it is left out."""
        steps: list[dict[str, Any]] = self.engine("preview", "--json").ok().json()["steps"]
        return [step for step in steps if step["op"] not in {"same", "read"}]

    def exported(self) -> dict[str, Any]:
        """The deployment in the state."""
        state: dict[str, Any] = self.engine("stack", "export").ok().json()
        return state.get("deployment") or {}

    def login(self) -> dict[str, str]:
        """The login to the stack's OpenStack; none where it has none."""
        return service.load(self.sandbox.openstack).login() if service.exists(self.sandbox.openstack) else {}

    def magnum(self) -> dict[str, list[dict[str, Any]]]:
        """What the real Magnum shows to the stack's user: templates, clusters, node groups."""
        api = MagnumApi(self.login())
        clusters = api._call("GET", "clusters")["clusters"]
        groups = [group for one in clusters for group in api._call("GET", f"clusters/{one['uuid']}/nodegroups")["nodegroups"]]
        return {"templates": api._call("GET", "clustertemplates")["clustertemplates"], "clusters": clusters, "groups": groups}

    # ------------------------------------------------------------------ the cluster's side

    @property
    def clusters(self) -> list[Path]:
        """The folders of the simulated clusters."""
        found = self.sandbox.clusters.glob("*/cluster.json") if self.sandbox.clusters.is_dir() else ()
        return sorted(path.parent for path in found)

    def api(self) -> Api:
        """The API of the one cluster."""
        (folder,) = self.clusters
        return Api.at(folder / "kubeconfig")

    def cloud_api(self) -> Api:
        """The same, as the cloud itself: what AKS has put on its nodes it lets nobody else change."""
        (folder,) = self.clusters
        return Api.at(folder / "kubeconfig", acting_as=AKS)

    def get(self, path: str) -> Any:
        """One object; fails where there is none."""
        found = self.api().get(path)
        assert found is not None, f"{path} does not exist"
        return found

    def nodes(self, pool: str | None = None) -> list[dict[str, Any]]:
        """The node objects, by name; of one pool where one is named."""
        nodes = self.api().list("/api/v1/nodes")["items"]
        chosen = [node for node in nodes if pool in {None, node["metadata"]["labels"].get("gpu-pools/pool")}]
        return sorted(chosen, key=lambda node: str(node["metadata"]["name"]))

    def plan(self) -> Any:
        from sandbox.cli.commands import plan_of  # noqa: PLC0415 - loads the whole planner, which few tests need

        return plan_of(self.sandbox)

    def holds(self) -> bool:
        """Whether every node shows what the stack file declares."""
        plan = self.plan()
        slices = self.api().list(SLICES)["items"] if plan.dra else ()
        return all(pool.holds for pool in observe(plan, self.nodes(), verifiers_run=False, slices=slices))

    def wait_until(self, probe: Callable[[], object], what: str, seconds: float = 60) -> float:
        """Wait until something is so; returns how long it took."""
        patience = Patience(seconds)
        while True:
            with contextlib.suppress(ApiError):
                if probe():
                    return patience.waited
            assert not patience.is_over(), f"not within {patience.waited:.0f} s: {what}\n{self.run('status', self.stack).text}"
            time.sleep(0.3)

    # ------------------------------------------------------------------ what is left

    def processes(self) -> dict[int, str]:
        """The living processes of this trial with their arguments: those that name its folder."""
        return dict(_naming(str(self.base)))

    def kill_everything(self) -> None:
        """As a power cut: all processes of the trial at once, the control plane and the stand-ins too; they are gone then."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        processes.wait_until(lambda: not self.processes(), timeout=60, what="all processes to end")

    def files(self) -> Iterator[Path]:
        """Every file of the sandbox."""
        return (path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink())

    def logs(self) -> str:
        """The ends of all logs, for a failed test."""
        parts = [f"$ {run.command}  -> {run.code}, {run.seconds:.1f} s" for run in self.runs]
        # The engine's own logs are left out: they are not text, and what it said is in what its command printed.
        places = (self.folder, self.sandbox.openstack, *self.folder.glob("clusters/*"))
        paths = {path for place in places for path in place.glob("logs/*.log")}
        for path in sorted(paths):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
            if lines:
                parts += [f"----- {path.relative_to(self.base)}", *lines]
        return "\n".join(parts)

    def end(self) -> None:
        """Take everything away, however far the test came."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.run("clean")
        self.kill_everything()


def _naming(text: str) -> Iterator[tuple[int, str]]:
    """The processes whose arguments or environment hold a text, this one left out."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if entry.joinpath("stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX":
                continue
            command = entry.joinpath("cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
            environment = entry.joinpath("environ").read_bytes().decode(errors="replace")
            if text in command or text in environment:
                yield int(entry.name), command
