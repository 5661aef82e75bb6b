"""The real GPU operator: where it is looked for, what is passed over, and how it is taken out of its image."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.cluster.machine_groups import RealNodes
from sandbox.stack.real_nodes import tools_beside
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain import gpu_operator
from sandbox.toolchain.gpu_operator import GpuOperator
from sandbox.toolchain.releases import _OPERATOR_STEPS, OPERATOR_VERSION, ImageSteps
from sandbox.toolchain.tools import Tools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: As the real one begins, and ends where it has no namespace.
SAYS = """#!/bin/sh
echo '{"level":"info","msg":"version: VERSION, commit: 10ee5b36"}' >&2
[ -n "$OPERATOR_NAMESPACE" ] || exit 1
sleep 60
"""
#: A registry gives it to everybody.
TOKEN = "anonymous"  # noqa: S105 - nobody's
ASSET = "state-device-plugin/0500_daemonset.yaml"


class Machine:
    """A machine with a cache, a PATH and what it was told."""

    def __init__(self, root: Path) -> None:
        self.root, self.cache, self.bin = root, root / "cache", root / "bin"
        self.out = io.StringIO()

    def find(self) -> GpuOperator | None:
        return gpu_operator.find(Progress(self.out))

    def put(self, version: str = "v26.7.0", *, assets: bool = True) -> Path:
        """A folder that is laid out as the image."""
        root = self.root / "image"
        program = root / "usr" / "bin" / "gpu-operator"
        program.parent.mkdir(parents=True)
        program.write_text(SAYS.replace("VERSION", version))
        program.chmod(0o755)
        if assets:
            (root / "opt" / "gpu-operator" / ASSET).parent.mkdir(parents=True)
            (root / "opt" / "gpu-operator" / ASSET).write_text("kind: DaemonSet\n")
        return root


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path)
    monkeypatch.setenv("GPU_POOLS_CACHE", str(found.cache))
    monkeypatch.setenv("GPU_POOLS_DOWNLOADS", "no")
    monkeypatch.setenv("PATH", f"{found.bin}:/usr/bin:/bin")
    monkeypatch.delenv(gpu_operator.VARIABLE, raising=False)
    return found


def test_without_one_the_stand_in_plays(machine: Machine) -> None:
    assert machine.find() is None
    assert machine.out.getvalue() == ""


def test_one_that_is_named_is_run_with_its_assets(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    root = machine.put()
    monkeypatch.setenv(gpu_operator.VARIABLE, str(root))
    wanted = GpuOperator(root / "usr/bin/gpu-operator", root / "opt/gpu-operator", "v26.7.0", gpu_operator.VARIABLE)
    assert machine.find() == wanted


@pytest.mark.parametrize(
    ("version", "assets", "words"),
    [
        ("v26.3.3", True, "version v26.3.3, wanted: v26.7"),
        ("development", True, "version unknown, wanted: v26.7"),
        ("v26.7.1", False, "one of its assets, is not there"),
    ],
)
def test_one_that_is_named_and_cannot_play_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, version: str, *, assets: bool, words: str
) -> None:
    monkeypatch.setenv(gpu_operator.VARIABLE, str(machine.put(version, assets=assets)))
    with pytest.raises(SandboxError, match=words) as caught:
        machine.find()
    assert f"{gpu_operator.VARIABLE}=no" in caught.value.remedy


def test_one_on_path_without_its_assets_is_passed_over_and_that_is_said(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.put().joinpath("usr/bin").rename(machine.bin)
    monkeypatch.setattr(gpu_operator, "ASSETS", machine.root / "nowhere")
    assert machine.find() is None
    assert "gpu-operator (PATH) is not used" in machine.out.getvalue()
    monkeypatch.setattr(gpu_operator, "ASSETS", machine.root / "image/opt/gpu-operator")
    found = machine.find()
    assert found is not None
    assert (found.program, found.origin) == (machine.bin / "gpu-operator", "PATH")


def test_the_stand_in_plays_where_that_is_asked_for(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.put().joinpath("usr/bin").rename(machine.bin)
    monkeypatch.setattr(gpu_operator, "ASSETS", machine.root / "image/opt/gpu-operator")
    monkeypatch.setenv(gpu_operator.VARIABLE, gpu_operator.NO)
    assert machine.find() is None


def layer(**files: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


class Registry:
    """A registry on loopback that gives a token to everybody, and blobs from another address, which refuses a token."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.asked: list[str] = []
        registry = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                registry.answer(self)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        layers = [
            layer(**{"etc/base": "of what it is based on"}),
            layer(**{"usr/bin/gpu-operator": SAYS.replace("VERSION", OPERATOR_VERSION)}),
            layer(**{"usr/bin/other": "another program"}),
            layer(**{f"opt/gpu-operator/{ASSET}": "kind: DaemonSet\n", "opt/gpu-operator-not/x": "x"}),
            layer(**{"opt/gpu-operator/manifests/state-driver/a.yaml": "a"}),
        ]
        # Of the base there is no history; a step may make no layer.
        steps = [
            {"created_by": "ENV X=1", "empty_layer": True},
            {"created_by": "COPY /workspace/gpu-operator /usr/bin/ # buildkit"},
            {"created_by": "COPY /workspace/other /usr/bin/ # buildkit"},
            {"created_by": "COPY assets /opt/gpu-operator/ # buildkit"},
            {"created_by": "COPY manifests /opt/gpu-operator/manifests # buildkit"},
        ]
        config = self.put(json.dumps({"history": steps}).encode())
        parts: dict[str, Any] = {"config": {"digest": config}, "layers": [{"digest": self.put(one)} for one in layers]}
        platform = {"os": "linux", "architecture": "amd64"}
        listed = [{"digest": self.put(json.dumps(parts).encode()), "platform": platform}]
        self.index = self.put(json.dumps({"manifests": listed}).encode())

    def put(self, content: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[digest] = content
        return digest

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        token = request.headers.get("Authorization")
        digest = request.path.rpartition("/")[2]
        if request.path.startswith("/token"):
            self.send(request, HTTPStatus.OK, json.dumps({"token": TOKEN}).encode())
        elif request.path.startswith("/store/"):
            self.send(request, HTTPStatus.BAD_REQUEST if token else HTTPStatus.OK, self.blobs[digest])
        elif token != f"Bearer {TOKEN}":
            realm = f'Bearer realm="{self.address}/token",scope="repository:nvidia/gpu-operator:pull"'
            self.send(request, HTTPStatus.UNAUTHORIZED, b"", {"WWW-Authenticate": realm})
        elif "/blobs/" in request.path:
            self.send(request, HTTPStatus.TEMPORARY_REDIRECT, b"", {"Location": f"{self.address}/store/{digest}"})
        else:
            self.send(request, HTTPStatus.OK, self.blobs[digest])

    @staticmethod
    def send(request: BaseHTTPRequestHandler, status: HTTPStatus, body: bytes, headers: dict[str, str] | None = None) -> None:
        request.send_response(status)
        for name, text in {**(headers or {}), "Content-Length": str(len(body))}.items():
            request.send_header(name, text)
        request.end_headers()
        request.wfile.write(body)


@pytest.fixture
def registry(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    assert machine
    found = Registry()
    monkeypatch.delenv("GPU_POOLS_DOWNLOADS")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    image = ImageSteps(f"{found.address}/v2/nvidia/gpu-operator", found.index.removeprefix("sha256:"), "amd64", _OPERATOR_STEPS)
    monkeypatch.setattr(gpu_operator, "operator_image", lambda: image)
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_it_is_taken_out_of_its_image_once(machine: Machine, registry: Registry) -> None:
    found = machine.find()
    assert found is not None
    assert (found.version, found.origin) == (OPERATOR_VERSION, "its image")
    files = sorted(str(path.relative_to(found.assets)) for path in found.assets.rglob("*") if path.is_file())
    assert files == ["manifests/state-driver/a.yaml", ASSET]
    assert os.access(found.program, os.X_OK)
    asked = len(registry.asked)
    assert "/token?scope=repository%3Anvidia%2Fgpu-operator%3Apull" in registry.asked
    assert machine.find() == found
    assert len(registry.asked) == asked


def test_what_is_not_of_its_digest_is_refused(machine: Machine, registry: Registry) -> None:
    layers = {digest: content for digest, content in registry.blobs.items() if content[:2] == b"\x1f\x8b"}
    packed = next(digest for digest, content in layers.items() if b"sleep" in gzip.decompress(content))
    registry.blobs[packed] += b" "
    with pytest.raises(SandboxError, match="is not the file that this repository names"):
        machine.find()
    assert [path for path in machine.cache.iterdir() if path.is_dir()] == []


def test_a_registry_that_cannot_be_reached_is_not_asked_again_for_a_day(
    machine: Machine, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.blobs.clear()
    registry.put(b"")
    monkeypatch.setattr(registry, "answer", lambda request: registry.send(request, HTTPStatus.SERVICE_UNAVAILABLE, b""))
    assert machine.find() is None
    assert "a stand-in plays the GPU operator, whose image cannot be had from here" in machine.out.getvalue()
    asked = len(registry.asked)
    assert machine.find() is None
    assert len(registry.asked) == asked
    (note,) = machine.cache.glob(".*not-reached")
    os.utime(note, (0, 0))
    assert machine.find() is None
    assert len(registry.asked) == asked + 1


def test_an_image_that_is_made_otherwise_is_left_alone(
    machine: Machine, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = gpu_operator.operator_image()
    assert image is not None
    other = ImageSteps(image.url, image.sha256, image.architecture, {"COPY /elsewhere": {"a": "a"}})
    monkeypatch.setattr(gpu_operator, "operator_image", lambda: other)
    assert registry
    assert machine.find() is None
    assert "0 layers of it are made by COPY /elsewhere" in machine.out.getvalue()
    assert [path for path in machine.cache.iterdir() if path.is_dir()] == []


def test_beside_a_real_node_the_stand_in_plays_and_that_is_said(machine: Machine) -> None:
    """The real one's probe of the driver asks for the kernel's module, which no stand-in of a driver container has."""
    found = GpuOperator(machine.root, machine.root, OPERATOR_VERSION, "PATH")
    tools = Tools(gpu_operator=found)
    assert tools_beside(tools, {}, Progress(machine.out)) is tools
    assert tools_beside(tools, {"a": RealNodes(0)}, Progress(machine.out)).gpu_operator == found
    assert machine.out.getvalue() == ""
    assert tools_beside(tools, {"a": RealNodes(1)}, Progress(machine.out)).gpu_operator is None
    assert "beside a real node a stand-in plays the GPU operator" in machine.out.getvalue()
