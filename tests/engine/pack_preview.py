"""Previews of the programs of the rules' own tests, by the real engine with the pack.

Resources are registered as components of the right types: no provider, no cloud, no cluster. What the engine found is read from
its event log, so that each finding is known with its rule, its resource and its level.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.hardware.prices import Prices
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.policies.programs import Program

PROJECT: Final = Path(__file__).resolve().parents[2]
LONGEST: Final = 180
PROGRAM: Final = """\
import json, pathlib
import pulumi
import pulumi.runtime.stack


async def at_once():
    pass


# An engine that stops a program which waits for it takes five seconds to do so.
pulumi.runtime.stack._wait_for_shutdown = at_once
made = {}


async def main():
    for given in json.loads(pathlib.Path("resources.json").read_text()):
        inputs = {
            key: pulumi.Output.from_input(pulumi.UNKNOWN) if value == "(unknown)" else value
            for key, value in given["inputs"].items()
        }
        options = pulumi.ResourceOptions(
            depends_on=[made[name] for name in given["after"]],
            parent=made.get(given["parent"]),
            protect=given["protect"],
            ignore_changes=given["ignore_changes"],
        )
        one = pulumi.ComponentResource(given["type"], given["name"], inputs, options)
        # The SDK tells the engine of what waits for a component's children instead, and here are none.
        one._remote = True
        made[given["name"]] = one
        await one.urn.future()  # one after the other, so that the engine knows them in this order


pulumi.run(main)
"""


@dataclass(frozen=True)
class Finding:
    """What the engine says that a rule found."""

    rule: str
    resource: str
    level: str


@dataclass(frozen=True)
class Previewed:
    """A preview that has ended."""

    code: int
    text: str
    findings: tuple[Finding, ...]


class Preview:
    """A project of its own, with a file backend of its own.

    Args:
        folder: an empty one.
        policies: the folder of the pack.
    """

    def __init__(self, folder: Path, policies: Path = PROJECT / "policies") -> None:
        self._policies = policies
        tools = find_tools(Progress(), only={"pulumi"})
        self._pulumi = tools.pulumi
        self._folder = folder
        (folder / "state").mkdir(parents=True)
        (folder / "Pulumi.yaml").write_text("name: rules\nruntime: python\n")
        (folder / "__main__.py").write_text(PROGRAM)
        programs = [str(Path(sys.prefix) / "bin"), str(tools.pulumi.parent)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_", "ARM_", "AZURE_", "OS_"))}
        self._environment = {
            **kept,
            "PATH": os.pathsep.join([*programs, kept.get("PATH", os.defpath)]),
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_CONFIG_PASSPHRASE": "none",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DEBUG_COMMANDS": "true",  # without it there is no --event-log
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        assert self._run("stack", "init", "test")[0] == 0

    def _run(self, *arguments: str, **environment: str) -> tuple[int, str]:
        command = [str(self._pulumi), *arguments, "--non-interactive"]
        variables = {**self._environment, **environment}
        done = subprocess.run(
            command, cwd=self._folder, env=variables, capture_output=True, text=True, check=False, timeout=LONGEST
        )
        return done.returncode, done.stdout + done.stderr

    def of(self, given: Program, settings: dict[str, Any] | None = None) -> Previewed:
        """A preview of these resources with the pack, the settings being those of the pack's configuration."""
        self._write(given, settings or {})
        events = self._folder / "events.json"
        events.unlink(missing_ok=True)
        code, text = self._run(*self._command, "--color", "never", "--event-log", str(events))
        return Previewed(code, text, tuple(_findings(events)))

    def stream(self, given: Program) -> tuple[int, str]:
        """Exit code and output of the same as the engine's stream of events."""
        self._write(given, {})
        return self._run(*self._command, "--json", PULUMI_ENABLE_STREAMING_JSON_PREVIEW="true")

    @property
    def _command(self) -> tuple[str, ...]:
        pack = ("--policy-pack", str(self._policies / "pack"), "--policy-pack-config", str(self._folder / "settings.json"))
        return ("preview", "--stack", "test", *pack)

    def _write(self, given: Program, settings: dict[str, Any]) -> None:
        names = {one.urn: one.name for one in given.resources}
        written = [
            {
                "type": one.type,
                "name": one.name,
                "inputs": one.inputs,
                "after": [names[urn] for urn in sorted(one.dependencies) if urn in names],
                "parent": names.get(one.parent, ""),
                "protect": one.protect,
                "ignore_changes": one.ignore_changes,
            }
            for one in given.resources
        ]
        (self._folder / "resources.json").write_text(json.dumps(written))
        (self._folder / "settings.json").write_text(json.dumps(self._with_price_files(settings)))

    def _with_price_files(self, settings: Any) -> Any:
        if isinstance(settings, Prices):
            path = self._folder / "prices.yaml"
            path.write_text(json.dumps({"currency": settings.currency, "perHour": dict(settings.per_hour)}))
            return str(path)
        if isinstance(settings, dict):
            return {key: self._with_price_files(value) for key, value in settings.items()}
        return settings


def _findings(events: Path) -> Iterator[Finding]:
    for line in events.read_text(encoding="utf-8").splitlines():
        event = json.loads(line).get("policyEvent")
        if event:
            yield Finding(event["policyName"], event.get("resourceUrn", "").rpartition("::")[2], event["enforcementLevel"])
