"""Whether nodes run NVIDIA's own programs or rules stand in: found out, written down, told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox import __main__ as command_line
from sandbox.cli import commands
from sandbox.cli.look import Look
from sandbox.cluster import gpu_host, node_tools
from sandbox.cluster.node_tools import NodeTools, as_json, obstacle, recorded
from sandbox.system.errors import SandboxError
from sandbox.system.files import write_json
from sandbox.system.progress import Progress
from sandbox.toolchain import config_manager
from sandbox.toolchain.tools import Tools

if TYPE_CHECKING:
    from collections.abc import Callable

FOUND = Tools(
    gpu_feature_discovery=Path("/p/gfd"),
    nvidia_device_plugin=Path("/p/plugin"),
    nvidia_mig_parted=Path("/p/parted"),
    config_manager=Path("/p/manager"),
    mps_control_daemon=Path("/p/mps"),
    nvml=Path("/l/libnvidia-ml.so.1"),
)


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """A machine that allows mount namespaces, or (told why) does not."""
    monkeypatch.delenv(node_tools.NODE_PROGRAMS, raising=False)

    def allow(reason: str | None) -> None:
        monkeypatch.setattr(gpu_host, "obstacle", lambda: reason)

    allow(None)
    return allow


def record(cluster: Path, tools: Tools) -> None:
    write_json(cluster / "cluster.json", {node_tools.RECORD: as_json(tools)})


def test_what_was_found_is_read_back(tmp_path: Path) -> None:
    record(tmp_path, FOUND)
    paths = ("/l/libnvidia-ml.so.1", "/p/gfd", "/p/plugin", "/p/parted", "/p/manager", "/p/mps")
    assert recorded(tmp_path) == NodeTools(*map(Path, paths))
    newest = Path("/n/config-manager")
    record(tmp_path, replace(FOUND, newest_config_manager=newest))
    assert recorded(tmp_path) == NodeTools(*map(Path, paths), newest)


def test_a_record_of_a_sandbox_that_did_not_know_the_mps_daemon_has_rules(tmp_path: Path) -> None:
    known = {key: value for key, value in as_json(FOUND).items() if key != "mpsDaemon"}
    write_json(tmp_path / "cluster.json", {node_tools.RECORD: known})
    assert isinstance(recorded(tmp_path), str)


def test_a_config_manager_that_is_named_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(config_manager.VARIABLE, raising=False)
    assert config_manager.find() is None
    program = tmp_path / "config-manager"
    program.write_text("#!/bin/sh\n")
    monkeypatch.setenv(config_manager.VARIABLE, str(program))
    with pytest.raises(SandboxError, match="is no program"):
        config_manager.find()
    program.chmod(0o755)
    assert config_manager.find() == program.resolve()


def test_rules_can_be_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(node_tools.NODE_PROGRAMS, "rules")
    assert obstacle() == "GPU_POOLS_NODE_PROGRAMS=rules asks for it"
    record(tmp_path, Tools())
    assert recorded(tmp_path) == obstacle()


def test_a_machine_without_mount_namespaces_says_why(able: Callable[[str | None], None], tmp_path: Path) -> None:
    able("unshare: unshare failed: Operation not permitted")
    record(tmp_path, Tools())
    assert recorded(tmp_path) == "no mount namespaces here: unshare: unshare failed: Operation not permitted"


def test_a_machine_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "gcc" in (obstacle() or "")


def test_a_cluster_that_nobody_looked_for_them_for_has_rules(tmp_path: Path) -> None:
    record(tmp_path, Tools())
    assert "not looked for them" in str(recorded(tmp_path))
    assert "not looked for them" in str(recorded(tmp_path / "none"))


def test_programs_that_cannot_be_built_are_an_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(progress: Progress, *, only: frozenset[str]) -> Tools:
        del progress
        if "nvidia_device_plugin" in only:
            raise SandboxError("no Go", "Install Go.")
        return Tools(origin=dict.fromkeys(only, "cache"))

    monkeypatch.setattr(node_tools, "find_tools", find)
    with pytest.raises(SandboxError) as raised:
        node_tools.find_platform_tools(Progress())
    assert (raised.value.message, raised.value.remedy) == (
        "no Go",
        "Install Go. Or let rules stand in for them: GPU_POOLS_NODE_PROGRAMS=rules.",
    )
    monkeypatch.setenv(node_tools.NODE_PROGRAMS, "rules")
    assert node_tools.find_platform_tools(Progress()).nvml is None


def test_up_and_status_tell_it_in_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], able: Callable[[str | None], None]
) -> None:
    monkeypatch.setenv("GPU_POOLS_SANDBOX_DIR", str(tmp_path))
    cluster = tmp_path / "byo" / "clusters" / "existing"
    record(cluster, FOUND)
    assert commands.rules_because("byo") == ""
    assert command_line._report(Look(()), commands.rules_because("byo"), "Real: all.", as_json=False) == 0
    said = capsys.readouterr().out
    assert said.endswith("Real: all.\n")
    assert "Rules" not in said

    able("not today")
    record(cluster, Tools())
    command_line._report(Look(()), commands.rules_because("byo"), "Real: little.", as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == (
        "Rules stand in for NVIDIA's programs on the nodes, and no verifier runs there: no mount namespaces here: not today"
    )
    assert lines[-2] == "Real: little."
    command_line._report(Look(()), commands.rules_because("byo"), "", as_json=True)
    assert capsys.readouterr() == ('{\n  "pools": [],\n  "troubles": []\n}\n', f"{lines[-1]}\n")
