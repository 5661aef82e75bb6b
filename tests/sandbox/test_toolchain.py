"""Programs are found in the order promised, built once and whole, and every failure says what to do."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox import toolchain
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain.__main__ import main
from sandbox.toolchain.find import find_built, find_tools
from sandbox.toolchain.lanes import Builds
from sandbox.toolchain.meter import Meter
from sandbox.toolchain.obtain import obtain, place_of_build
from sandbox.toolchain.programs import PROGRAMS, pinned_version, program
from sandbox.toolchain.releases import RELEASES, Archive, Image, Release
from sandbox.toolchain.remaining import Remaining
from sandbox.toolchain.tools import GPU_TOOLS, PLATFORM_TOOLS, TOOLS, Tools
from tests.patience import scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sandbox.toolchain.programs import Program

FAKE_GO = """\
case "$1" in
  env) echo go1.99.0 ;;
  mod) echo '{"Dir": "SOURCES"}' ;;
  list) /bin/cat SOURCES/modules ;;
  build)
    echo "$@" >> LOG
    /bin/sleep 0.05
    case "$*" in *" -o "*) ;; *) exit 0 ;; esac
    while [ "$1" != -o ]; do shift; done
    shift
    case "$1" in */) ;; *) echo built > "$1"; exit 0 ;; esac
    folder=$1
    shift
    for package in "$@"; do echo built > "$folder${package##*/}"; done ;;
esac
"""
PROJECT = Path(__file__).resolve().parents[2]
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
        left_out = [part for one in PROGRAMS for part in one.left_out]
        for part in left_out:
            package = self.sources / part.module / part.package
            package.mkdir(parents=True, exist_ok=True)
            for name in (*part.keep, "other.go"):
                (package / name).write_text(f"package of {part.module}\n")
        modules = sorted({part.module for part in left_out})
        (self.sources / "modules").write_text("".join(f"{module} {self.sources / module}\n" for module in modules))
        self.bin.mkdir()

    def put(self, name: str, script: str, folder: Path | None = None) -> Path:
        path = (folder or self.bin) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def put_go(self, script: str = FAKE_GO) -> None:
        self.put("go", script.replace("LOG", str(self.log)).replace("SOURCES", str(self.sources)))

    def find(self, *only: str) -> Tools:
        return find_tools(Progress(self.out), only=set(only))

    def builds(self) -> list[str]:
        """What Go was told to build, but for its own library."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if " -o " in line]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(machine.bin))
    monkeypatch.setenv("GPU_POOLS_CACHE", str(machine.cache))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi-home"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("GPU_POOLS_DOWNLOADS", "no")
    monkeypatch.setenv("GPU_POOLS_PLUGINS", "found")
    # `make test` sets it.
    monkeypatch.delenv("GPU_POOLS_PROGRAMS", raising=False)
    return machine


def test_where_nothing_may_be_made_what_is_missing_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.put_go()
    monkeypatch.setenv("GPU_POOLS_PROGRAMS", "made")
    with pytest.raises(SandboxError, match=r"helm v\S+, etcd v\S+: not made yet, and GPU_POOLS_PROGRAMS=made"):
        obtain([program("helm"), program("etcd")], Progress(machine.out))
    assert not machine.cache.exists()


def test_a_program_on_path_is_used(machine: Machine) -> None:
    helm = machine.put("helm", "echo v3.18.4+gd80839c")
    tools = machine.find("helm")
    assert tools.helm == helm
    assert tools.origin == {"helm": "PATH"}


def test_nfd_worker_is_made_even_where_the_machine_has_one_which_would_look_elsewhere(machine: Machine) -> None:
    machine.put("nfd-worker", "echo nfd-worker v0.18.3")
    machine.put("nfd-master", "echo nfd-master v0.18.3")
    with pytest.raises(SandboxError) as refused:
        machine.find("nfd_worker")
    assert "no Go to build it with" in refused.value.message
    assert "on PATH" not in refused.value.remedy
    machine.put_go()
    assert machine.find("nfd_master", "nfd_worker").origin == {"nfd_master": "PATH", "nfd_worker": "built"}
    assert "-X sigs.k8s.io/node-feature-discovery/pkg/utils/hostpath.pathPrefix=host-" in machine.builds()[0]


@pytest.mark.parametrize("version", ["v3.2.0", "v4.0.1", "dev"])
def test_a_program_of_a_wrong_version_is_passed_over_and_that_is_said(machine: Machine, version: str) -> None:
    machine.put("helm", f"echo {version}")
    machine.put_go()
    assert machine.find("helm").origin == {"helm": "built"}
    assert "is not used: version" in machine.out.getvalue()


def test_a_control_plane_of_another_minor_version_is_passed_over(machine: Machine) -> None:
    major, minor = re.findall(r"\d+", pinned_version(program("kubernetes")))[:2]
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
    shutil.copytree(toolchain.programs.FOLDER, programs)
    monkeypatch.setattr(toolchain.programs, "FOLDER", programs)
    monkeypatch.setattr(toolchain.build, "FOLDER", programs)
    first = machine.find("etcd").etcd
    (programs / program("etcd").graph / "go.sum").write_text("other")
    second = machine.find("etcd").etcd
    assert first != second
    assert first.exists()


def test_the_cache_folder_follows_what_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which packages and files are left out, and what is compiled instead."""
    programs = tmp_path / "programs"
    shutil.copytree(toolchain.programs.FOLDER, programs)
    monkeypatch.setenv("GPU_POOLS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(toolchain.programs, "FOLDER", programs)
    one = program("kubernetes")
    *others, last = one.left_out
    places = [
        place_of_build(one),
        place_of_build(replace(one, left_out=tuple(others))),
        place_of_build(replace(one, left_out=(*others, replace(last, keep=last.keep[1:])))),
    ]
    (programs / one.graph / "left-out" / last.instead).write_text("package other\n")
    assert len({*places, place_of_build(one)}) == 4


def test_two_runs_build_once(machine: Machine) -> None:
    machine.put_go()
    found: list[Tools] = []
    threads = [threading.Thread(target=lambda: found.append(machine.find("helm"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(machine.builds()) == 1
    assert sorted(tools.origin["helm"] for tools in found) == ["built", "cache"]


def test_an_interrupted_build_leaves_nothing_and_the_next_one_works(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(one: Program, folder: Path, _: Meter) -> None:
        (folder / next(iter(one.packages))).write_text("half")
        raise KeyboardInterrupt

    machine.put_go()
    with monkeypatch.context() as patch:
        patch.setattr(toolchain.build, "go_build", interrupted)
        with pytest.raises(KeyboardInterrupt):
            machine.find("helm")
    assert [path for path in machine.cache.iterdir() if path.is_dir()] == []
    assert machine.find("helm").helm.read_text() == "built\n"


def test_what_a_killed_build_left_is_cleared(machine: Machine) -> None:
    machine.put_go()
    target = place_of_build(program("helm"))
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


@pytest.mark.parametrize(
    ("gigabytes", "own", "expected"),
    [(8, {}, "400 1GiB"), (4, {}, " "), (8, {"GOGC": "50"}, "50 1GiB"), (4, {"GOMEMLIMIT": "2GiB"}, " 2GiB")],
)
def test_the_compiler_sweeps_less_often_where_there_is_memory_for_it_and_nobody_has_said_otherwise(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, gigabytes: int, own: dict[str, str], expected: str
) -> None:
    monkeypatch.delenv("GOGC", raising=False)
    monkeypatch.delenv("GOMEMLIMIT", raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": gigabytes * 1024**3 // 4096}
    monkeypatch.setattr(toolchain.build.os, "sysconf", pages.__getitem__)
    machine.put_go(FAKE_GO.replace('echo "$@"', 'echo "$GOGC $GOMEMLIMIT"'))
    machine.find("helm")
    assert machine.log.read_text() == f"{expected}\n"


def test_the_sandboxs_engine_is_built_without_what_is_for_states_in_clouds_and_the_one_that_deploys_with_it(
    machine: Machine, tmp_path: Path
) -> None:
    machine.put_go()
    machine.find("pulumi")
    assert main(["--engine", str(tmp_path / "tools")]) == 0
    engines = [line for line in machine.builds() if line.endswith("/cmd/pulumi")]
    assert ["-modfile=" in line for line in engines] == [True, False]


def test_a_build_that_was_interrupted_before_the_language_host_goes_on_with_it(machine: Machine) -> None:
    machine.put_go()
    machine.find("pulumi")
    for folder in [*machine.cache.glob("pulumi-language-python-*"), *machine.cache.glob("pulumi-*-with-*")]:
        shutil.rmtree(folder)
    tools = machine.find("pulumi")
    assert (tools.pulumi.parent / "pulumi-language-python").is_file()
    assert len(machine.builds()) == 3


def test_a_pulumi_on_path_brings_its_own_language_host(machine: Machine) -> None:
    path = machine.put("pulumi", "echo v3.240.0")
    tools = machine.find("pulumi")
    assert (tools.origin, tools.pulumi) == ({"pulumi": "PATH"}, path)


def test_the_pinned_engine_is_put_into_a_folder_whatever_is_on_path(machine: Machine, tmp_path: Path) -> None:
    """So that a job with an identity runs the engine that go.sum names."""
    machine.put("pulumi", "echo v3.999.0")
    machine.put_go()
    assert main(["--engine", str(tmp_path / "tools")]) == 0
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
    tools = machine.find(*PLATFORM_TOOLS)
    assert set(tools.origin) == set(TOOLS) - GPU_TOOLS
    assert not [line for line in machine.builds() if "NVIDIA" in line]
    machine.find(*GPU_TOOLS)
    assert [line for line in machine.builds() if "NVIDIA" in line]


def test_a_module_is_built_in_its_pinned_version_whatever_is_on_the_machine(machine: Machine) -> None:
    machine.put_go()
    machine.put("gpu-feature-discovery", "echo 0.17.9")
    folder = find_built("device-plugin-v0.17", Progress(machine.out))
    assert folder.is_relative_to(machine.cache)
    assert (folder / "gpu-feature-discovery").is_file()


def test_a_folder_of_a_module_is_copied_so_that_its_owner_can_remove_it(machine: Machine) -> None:
    machine.put_go()
    chart = machine.sources / "deployments" / "helm" / "dra-driver-nvidia-gpu"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("version: 0.5.0")
    script = machine.sources / "hack" / "kubelet-plugin-prestart.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh")
    for path in (chart / "Chart.yaml", chart / "templates", chart):
        path.chmod(0o555 if path.is_dir() else 0o444)
    found = find_built("dra-driver-chart", Progress(machine.out)) / "dra-driver-nvidia-gpu"
    for path in (chart, chart / "templates"):
        path.chmod(0o755)
    assert (found / "Chart.yaml").read_text() == "version: 0.5.0"
    assert [path.stat().st_mode & 0o777 for path in (found, found / "templates", found / "Chart.yaml")] == [0o755, 0o755, 0o644]
    assert (found.parent / script.name).stat().st_mode & 0o777 == 0o755
    assert machine.builds() == []
    assert "dra-driver-chart v0.5.0" in machine.out.getvalue()


def test_every_program_is_pinned() -> None:
    for one in PROGRAMS:
        assert re.fullmatch(r"v\d+\.\d+\.\d+", pinned_version(one))


def _pins(graph: str) -> dict[str, str]:
    text = (toolchain.programs.FOLDER / graph / "go.mod").read_text(encoding="utf-8")
    return dict(re.findall(r"^\t(\S+) (v\S+)(?: // indirect)?$", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("graph", "like", "known"),
    [
        # The collector is the client that nfd-master and nfd-worker are.
        ("nfd-gc", "kubernetes", {"k8s.io/client-go", "sigs.k8s.io/node-feature-discovery"}),
        ("pulumi-language-python", "pulumi", {"google.golang.org/grpc", "golang.org/x/net"}),
    ],
)
def test_a_small_program_is_made_of_what_a_large_one_is_made_of(graph: str, like: str, known: set[str]) -> None:
    """So that it compiles in seconds where that has been compiled."""
    small, large = _pins(graph), _pins(like)
    # Newer versions of that module have no language host that could be built.
    both = (small.keys() & large.keys()) - {"github.com/pulumi/pulumi/sdk/v3"}
    assert known <= both
    assert {name: small[name] for name in both} == {name: large[name] for name in both}


def test_the_command_prints_a_table(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.put_go()
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["TOOL", "ORIGIN", "PATH"]
    assert len(lines) == 1 + len(TOOLS) + 2


def test_the_command_fails_with_the_remedy(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert machine.bin.exists()
    assert main([]) == 1
    assert "Install Go" in capsys.readouterr().err


def test_programs_that_are_built_together_are_named_as_go_names_them() -> None:
    for one in PROGRAMS:
        if len(one.packages) > 1:
            assert {name: package.rpartition("/")[2] for name, package in one.packages.items()} == {n: n for n in one.packages}


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Host:
    """A host of releases, on loopback."""

    def __init__(self) -> None:
        self.archive = io.BytesIO()
        with tarfile.open(fileobj=self.archive, mode="w:gz") as tar:
            for name in ("linux/helm", "linux/other", "../escaped", "linux/pulumi", "linux/host", "linux/exec"):
                member = tarfile.TarInfo(name)
                member.size = len(b"released")
                tar.addfile(member, io.BytesIO(b"released"))
        self.sha256 = sha256_of(self.archive.getvalue())
        self.files = {"/it.tar.gz": self.archive.getvalue()}
        self.asked: list[str] = []
        self.announced = 0
        self.silent = False
        host = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.asked.append(self.path)
                if host.silent:
                    time.sleep(3)
                content = host.files.get(self.path)
                self.send_response(HTTPStatus.NOT_FOUND if content is None else HTTPStatus.OK)
                self.send_header("Content-Length", str(host.announced or len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def release(self, sha256: str = "", path: str = "it.tar.gz", members: dict[str, str] | None = None) -> Release:
        url = f"http://127.0.0.1:{self.server.server_port}/{path}"
        return (Archive(url, sha256 or self.sha256, members or {"linux/helm": "helm"}),)

    def image(self, **platform: str) -> Image:
        """Has an image with one layer, for another platform and for this."""
        manifest = json.dumps({"layers": [{"digest": "sha256:0"}, {"digest": f"sha256:{self.sha256}"}]}).encode()
        platforms = [{"os": "linux", "architecture": "s390x"}, {"os": "linux", "architecture": "amd64", **platform}]
        digests = ["sha256:1", f"sha256:{sha256_of(manifest)}"]
        listed = [{"digest": digest, "platform": one} for digest, one in zip(digests, platforms, strict=True)]
        index = json.dumps({"manifests": listed}).encode()
        self.files[f"/v2/helm/manifests/sha256:{sha256_of(index)}"] = index
        self.files[f"/v2/helm/manifests/sha256:{sha256_of(manifest)}"] = manifest
        self.files[f"/v2/helm/blobs/sha256:{self.sha256}"] = self.archive.getvalue()
        url = f"http://127.0.0.1:{self.server.server_port}/v2/helm"
        return Image(url, sha256_of(index), "amd64", {"linux/helm": "helm"})


@pytest.fixture
def host(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    host = Host()
    machine.put_go()
    monkeypatch.delenv("GPU_POOLS_DOWNLOADS")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    publish(monkeypatch, helm=host.release())
    yield host
    host.server.shutdown()
    host.server.server_close()


def publish(monkeypatch: pytest.MonkeyPatch, **releases: Release) -> None:
    """Have releases for this machine, and no others."""
    platform = toolchain.releases.platform_name()
    table = {(name, pinned_version(program(name)), platform): one for name, one in releases.items()}
    monkeypatch.setattr(toolchain.releases, "RELEASES", table)


def test_a_release_is_downloaded_and_only_its_programs_are_taken(machine: Machine, host: Host) -> None:
    tools = machine.find("helm")
    assert (tools.origin, tools.helm.read_text()) == ({"helm": "downloaded"}, "released")
    assert tools.helm.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tools.helm.parent.iterdir()] == ["helm"]
    assert machine.builds() == []
    again = machine.find("helm")
    assert (again.helm, again.origin) == (tools.helm, {"helm": "cache"})
    assert host.asked == ["/it.tar.gz"]


def test_a_release_of_another_sum_is_refused_and_nothing_is_left_or_built(
    machine: Machine, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, helm=host.release(sha256="0" * 64))
    with pytest.raises(SandboxError, match="is not the file that this repository names") as caught:
        machine.find("helm")
    assert host.sha256 in caught.value.message
    assert "0" * 64 in caught.value.message
    assert "GPU_POOLS_DOWNLOADS=no" in caught.value.remedy
    assert [path for path in machine.cache.iterdir() if path.is_dir()] == []
    assert machine.builds() == []


def _gone(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, helm=host.release())
    host.server.shutdown()
    host.server.server_close()


def _without_such_a_file(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, helm=host.release(path="none"))


def _broken_off(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert monkeypatch
    host.announced = len(host.archive.getvalue()) + 1


def _silent(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.silent = True
    monkeypatch.setattr(toolchain.download, "_ANSWER_SECONDS", 0.2)


def _without_a_name(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, helm=(Archive("https://releases.invalid/it.tar.gz", host.sha256, {}),))


@pytest.mark.parametrize("spoil", [_gone, _without_such_a_file, _broken_off, _silent, _without_a_name])
def test_what_cannot_be_downloaded_is_built_at_once_and_that_is_said(
    machine: Machine, host: Host, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Host, pytest.MonkeyPatch], None]
) -> None:
    spoil(host, monkeypatch)
    began = time.monotonic()
    tools = machine.find("helm")
    assert time.monotonic() - began < scaled(2.5)
    assert (tools.origin, tools.helm.read_text()) == ({"helm": "built"}, "built\n")
    assert "is built from its sources, since its release cannot be had from here" in machine.out.getvalue()
    assert [path.name for path in machine.cache.iterdir() if path.is_dir()] == [tools.helm.parent.name]


def test_a_download_that_nobody_wants_any_more_ends(machine: Machine, host: Host) -> None:
    over = threading.Event()
    over.set()
    with pytest.raises(toolchain.download.Unreachable, match="interrupted"):
        toolchain.download.download(host.release(), over, machine.bin)
    assert not (machine.bin / "helm").exists()


def test_nothing_is_downloaded_where_that_is_switched_off(machine: Machine, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_POOLS_DOWNLOADS", "no")
    assert machine.find("helm").origin == {"helm": "built"}
    assert host.asked == []


def test_what_was_built_before_is_not_downloaded(machine: Machine, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_POOLS_DOWNLOADS", "no")
    machine.find("helm")
    monkeypatch.delenv("GPU_POOLS_DOWNLOADS")
    assert machine.find("helm").origin == {"helm": "cache"}
    assert host.asked == []


def test_a_downloaded_pulumi_has_its_language_host_with_it(machine: Machine, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"linux/pulumi": "pulumi", "linux/host": "pulumi-language-python", "linux/exec": "pulumi-language-python-exec"}
    publish(monkeypatch, pulumi=host.release(members=names))
    tools = machine.find("pulumi")
    assert tools.origin == {"pulumi": "downloaded"}
    assert sorted(path.name for path in tools.pulumi.parent.iterdir()) == sorted(names.values())
    assert machine.builds() == []


def test_a_program_is_taken_out_of_an_image(machine: Machine, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, helm=(host.image(),))
    tools = machine.find("helm")
    assert (tools.origin, tools.helm.read_text()) == ({"helm": "downloaded"}, "released")
    assert [path.name for path in tools.helm.parent.iterdir()] == ["helm"]
    assert len(host.asked) == 3


@pytest.mark.parametrize("part", ["list", "manifest", "layer"])
def test_no_part_of_an_image_is_taken_that_is_not_of_its_digest(
    machine: Machine, host: Host, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    publish(monkeypatch, helm=(host.image(),))
    path = list(host.files)[["list", "manifest", "layer"].index(part) + 1]
    host.files[path] += b" "
    with pytest.raises(SandboxError, match="is not the file that this repository names"):
        machine.find("helm")
    assert [path for path in machine.cache.iterdir() if path.is_dir()] == []


def test_an_image_for_other_machines_alone_is_none(machine: Machine, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, helm=(host.image(architecture="arm"),))
    assert machine.find("helm").origin == {"helm": "built"}
    assert "has nothing for amd64" in machine.out.getvalue()


def test_a_list_of_another_form_is_no_error(machine: Machine, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b'{"layers": []}'
    host.files[f"/v2/helm/manifests/sha256:{sha256_of(content)}"] = content
    url = f"http://127.0.0.1:{host.server.server_port}/v2/helm"
    publish(monkeypatch, helm=(Image(url, sha256_of(content), "amd64", {"linux/helm": "helm"}),))
    assert machine.find("helm").origin == {"helm": "built"}
    assert "is of another form" in machine.out.getvalue()


def test_every_release_is_of_the_pinned_version_for_both_kinds_of_machine_and_has_a_sum() -> None:
    for (name, version, _), parts in RELEASES.items():
        assert version == pinned_version(program(name)), "the sums of the new version belong into releases.py"
        brought = {file for part in parts for file in part.members.values()}
        assert {*program(name).packages, *filter(None, [program(name).companion])} <= brought
        for part in parts:
            assert part.url.startswith("https://")
            assert isinstance(part, Image) or version in part.url
            assert re.fullmatch("[0-9a-f]{64}", part.sha256)
    archives = [part.sha256 for parts in RELEASES.values() for part in parts if isinstance(part, Archive)]
    assert len(set(archives)) == len(archives)
    assert {(name, platform) for name, _, platform in RELEASES} == {
        (name, f"linux-{kind}") for name in ("kubernetes", "pulumi", "etcd", "helm") for kind in ("x64", "arm64")
    }


SLOW_GO = """\
case "$*" in
  env*) echo go1.99.0 ;;
  list*) /bin/cat SOURCES/modules ;;
  *SLOW*) echo $$ >> LOG; exec /bin/sleep 60 ;;
  *FAILS*" -o "*|*" -o "*FAILS*) /bin/sleep 0.5; echo broken >&2; exit 1 ;;
  *" -o "*) echo done >> LOG ;;
esac
"""


def test_a_build_that_fails_ends_the_one_beside_it(machine: Machine) -> None:
    machine.put_go(SLOW_GO.replace("SLOW", "cmd/pulumi").replace("FAILS", "helm.sh"))
    began = time.monotonic()
    with pytest.raises(SandboxError, match="broken"):
        machine.find("pulumi", "helm")
    assert time.monotonic() - began < scaled(10)
    assert _ended(int(machine.log.read_text().splitlines()[0]))
    assert [path for path in machine.cache.iterdir() if path.is_dir()] == []


def test_ctrl_c_ends_all_builds_and_leaves_nothing_half(machine: Machine) -> None:
    machine.put_go(SLOW_GO.replace("SLOW", "-o"))
    command = [sys.executable, "-m", "sandbox.toolchain"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        while not machine.log.exists() or len(machine.log.read_text().splitlines()) < min(2, os.cpu_count() or 1):
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=scaled(20))
    assert process.returncode == 130
    assert "Traceback" not in said
    assert all(_ended(int(line)) for line in machine.log.read_text().splitlines())
    assert [path for path in machine.cache.iterdir() if path.is_dir()] == []


def _ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_programs_of_one_graph_are_built_one_after_the_other_beside_another_graph(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they share is then compiled once; and neither core waits."""
    machine.put_go(FAKE_GO.replace("/bin/sleep 0.05", "/bin/sleep 0.3"))
    assert program("nfd").graph == program("config-manager").graph != program("pulumi").graph
    order: list[tuple[str, str]] = []
    real = toolchain.build.go_build

    def noted(one: Program, folder: Path, meter: Meter) -> None:
        order.append(("begins", one.graph))
        real(one, folder, meter)
        order.append(("ends", one.graph))

    monkeypatch.setattr(toolchain.build, "go_build", noted)
    monkeypatch.setattr(toolchain.lanes, "lanes", lambda: 2)
    machine.find("nfd_master", "pulumi", "config_manager")
    assert [what for what, graph in order if graph == "kubernetes"] == ["begins", "ends"] * 2
    assert [what for what, _ in order][:2] == ["begins", "begins"]
    assert "Building pulumi v3.259.0 and 3 more (first time only) …\n" in machine.out.getvalue()


def test_of_a_module_graph_the_longest_is_built_by_itself_and_the_others_fill_what_is_idle(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.put_go(FAKE_GO.replace("/bin/sleep 0.05", "/bin/sleep 0.3"))
    order: list[tuple[str, str]] = []
    real = toolchain.build.go_build

    def noted(one: Program, folder: Path, meter: Meter) -> None:
        order.append(("begins", one.name))
        real(one, folder, meter)
        order.append(("ends", one.name))

    monkeypatch.setattr(toolchain.build, "go_build", noted)
    monkeypatch.setattr(toolchain.lanes, "lanes", lambda: 2)
    machine.find("etcd", "kube_apiserver", "helm", "config_manager")
    assert order[:2] == [("begins", "kubernetes"), ("ends", "kubernetes")]
    assert [what for what, _ in order[2:4]] == ["begins", "begins"]
    assert {name for _, name in order} == {"kubernetes", "etcd", "helm", "config-manager"}


def test_a_log_says_what_remains(machine: Machine) -> None:
    machine.put_go(FAKE_GO.replace("/bin/sleep 0.05", "/bin/sleep 0.3"))
    find_tools(Progress(machine.out, heartbeat=0.02), only={"helm", "etcd"})
    said = machine.out.getvalue()
    assert re.search(
        r"^• Building (?:helm|etcd) .* and 1 more \(first time only\): 0\.\d s, about (\d+ s|\d min) left: ", said, re.MULTILINE
    )
    assert "\x1b" not in said, "colour is for terminals"


def make_first() -> set[str]:
    """What `make first` has made of a cache that was empty, with nothing but Python's own library."""
    main = f"import sys; sys.path.insert(0, {str(PROJECT)!r}); from sandbox.toolchain.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-I", "-S", "-c", main, "--platform"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    cache = Path(os.environ["GPU_POOLS_CACHE"])
    return {path.name.partition("-v")[0] for path in cache.iterdir() if path.is_dir()}


EVERY_STACKS = {"kubernetes", "nfd", "pulumi", "helm", "etcd", "pulumi-language-python"}
A_GPU_NODES = {"device-plugin", "config-manager", "mig-parted"}


def test_what_every_stack_needs_can_be_made_with_nothing_but_pythons_own_library(machine: Machine) -> None:
    """So that it goes on while the packages of this project are installed."""
    machine.put_go()
    assert make_first() == EVERY_STACKS


def test_a_gpu_nodes_programs_are_made_beside_them_where_there_is_a_compiler(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.put_go()
    machine.put("gcc", "exit 0")
    monkeypatch.setenv("GPU_POOLS_NODE_PROGRAMS", "rules")
    assert make_first() == EVERY_STACKS
    monkeypatch.delenv("GPU_POOLS_NODE_PROGRAMS")
    assert make_first() >= EVERY_STACKS | A_GPU_NODES


def test_a_gpu_nodes_programs_that_cannot_be_made_hinder_none_of_the_others(machine: Machine) -> None:
    machine.put_go(FAKE_GO.replace("  build)", '  build)\n    case "$*" in *mig-parted*) exit 1 ;; esac'))
    machine.put("gcc", "exit 0")
    made = make_first()
    assert made >= EVERY_STACKS
    assert "mig-parted" not in made


class Clock:
    """Time that a test lets pass."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Machinery:
    """A machine that gives a build so much processor time a second, as a `Remaining` sees it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **recorded: float) -> None:
        self.clock = Clock()
        monkeypatch.setattr(os, "cpu_count", lambda: 2)
        self.remaining = Remaining(recorded, self.clock)
        self._meters: dict[str, PlayedMeter] = {}
        monkeypatch.setattr(toolchain.remaining, "Meter", PlayedMeter)

    def begin(self, name: str) -> None:
        meter = self.remaining.begin(name)
        assert isinstance(meter, PlayedMeter)
        self._meters[name] = meter

    def work(self, seconds: float, **spent: float) -> None:
        """Let time pass in which programs are built."""
        self.clock.now += seconds
        for name, more in spent.items():
            self._meters[name].spent += more

    def end(self, name: str) -> None:
        self.remaining.end(name)


class PlayedMeter(Meter):
    """Reads what a test says."""

    spent = 0.0

    def seconds(self) -> float:
        return self.spent


def test_the_estimate_begins_with_what_two_cores_give(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Machinery(monkeypatch, helm=50, pulumi=120).remaining.seconds() == pytest.approx(170 / 1.7)


def test_a_slower_processor_and_a_busy_machine_lengthen_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs thrice the processor time, and gets half a core: each makes what is left longer."""
    machine = Machinery(monkeypatch, library=100, pulumi=200)
    machine.begin("library")
    machine.work(600, library=300)
    machine.end("library")
    machine.begin("pulumi")
    assert machine.remaining.seconds() == pytest.approx(3 * 200 / 0.529, rel=0.01)
    assert machine.remaining.describe() == "about 19 min left: pulumi"


def test_work_that_is_done_within_a_program_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machinery(monkeypatch, pulumi=400, helm=100)
    machine.begin("pulumi")
    machine.work(150, pulumi=255)
    assert machine.remaining.seconds() == pytest.approx((145 + 100) / 1.7)
    assert machine.remaining.describe().endswith("left: pulumi; then helm")


@pytest.mark.parametrize("rates", [(1.7, 1.7), (1.7, 0.6), (0.4, 1.7), (0.9, 1.2, 0.7, 1.5, 0.9, 0.6)])
def test_the_countdown_does_not_jump_and_ends_with_the_work(monkeypatch: pytest.MonkeyPatch, rates: tuple[float, ...]) -> None:
    """A log had 12, 9, 10, 8 minutes. Here a second takes two off at most, but where the machine has become another one."""
    needed = {"library": 40.0, "kubernetes": 500.0, "pulumi": 150.0, "helm": 60.0, "etcd": 30.0}
    machine = Machinery(monkeypatch, **{name: seconds / 1.2 for name, seconds in needed.items()})
    shown = []
    work = sum(needed.values())
    done = 0.0
    for name, seconds in needed.items():
        machine.begin(name)
        left = seconds
        while left > 0:
            rate = rates[min(int(done / work * len(rates)), len(rates) - 1)]
            machine.work(1, **{name: rate})
            left, done = left - rate, done + rate
            shown.append(machine.remaining.seconds())
        machine.end(name)
    steps = [after - before for before, after in pairwise(shown)]
    jumps = [step for step in steps if not -2.001 <= step <= 0]
    assert len(jumps) <= (0 if len(set(rates)) == 1 else 7), jumps
    assert shown[-1] < 30
    if len(set(rates)) == 1:
        # Of what is shown in the middle the estimate is right, though the processor needs a fifth more than was recorded.
        halfway = len(shown) // 2
        assert shown[halfway] == pytest.approx(len(shown) - halfway, rel=0.25)


def test_a_program_that_needs_more_than_was_recorded_is_not_taken_for_done_and_the_rest_will_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machinery(monkeypatch, helm=50, pulumi=180)
    machine.begin("helm")
    machine.work(294.1, helm=500)
    assert machine.remaining.seconds() == pytest.approx(10 * (0.05 * 50 + 180) / 1.7, rel=0.001)


def test_what_go_had_in_its_own_cache_says_nothing_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machinery(monkeypatch, library=20, pulumi=180)
    machine.begin("library")
    machine.work(0.1, library=0.17)
    machine.end("library")
    assert machine.remaining.seconds() == pytest.approx(180 / 1.7)


def test_nothing_is_left_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machinery(monkeypatch, helm=50)
    machine.begin("helm")
    machine.work(30, helm=50)
    machine.end("helm")
    assert machine.remaining.describe() == ""


BUSY = "sum(range(20_000_000))"


def test_a_meter_reads_the_time_of_a_process_and_of_its_children() -> None:
    """While it runs and after it has ended: by the system's own numbers, which `getrusage` has, too."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    meter = Meter()
    script = f"import subprocess, sys; {BUSY}; subprocess.run([sys.executable, '-c', '{BUSY}']); print(flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe) as process:
        meter.follow(process.pid)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        running = meter.seconds()
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        meter.stop()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert running > 0.1
    assert meter.seconds() == pytest.approx(taken, abs=0.1)
    assert Meter().seconds() == 0


def test_a_build_is_measured(machine: Machine, tmp_path: Path) -> None:
    work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    machine.put_go(FAKE_GO.replace("/bin/sleep 0.05", work))
    meter = Meter()
    toolchain.build.go_build(program("helm"), tmp_path, meter)
    assert meter.seconds() > 0.05


def test_the_first_of_a_graph_takes_longer_since_it_has_what_they_share() -> None:
    def estimate(*names: str) -> float:
        return Builds([program(name) for name in names], lambda _, __: None).remaining.seconds()

    after_kubernetes = estimate("kubernetes", "nfd") - estimate("kubernetes")
    assert estimate("nfd") > 3 * after_kubernetes
    assert estimate("helm", "pulumi") >= estimate("helm") + estimate("pulumi")


@pytest.mark.programs
def test_the_real_programs_are_found_or_built() -> None:
    tools = find_tools(Progress(sys.stderr))
    check: Callable[[str], bool] = lambda tool: getattr(tools, tool).is_file()  # noqa: E731
    assert all(map(check, TOOLS))
