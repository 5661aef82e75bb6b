"""Parts of a real node that need no cluster: what the machine must allow, control groups, images, libseccomp, pins."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.real_node import allowed, images, settings
from sandbox.stack.scaled import with_sync
from sandbox.system import cgroups
from sandbox.system.errors import SandboxError
from sandbox.toolchain import libseccomp
from sandbox.toolchain.programs import FOLDER, REAL_NODE, pinned_version

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTROLLERS = "cpuset cpu io memory hugetlb pids"


# --- what the machine must allow ----------------------------------------------------------------------------


def test_who_is_not_root_is_told_so_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SandboxError, match=r"no real node can run on this machine: this is the user 1000, not root\.") as caught:
        allowed.require()
    assert "--privileged" in caught.value.remedy


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert allowed.obstacle() == "mount, unshare, nsenter, ldd, gcc, go not on PATH"


def test_a_machine_without_control_groups_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cgroups, "_TOP", tmp_path)
    monkeypatch.setattr(cgroups, "hierarchies", dict)
    assert cgroups.obstacle() == f"no control groups are mounted below {tmp_path}"
    (tmp_path / "cgroup.controllers").write_text("cpu pids\n")
    assert cgroups.obstacle() == "control groups lack cpuset, memory; there are: cpu, pids"


# --- control groups of the second version -------------------------------------------------------------------


class Kernel:
    """A folder that behaves as the top of the second version's hierarchy: what is written to its control file is done."""

    def __init__(self, top: Path, handed: str) -> None:
        self.top, self.handed = top, handed.split()
        (top / "cgroup.controllers").write_text(f"{CONTROLLERS}\n")
        self.show()

    def show(self) -> None:
        (self.top / "cgroup.subtree_control").write_text(" ".join(self.handed))

    def control(self, _top: Path, sign: str, names: list[str]) -> None:
        procs = self.top / "cgroup.procs"
        if sign == "+" and procs.exists() and procs.read_text():
            raise OSError(16, "Device or resource busy")
        self.handed = [name for name in self.handed if name not in names] + (list(names) if sign == "+" else [])
        self.show()

    def move(self, source: Path, target: Path) -> None:
        with (target / "cgroup.procs").open("a") as file:
            file.write((source / "cgroup.procs").read_text())
        (source / "cgroup.procs").write_text("")


@pytest.mark.parametrize("busy", ["", "17\n18\n"], ids=["the machine's own top", "a container's top, with processes"])
def test_controllers_are_handed_down_and_taken_back_by_the_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, busy: str
) -> None:
    kernel = Kernel(tmp_path, "cpu memory")
    (tmp_path / "cgroup.procs").write_text(busy)
    monkeypatch.setattr(cgroups, "_TOP", tmp_path)
    monkeypatch.setattr(cgroups, "_control", kernel.control)
    monkeypatch.setattr(cgroups, "_move", kernel.move)
    monkeypatch.setattr(Path, "rmdir", lambda path: subprocess.run(["rm", "-r", str(path)], check=True))
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        cgroups.make(cgroups.name_of(folder, "a"))
    assert sorted(kernel.handed) == sorted(CONTROLLERS.split())
    assert (tmp_path / "cgroup.procs").read_text() == ""
    cgroups.remove(one)
    assert sorted(kernel.handed) == sorted(CONTROLLERS.split()), "the other one still needs them"
    cgroups.remove(other)
    assert kernel.handed == ["cpu", "memory"]
    assert (tmp_path / "cgroup.procs").read_text() == busy
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_nothing_is_written_at_the_top_where_all_is_handed_down_already(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, CONTROLLERS)
    monkeypatch.setattr(cgroups, "_TOP", tmp_path)
    monkeypatch.setattr(cgroups, "_control", lambda *_: pytest.fail("written"))
    cgroups.make(cgroups.name_of(tmp_path, "a"))
    cgroups.remove(tmp_path)
    assert kernel.handed == CONTROLLERS.split()


def test_a_kernel_lets_the_leaf_s_neighbours_have_controllers_and_takes_all_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On this machine's hierarchy of the second version; beside the first one it has the controllers that that one lacks."""
    tops = [
        place for place in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")) if (place / "cgroup.controllers").exists()
    ]
    if not tops or not os.access(tops[0], os.W_OK) or not (there := (tops[0] / "cgroup.controllers").read_text().split()):
        pytest.skip("no hierarchy of the second version with controllers can be written here")
    monkeypatch.setattr(cgroups, "_TOP", tops[0])
    monkeypatch.setattr(cgroups, "WANTED", tuple(there))
    monkeypatch.setattr(cgroups, "_MORE", ())
    before = (tops[0] / "cgroup.subtree_control").read_text()
    (group,) = cgroups.make(cgroups.name_of(tmp_path, "a"))
    with subprocess.Popen(["sleep", "100"], preexec_fn=lambda: cgroups.enter_leaf(group)) as inside:  # noqa: PLW1509
        assert cgroups._processes(group) == []
        assert cgroups._processes(group / "init") == [inside.pid]
        (group / "cgroup.subtree_control").write_text(f"+{there[0]}")
        (group / "beside").mkdir()
        assert (group / "beside" / "cgroup.controllers").read_text().split() == there[:1]
        cgroups.remove(tmp_path)
        assert inside.wait(10) == -signal.SIGKILL
    assert not group.exists()
    assert (tops[0] / "cgroup.subtree_control").read_text() == before


def test_groups_of_another_folder_are_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Kernel(tmp_path, CONTROLLERS)
    monkeypatch.setattr(cgroups, "_TOP", tmp_path)
    group = cgroups.make(cgroups.name_of(tmp_path / "one", "a"))[0]
    cgroups.remove(tmp_path / "other")
    assert group.exists()
    cgroups.remove(tmp_path / "one", "b")
    assert group.exists()
    cgroups.remove(tmp_path / "one")
    assert not group.exists()


# --- images -------------------------------------------------------------------------------------------------


def test_an_image_has_the_libraries_of_its_programs_and_layers_are_there_once(tmp_path: Path) -> None:
    tools = images.tools()
    more = images.Layer({"/usr/bin/more": Path("/bin/sh")})
    archive = tmp_path / "images.tar"
    images.write(
        archive,
        [images.Image(("a.example/one:1", "a.example/two:2"), (tools,)), images.Image(("a.example/three:3",), (tools, more))],
        images.Packed(),
    )
    with tarfile.open(archive) as opened:
        blobs = {name.rpartition("/")[2]: read(opened, name) for name in opened.getnames() if name.startswith("blobs/")}
        index = json.loads(read(opened, "index.json"))
    names = [one["annotations"]["io.containerd.image.name"] for one in index["manifests"]]
    assert names == ["a.example/one:1", "a.example/two:2", "a.example/three:3"]
    layers = [layers_of(blobs, one) for one in index["manifests"]]
    assert layers[0] == layers[1] == layers[2][:1], "the same layer is there twice"
    with tarfile.open(fileobj=io.BytesIO(blobs[layers[0][0]])) as layer:
        files = layer.getnames()
        assert {"usr/bin/sh", "tmp", "proc"} <= set(files)
        assert any(re.search(r"/libc\.so\.6$", name) for name in files)
        assert layer.getmember("tmp").mode == 0o1777
        assert len(files) == len(set(files))


def read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def layers_of(blobs: Mapping[str, bytes], manifest: Mapping[str, Any]) -> list[str]:
    described = json.loads(blobs[manifest["digest"].removeprefix("sha256:")])
    return [layer["digest"].removeprefix("sha256:") for layer in described["layers"]]


# --- programs -----------------------------------------------------------------------------------------------


def test_the_kubelet_is_made_of_what_the_control_plane_is_made_of() -> None:
    """Else what both have would be compiled twice, and the versions of one Kubernetes would differ."""
    requirement = re.compile(r"^\s+(\S+) (v\S+)", re.MULTILINE)
    control_plane, kubelet = (
        dict(requirement.findall((FOLDER / name / "go.mod").read_text())) for name in ("kubernetes", "kubelet")
    )
    assert {name: version for name, version in kubelet.items() if control_plane.get(name, version) != version} == {}
    assert len(kubelet.keys() & control_plane.keys()) > len(kubelet) * 0.8


def test_every_program_of_a_real_node_is_pinned() -> None:
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+", pinned_version(one)) for one in REAL_NODE)


def test_all_runtimes_of_containerd_are_programs_that_are_built() -> None:
    text = settings.files("overlayfs", "", "", "")[settings.CONTAINERD]
    named = re.findall(r'BinaryName = "/opt/gpu-pools/([^/]+)/([^"]+)"', text)
    built = {(one.name, program) for one in REAL_NODE for program in one.packages}
    assert named
    assert set(named) <= built


def test_a_stack_s_wait_for_config_maps_is_scaled_to_what_the_real_kubelet_is_told() -> None:
    """Else a label came before its key on a real node, where nobody waits long enough (W01)."""
    asked = json.loads(settings.files("overlayfs", "", "", "")[settings.KUBELET])["syncFrequency"]
    assert f"kubeletSyncSeconds: {asked.removesuffix('s')}" in with_sync("config:\n  gpu-pools:pools: []\n")


def test_without_libseccomp_and_without_apt_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "gcc"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(SandboxError, match=r"libseccomp-dev is not installed, and there is no apt-get") as caught,
        libseccomp.settings(),
    ):
        pass
    assert "apt-get install libseccomp-dev" in caught.value.remedy


def test_what_apt_says_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, script in (("gcc", "exit 1"), ("apt-get", "echo 'E: Unable to locate package' >&2; exit 100")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(SandboxError, match="E: Unable to locate package"), libseccomp.settings():
        pass
