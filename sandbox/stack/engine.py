"""Runs the real Pulumi engine on the unchanged program, against the stand-ins and this sandbox's own state.

Nothing of the user's own Pulumi set-up is read or changed: backend, home and passphrase are the sandbox's. The engine and the
program talk over ports that want no credentials, so they get a network of their own (private_network).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from sandbox.clouds import azure_server
from sandbox.stack.names import PROJECT
from sandbox.stack.state import adopt_salt
from sandbox.system import private_network
from sandbox.system.errors import SandboxError
from sandbox.system.files import explained, make_folder, read_json, write_atomic
from sandbox.system.screen import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sandbox.stack.stand_ins import Attached
    from sandbox.stack.state import Sandbox
    from sandbox.toolchain.tools import Tools

#: Variables of the user's own Pulumi and cloud log-ins: a sandbox must not reach out with them.
_FOREIGN: Final = ("PULUMI_", "ARM_", "AZURE_", "AAD_", "OS_", "KUBE")
#: Its state is for its own user.
_UMASK: Final = 0o077
_INTERRUPT_SECONDS: Final = 120
_WATCH_SECONDS: Final = 2
#: What the engine does to a resource that it leaves as it is (pkg/resource/deploy/step.go, OpSame and OpRead).
_NO_CHANGES: Final = frozenset({"same", "read"})
#: Stands for a record that does not say what was done.
_CHANGED: Final = ("update",)
#: What the engine says after each destroy. Here the stack goes with the sandbox; `destroy --remove` would say less, and take the
#: user's stack file away.
_STACK_IS_KEPT: Final = ("The resources in the stack have been deleted, but the history", "If you want to remove the stack")


@dataclass(frozen=True)
class Engine:
    """The engine of one sandbox.

    Attributes:
        sandbox: whose state it works on.
        tools: where the programs are.
        attached: what stands in for the clouds' providers, and the login to the stack's OpenStack.
        run_program: whether refresh and destroy run the program too, which knows where the clusters are by now.
    """

    sandbox: Sandbox
    tools: Tools
    attached: Attached
    run_program: bool = False

    def environment(self) -> dict[str, str]:
        """The whole environment of the engine."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        ports = ",".join(f"{name}:{port}" for name, port in sorted(self.attached.ports.items()))
        return {
            **kept,
            **self.attached.login,
            **self._azure(),
            "PATH": os.pathsep.join([*self._programs(), kept.get("PATH", os.defpath)]),
            "KUBECONFIG": str(self.sandbox.existing_cluster / "kubeconfig"),
            "PULUMI_BACKEND_URL": f"file://{self.sandbox.backend}",
            "PULUMI_HOME": str(self.sandbox.home),
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(self.sandbox.passphrase),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DEBUG_PROVIDERS": ports,
        }

    def _azure(self) -> Mapping[str, str]:
        """Where the stand-in of Azure's Resource Manager is, and who vouches for it."""
        port = self.attached.resource_manager
        return azure_server.environment(self.sandbox.folder, port) if port else {}

    @property
    def alone(self) -> bool:
        """Whether it works in a network of its own: not where a real plugin may need the internet, for charts or else."""
        return not (self.tools.kubernetes_plugin or self.tools.openstack_plugin)

    def _programs(self) -> list[str]:
        plugins = (self.tools.kubernetes_plugin, self.tools.openstack_plugin)
        folders = [
            self.sandbox.programs,
            Path(sys.prefix) / "bin",
            self.tools.pulumi.parent,
            *(plugin.parent for plugin in plugins if plugin),
        ]
        return [str(folder) for folder in folders]

    def run(self, *arguments: str, watch: Callable[[], None] = lambda: None) -> int:
        """Run one command of the engine, shown on the terminal; an interrupt lets it end in good order first.

        Args:
            arguments: of the engine.
            watch: called every other second; may raise a SandboxError to end the engine.
        """
        name, colour = arguments[0], "always" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else "never"
        command, logs = [*self._command(arguments), f"--color={colour}"], self.sandbox.folder / "logs"
        without = _STACK_IS_KEPT if name == "destroy" else ()
        with shown(logs / f"{name}.log", sys.stdout, without) as out, shown(logs / f"{name}.errors.log", sys.stderr) as errors:
            return self._run(command, out, errors, watch)

    def _run(self, command: list[str], out: IO[str], errors: IO[str], watch: Callable[[], None]) -> int:
        with subprocess.Popen(command, cwd=PROJECT, env=self.environment(), stdout=out, stderr=errors, umask=_UMASK) as process:
            try:
                while True:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        return process.wait(timeout=_WATCH_SECONDS)
                    watch()
            except KeyboardInterrupt:
                # In our process group: Ctrl-C has reached the engine by itself, which finishes what it is doing.
                self._end(process)
                raise
            except SandboxError:
                process.send_signal(signal.SIGINT)
                self._end(process)
                raise

    def output(self, *arguments: str, cwd: Path = PROJECT, check: bool = True) -> str:
        """The standard output of one command.

        Raises:
            SandboxError: if it fails and `check` is set.
        """
        done = subprocess.run(
            self._command(arguments), cwd=cwd, env=self.environment(), capture_output=True, text=True, check=False, umask=_UMASK
        )
        if check and done.returncode != 0:
            message = f"pulumi {' '.join(arguments)} failed:\n{done.stderr.strip() or done.stdout.strip()}"
            raise SandboxError(message, "Run the command again; `make clean` starts over.")
        return done.stdout

    def save_preview(self, path: Path, policies: Path | None) -> None:
        """Write the events of a preview with the policy pack, one JSON document a line; policies that stop it are among them.

        Raises:
            SandboxError: if the engine did not come to the end of the preview.
        """
        pack = ["--policy-pack", str(PROJECT / "policies" / "pack")]
        configured = ["--policy-pack-config", str(policies.resolve())] if policies else []
        done = subprocess.run(
            self._command(["preview", "--json", *pack, *configured]),
            cwd=PROJECT,
            env={**self.environment(), "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true"},
            capture_output=True,
            text=True,
            check=False,
        )
        if '"summaryEvent"' not in done.stdout:
            message = f"pulumi preview failed:\n{done.stderr.strip()}"
            raise SandboxError(message, "Run `make preview` without PR=1 to see what the engine says.")
        write_atomic(path, done.stdout)

    def select_stack(self) -> None:
        """Make the stack in the backend, unless it is there.

        `stack init` writes the salt of its secrets into the stack file beside Pulumi.yaml, whatever file is in use. So it
        runs beside a Pulumi.yaml of its own, and the salt goes into the engine's copy; also that of a run which was killed
        between the two.
        """
        folder = make_folder(self.sandbox.folder / "init")
        if not self.sandbox.state_file.exists():
            write_atomic(folder / "Pulumi.yaml", "name: gpu-pools\nruntime: python\n")
            self.output("stack", "init", cwd=folder)
        adopt_salt(self.sandbox, folder / f"Pulumi.{self.sandbox.stack}.yaml")

    def exported(self, *, show_secrets: bool = False) -> dict[str, Any]:
        """The deployment in the state, secrets encrypted unless asked for otherwise."""
        arguments = ["stack", "export", *(["--show-secrets"] if show_secrets else [])]
        state: dict[str, Any] = json.loads(self.output(*arguments))
        return state.get("deployment") or {}

    def failed_last(self) -> bool:
        """Whether the last update ended with an error; False where there was none."""
        return self._last_run().get("result") == "failed"

    def has_changed_nothing(self, begun: float) -> bool:
        """Whether an update that was begun at a time found everything as it should be; False where its record is not there.

        Args:
            begun: when it was begun, in seconds since 1970.
        """
        last = self._last_run()
        # The engine writes whole seconds.
        is_it = last.get("kind") == "update" and last.get("startTime", 0) >= int(begun)
        return is_it and last.get("result") == "succeeded" and set(last.get("resourceChanges") or _CHANGED) <= _NO_CHANGES

    def _last_run(self) -> dict[str, Any]:
        """The engine's record of its last update, refresh or destroy; empty where there is none."""
        folder = self.sandbox.backend / ".pulumi" / "history" / "gpu-pools" / self.sandbox.stack
        # Their names end in the time, in nanoseconds.
        last = max(folder.glob("*.history.json"), default=None)
        return read_json(last) if last else {}

    def release_locks(self) -> bool:
        """Remove the lock of an engine that was killed, and say whether there was one; the caller holds the sandbox."""
        locks = self.sandbox.backend / ".pulumi" / "locks"
        if not any(path.is_file() for path in locks.rglob("*")):
            return False
        if self.sandbox.state_file.exists():
            self.output("cancel", "--yes")
        else:
            # Of a `stack init` that was killed before it had made the stack: `cancel` knows only stacks.
            with explained(locks, "remove"):
                shutil.rmtree(locks)
        return True

    def _command(self, arguments: Sequence[str]) -> list[str]:
        command = [str(self.tools.pulumi), *arguments, "--stack", self.sandbox.stack, "--non-interactive"]
        if self.run_program and arguments[0] in {"refresh", "destroy"}:
            command.append("--run-program")
        if arguments[0] in {"up", "preview", "destroy", "refresh"}:
            command += ["--config-file", str(self.sandbox.config_file)]
        ports = [*self.attached.ports.values(), *filter(None, [self.attached.resource_manager])]
        return private_network.command(self.sandbox.folder, ports, command) if self.alone else command

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(timeout=_INTERRUPT_SECONDS)
        except (KeyboardInterrupt, subprocess.TimeoutExpired):
            process.send_signal(signal.SIGKILL)
            process.wait()
