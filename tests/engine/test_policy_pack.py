"""The policy pack, started and asked by the real engine in a preview.

Whole programs of the rules' own tests are registered as components of the right types: no provider, no cloud, no cluster.
That every rule stops what it should is shown without an engine (tests/policies); here is shown what only the engine can: that
it starts the pack, takes its levels, limits and exceptions, stops on what is mandatory, goes on after what is not known.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox.progress import Progress
from sandbox.toolchain import find_tools
from tests.policies.programs import BAD, GOOD, POOL, Program, pool, program

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.engine, pytest.mark.programs]

PROJECT = Path(__file__).resolve().parents[2]
LONGEST: Final = 180
PROGRAM: Final = """\
import json, pathlib
import pulumi

made = {}
for given in json.loads(pathlib.Path("resources.json").read_text()):
    inputs = {
        key: pulumi.Output.from_input(pulumi.UNKNOWN) if value == "(unknown)" else value
        for key, value in given["inputs"].items()
    }
    after = [made[name] for name in given["after"]]
    one = pulumi.ComponentResource(given["type"], given["name"], inputs, pulumi.ResourceOptions(depends_on=after))
    # Rules of whole programs are asked about outputs, which are a component's own affair.
    one.register_outputs(inputs)
    made[given["name"]] = one
"""


class Preview:
    """A project of its own, with a file backend of its own."""

    def __init__(self, folder: Path) -> None:
        tools = find_tools(Progress(), only={"pulumi"})
        self._pulumi = tools.pulumi
        self._folder = folder
        (folder / "state").mkdir()
        (folder / "Pulumi.yaml").write_text("name: rules\nruntime: python\n")
        (folder / "__main__.py").write_text(PROGRAM)
        programs = [str(Path(sys.prefix) / "bin"), str(tools.language_host_dir or ""), str(tools.pulumi.parent)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_", "ARM_", "AZURE_", "OS_"))}
        self._environment = {
            **kept,
            "PATH": os.pathsep.join([*filter(None, programs), kept.get("PATH", os.defpath)]),
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_CONFIG_PASSPHRASE": "none",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        assert self._run("stack", "init", "test")[0] == 0

    def _run(self, *arguments: str) -> tuple[int, str]:
        command = [str(self._pulumi), *arguments, "--non-interactive"]
        done = subprocess.run(
            command, cwd=self._folder, env=self._environment, capture_output=True, text=True, check=False, timeout=LONGEST
        )
        return done.returncode, done.stdout + done.stderr

    def of(self, given: Program, settings: dict[str, Any] | None = None) -> tuple[int, str]:
        """Exit code and output of a preview of these resources with the pack."""
        by_urn = {one.urn: one.name for one in given.resources}
        written = [
            {"type": one.type, "name": one.name, "inputs": one.inputs, "after": [by_urn[urn] for urn in one.dependencies]}
            for one in given.resources
        ]
        (self._folder / "resources.json").write_text(json.dumps(written))
        (self._folder / "settings.json").write_text(json.dumps(settings or {}))
        pack = ("--policy-pack", str(PROJECT / "policies" / "pack"), "--policy-pack-config", str(self._folder / "settings.json"))
        return self._run("preview", "--stack", "test", "--color", "never", *pack)


@pytest.fixture(scope="module")
def preview(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[int, str]]:
    return Preview(tmp_path_factory.mktemp("pack")).of


def test_a_good_program_passes(preview: Callable[..., tuple[int, str]]) -> None:
    code, text = preview(GOOD["operator, pools and configs"])
    assert code == 0, text
    assert "[mandatory]" not in text


@pytest.mark.parametrize("rule", ["spot-taint-written", "pool-taints-tolerated", "device-plugin-config"])
def test_a_bad_program_is_stopped_with_the_message_of_its_rule(preview: Callable[..., tuple[int, str]], rule: str) -> None:
    code, text = preview(BAD[rule][0])
    assert code != 0, text
    assert f"{rule}" in text
    assert "repair: " in text


def test_a_stack_makes_a_rule_advisory(preview: Callable[..., tuple[int, str]]) -> None:
    code, text = preview(BAD["spot-taint-written"][0], {"all": "advisory"})
    assert code == 0, text
    assert "spot-taint-written" in text


def test_a_stack_sets_limits(preview: Callable[..., tuple[int, str]]) -> None:
    code, text = preview(program(pool()), {"max-gpus": {"gpus": 0}})
    assert code != 0, text
    assert "up to 1 GPUs; allowed: 0" in text


def test_an_exception_holds(preview: Callable[..., tuple[int, str]]) -> None:
    exceptions = [{"resource": "gpu", "reason": "the taint comes next week", "until": "2999-01-01"}]
    code, text = preview(BAD["spot-taint-written"][0], {"spot-taint-written": {"exceptions": exceptions}})
    assert code == 0, text


def test_what_is_not_known_is_said_and_stops_nothing(preview: Callable[..., tuple[int, str]]) -> None:
    code, text = preview(program(pool(**{**POOL, "scaleSetPriority": "(unknown)"})))
    assert code == 0, text
    assert "not known before the deploy: scaleSetPriority" in text
