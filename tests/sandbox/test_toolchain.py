"""Programs are found in the order promised, built once and whole, and every failure says what to do."""

from __future__ import annotations

import io
import re
import shutil
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from sandbox import toolchain
from sandbox.errors import SandboxError
from sandbox.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FAKE_GO = """\
case "$1" in
  env) echo go1.99.0 ;;
  mod) echo '{"Dir": "SOURCES"}' ;;
  build)
    echo "$@" >> LOG
    /bin/sleep 0.05
    while [ "$1" != -o ]; do shift; done
    echo built > "$2" ;;
esac
"""
SHELL_HOST = "python/cmd/pulumi-language-python-exec"


class Machine:
    """A machine with nothing on it but what a test puts there."""

    def __init__(self, root: Path) -> None:
        self.bin = root / "bin"
        self.cache = root / "cache"
        self.log = root / "go.log"
        self.out = io.StringIO()
        self.sources = root / "sources"
        (self.sources / SHELL_HOST).parent.mkdir(parents=True)
        (self.sources / SHELL_HOST).write_text("shim")
        self.bin.mkdir()

    def put(self, name: str, script: str, folder: Path | None = None) -> Path:
        path = (folder or self.bin) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def put_go(self, script: str = FAKE_GO) -> None:
        self.put("go", script.replace("LOG", str(self.log)).replace("SOURCES", str(self.sources)))

    def find(self, *only: str) -> toolchain.Tools:
        return toolchain.find_tools(Progress(self.out), only=set(only))

    def builds(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(machine.bin))
    monkeypatch.setenv("GPU_POOLS_CACHE", str(machine.cache))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi-home"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return machine


def test_a_program_on_path_is_used(machine: Machine) -> None:
    helm = machine.put("helm", "echo v3.18.4+gd80839c")
    tools = machine.find("helm")
    assert tools.helm == helm
    assert tools.origin == {"helm": "PATH"}


@pytest.mark.parametrize("version", ["v3.2.0", "v4.0.1", "dev"])
def test_a_program_of_a_wrong_version_is_passed_over_and_that_is_said(machine: Machine, version: str) -> None:
    machine.put("helm", f"echo {version}")
    machine.put_go()
    assert machine.find("helm").origin == {"helm": "built"}
    assert "is not used: version" in machine.out.getvalue()


def test_a_control_plane_of_another_minor_version_is_passed_over(machine: Machine) -> None:
    major, minor = re.findall(r"\d+", toolchain.pinned_version(toolchain.PROGRAMS[2]))[:2]
    machine.put("kube-scheduler", f"echo Kubernetes v{major}.{int(minor) - 1}.0")
    machine.put("kube-controller-manager", f"echo Kubernetes v{major}.{minor}.99")
    machine.put_go()
    origin = machine.find("kube_scheduler", "kube_controller_manager").origin
    assert origin == {"kube_controller_manager": "PATH", "kube_scheduler": "built"}


def test_kubebuilder_assets_come_before_path(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.put("etcd", "echo etcd Version: 3.5.0")
    assets = machine.put("etcd", "echo etcd Version: 3.6.1", tmp_path / "assets")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    tools = machine.find("etcd")
    assert (tools.etcd, tools.origin) == (assets, {"etcd": "KUBEBUILDER_ASSETS"})


def test_a_built_program_carries_its_version_and_comes_from_the_cache_next_time(machine: Machine) -> None:
    machine.put_go()
    first = machine.find("helm")
    assert first.helm.read_text() == "built\n"
    assert "-X helm.sh/helm/v3/internal/version.version=v3." in machine.builds()[0]
    assert "Building helm v3." in machine.out.getvalue()
    (machine.bin / "go").unlink()
    second = machine.find("helm")
    assert (second.helm, second.origin) == (first.helm, {"helm": "cache"})
    assert len(machine.builds()) == 1


def test_the_cache_folder_follows_the_pins(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.put_go()
    programs = tmp_path / "programs"
    shutil.copytree(toolchain._PROGRAMS, programs)
    monkeypatch.setattr(toolchain, "_PROGRAMS", programs)
    first = machine.find("etcd").etcd
    (programs / "etcd" / "go.sum").write_text("other")
    second = machine.find("etcd").etcd
    assert first != second
    assert first.exists()


def test_two_runs_build_once(machine: Machine) -> None:
    machine.put_go()
    found: list[toolchain.Tools] = []
    threads = [threading.Thread(target=lambda: found.append(machine.find("helm"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(machine.builds()) == 1
    assert sorted(tools.origin["helm"] for tools in found) == ["built", "cache"]


def test_an_interrupted_build_leaves_nothing_and_the_next_one_works(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(program: toolchain.Program, folder: Path) -> None:
        (folder / next(iter(program.packages))).write_text("half")
        raise KeyboardInterrupt

    machine.put_go()
    with monkeypatch.context() as patch:
        patch.setattr(toolchain, "go_build", interrupted)
        with pytest.raises(KeyboardInterrupt):
            machine.find("helm")
    assert [path for path in machine.cache.iterdir() if path.is_dir()] == []
    assert machine.find("helm").helm.read_text() == "built\n"


def test_what_a_killed_build_left_is_cleared(machine: Machine) -> None:
    machine.put_go()
    target = machine.cache / toolchain._cache_name(toolchain.PROGRAMS[4])
    left = machine.cache / f".{target.name}.making-x"
    left.mkdir(parents=True)
    machine.find("helm")
    assert not left.exists()


def test_without_go_the_error_says_what_to_install_or_set(machine: Machine) -> None:
    with pytest.raises(SandboxError, match=r"kube-apiserver.*no Go to build it") as caught:
        machine.find("kube_apiserver")
    assert "Install Go 1." in caught.value.remedy
    assert "KUBEBUILDER_ASSETS" in caught.value.remedy


def test_an_old_go_is_refused_with_both_versions(machine: Machine) -> None:
    machine.put_go("echo go1.19.2")
    with pytest.raises(SandboxError, match=r"too old to build it: go1\.19\.2, needed is go1\.\d+"):
        machine.find("helm")


def test_a_failed_build_shows_its_last_lines(machine: Machine) -> None:
    lines = "; ".join(f"echo line {number}." for number in range(1, 31))
    machine.put_go(f'[ "$1" = env ] && echo go1.99 && exit; {lines}; exit 2')
    with pytest.raises(SandboxError, match=r"go build failed \(exit status 2\)") as caught:
        machine.find("helm")
    assert "line 16." in caught.value.message
    assert "line 15." not in caught.value.message
    assert "failed after" in machine.out.getvalue()


def test_a_build_without_network_points_to_the_proxy(machine: Machine) -> None:
    words = "dial tcp: lookup proxy.golang.org: no such host"
    machine.put_go(f'[ "$1" = env ] && echo go1.99 && exit; echo "{words}" >&2; exit 1')
    with pytest.raises(SandboxError) as caught:
        machine.find("helm")
    assert "GOPROXY" in caught.value.remedy


def test_a_cache_that_cannot_be_written_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.put_go()
    monkeypatch.setenv("GPU_POOLS_CACHE", str(machine.bin / "go" / "below"))
    with pytest.raises(SandboxError) as caught:
        machine.find("helm")
    assert "GPU_POOLS_CACHE" in caught.value.remedy


def test_a_built_pulumi_lies_beside_a_built_language_host_with_the_engines_script(machine: Machine) -> None:
    """Where the engine looks for it: of one that it finds elsewhere on PATH it warns, in every run."""
    machine.put_go()
    tools = machine.find("pulumi")
    assert tools.origin == {"pulumi": "built"}
    together = tools.pulumi.parent
    assert sorted(path.name for path in together.iterdir()) == [
        "pulumi",
        "pulumi-language-python",
        "pulumi-language-python-exec",
    ]
    assert not any(path.is_symlink() for path in together.iterdir()), "the engine follows links before it looks beside itself"
    assert (together / "pulumi-language-python-exec").stat().st_mode & 0o111
    again = machine.find("pulumi")
    assert (again.pulumi, again.origin) == (tools.pulumi, {"pulumi": "cache"})
    assert len(machine.builds()) == 2


def test_a_pulumi_on_path_brings_its_own_language_host(machine: Machine) -> None:
    path = machine.put("pulumi", "echo v3.240.0")
    tools = machine.find("pulumi")
    assert (tools.origin, tools.pulumi) == ({"pulumi": "PATH"}, path)


def test_the_pinned_engine_is_put_into_a_folder_whatever_is_on_path(machine: Machine, tmp_path: Path) -> None:
    """So that a job with an identity runs the engine that go.sum names."""
    machine.put("pulumi", "echo v3.999.0")
    machine.put_go()
    assert toolchain.main(["--engine", str(tmp_path / "tools")]) == 0
    assert (tmp_path / "tools" / "pulumi").read_text() == "built\n"
    assert (tmp_path / "tools" / "pulumi-language-python-exec").read_text() == "shim"


def test_an_openstack_plugin_of_the_sdks_major_version_is_found(machine: Machine, tmp_path: Path) -> None:
    for version in ("v4.1.0", "v50.0.0"):
        machine.put("pulumi-resource-openstack", "", tmp_path / "pulumi-home" / "plugins" / f"resource-openstack-{version}")
    assert machine.find().openstack_plugin is None
    fits = machine.put("pulumi-resource-openstack", "", tmp_path / "pulumi-home" / "plugins" / "resource-openstack-v5.4.0")
    assert machine.find().openstack_plugin == fits


def test_the_newest_installed_kubernetes_plugin_is_found(machine: Machine, tmp_path: Path) -> None:
    assert machine.find().kubernetes_plugin is None
    for version in ("v4.9.1", "v4.30.0", "v3.99.0"):
        folder = tmp_path / "pulumi-home" / "plugins" / f"resource-kubernetes-{version}"
        folder.mkdir(parents=True)
        newest = machine.put("pulumi-resource-kubernetes", "", folder)
    newest = newest.parents[1] / "resource-kubernetes-v4.30.0" / newest.name
    assert machine.find().kubernetes_plugin == newest


def test_unknown_tools_are_a_mistake_of_the_caller(machine: Machine) -> None:
    with pytest.raises(ValueError, match="kubelet"):
        machine.find("kubelet")


def test_a_stack_comes_up_without_the_programs_of_gpu_nodes(machine: Machine) -> None:
    machine.put_go()
    tools = machine.find(*toolchain.PLATFORM_TOOLS)
    assert set(tools.origin) == set(toolchain.TOOLS) - toolchain.GPU_TOOLS
    assert not [line for line in machine.builds() if "NVIDIA" in line]
    machine.find(*toolchain.GPU_TOOLS)
    assert [line for line in machine.builds() if "NVIDIA" in line]


def test_a_module_is_built_in_its_pinned_version_whatever_is_on_the_machine(machine: Machine) -> None:
    machine.put_go()
    machine.put("gpu-feature-discovery", "echo 0.17.9")
    folder = toolchain.find_built("device-plugin-v0.17", Progress(machine.out))
    assert folder.is_relative_to(machine.cache)
    assert (folder / "gpu-feature-discovery").is_file()


def test_every_program_is_pinned() -> None:
    for program in toolchain.PROGRAMS:
        assert re.fullmatch(r"v\d+\.\d+\.\d+", toolchain.pinned_version(program))


def test_the_command_prints_a_table(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.put_go()
    assert toolchain.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["TOOL", "ORIGIN", "PATH"]
    assert len(lines) == 1 + len(toolchain.TOOLS) + 2


def test_the_command_fails_with_the_remedy(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert machine.bin.exists()
    assert toolchain.main([]) == 1
    assert "Install Go" in capsys.readouterr().err


@pytest.mark.programs
def test_the_real_programs_are_found_or_built() -> None:
    tools = toolchain.find_tools(Progress(sys.stderr))
    check: Callable[[str], bool] = lambda tool: getattr(tools, tool).is_file()  # noqa: E731
    assert all(map(check, toolchain.TOOLS))
