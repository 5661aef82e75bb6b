"""The registry that a real node pulls from, and what is in its images: asked over HTTP, as a container runtime asks."""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import socket
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.real_node import images, operand_images, registry
from sandbox.real_node.images import Image, Layer, Packed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Ask = Callable[[str, str], tuple[int, Mapping[str, str], bytes]]


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    """Asks a registry that has one image, `driver`."""
    layer = Layer({"/opt/greeting": write(tmp_path / "greeting", "hello")}, links={"/link": "opt/greeting"})
    image = Image((), (layer,), ("sleep", "1"), user="65534:65534", environment=(("SEES", "all"),))
    folder = tmp_path / "registry"
    folder.mkdir()
    registry.write(folder, {"driver": image}, Packed())
    listener = socket.create_server(("127.0.0.1", 0))
    server = registry.server(listener, folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def asked(method: str, path: str) -> tuple[int, Mapping[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=10)
        connection.request(method, path)
        answer = connection.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return found

    yield asked
    # Not the socket alone: a server that asks a closed one never rests.
    server.shutdown()
    server.server_close()


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def pulled(ask: Ask, name: str, tag: str) -> tuple[dict[str, Any], bytes]:
    """An image's configuration and its one layer, each held against its digest."""
    status, headers, manifest = ask("GET", f"/v2/{name}/manifests/{tag}?ns=nvcr.io")
    assert status == 200
    assert headers["Docker-Content-Digest"] == f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    described = json.loads(manifest)
    blobs = []
    for reference in (described["config"], *described["layers"]):
        status, _, blob = ask("GET", f"/v2/{name}/blobs/{reference['digest']}")
        assert (status, len(blob)) == (200, reference["size"])
        assert reference["digest"] == f"sha256:{hashlib.sha256(blob).hexdigest()}"
        blobs.append(blob)
    return json.loads(blobs[0]), blobs[1]


def test_an_image_is_there_under_every_tag_and_tells_the_tag_s_version(
    ask: Ask,
) -> None:
    config, layer = pulled(ask, "nvidia/driver", "595.91.07-ubuntu24.04")
    assert {"DRIVER_VERSION=595.91.07", "SEES=all"} <= set(config["config"]["Env"])
    assert (config["config"]["Cmd"], config["config"]["User"]) == (["sleep", "1"], "65534:65534")
    with tarfile.open(fileobj=io.BytesIO(layer)) as opened:
        file = opened.extractfile("opt/greeting")
        assert file is not None
        assert file.read() == b"hello"
        assert opened.getmember("link").linkname == "opt/greeting"
    other, _ = pulled(ask, "cloud-native/driver", "v580.1")
    assert "DRIVER_VERSION=580.1" in other["config"]["Env"]


@pytest.mark.parametrize(
    "path",
    [
        "/v2/nvidia/k8s-mig-manager/manifests/v0.15.0",
        f"/v2/nvidia/driver/manifests/sha256:{'0' * 64}",
        f"/v2/nvidia/driver/blobs/sha256:{'0' * 64}",
        "/v2/nvidia/driver/blobs/../images.json",
        "/v2/nvidia/driver/blobs/images.json",
        "/v2/driver/tags/list",
        "/",
    ],
)
def test_what_it_does_not_have_it_does_not_know(ask: Ask, path: str) -> None:
    assert ask("GET", path)[0] == 404


def test_a_look_before_a_pull_has_no_content(ask: Ask) -> None:
    status, headers, content = ask("HEAD", "/v2/nvidia/driver/manifests/1")
    assert (status, content) == (200, b"")
    assert headers["Content-Type"] == "application/vnd.oci.image.manifest.v1+json"


def test_every_command_of_the_operands_is_in_their_images(tmp_path: Path) -> None:
    """Else a pod would wait for ever, and nobody would see why before a real node is up."""
    program = write(tmp_path / "program", "")
    programs = operand_images.Programs(*[program] * 10)
    families = operand_images.families(programs, Layer(), Layer())
    there = {name: {path for layer in image.layers for path in layer.programs} for name, image in families.items()}
    plugin = {"nvidia-device-plugin", "gpu-feature-discovery", "config-manager", "mps-control-daemon", "mount", "umount"}
    assert {f"/usr/bin/{name}" for name in plugin} <= there["k8s-device-plugin"]
    assert {"/usr/bin/nfd-worker", "/usr/bin/nfd-master", "/usr/bin/nfd-gc"} <= there["node-feature-discovery"]
    assert {"/usr/bin/nvidia-validator", "/usr/bin/gpu-operator"} <= there["gpu-operator"]
    assert {"/usr/bin/nvidia-driver", "/opt/nvidia-driver/nvidia-cuda-mps-control"} <= there["driver"]
    assert "/usr/bin/driver-manager" in there["k8s-driver-manager"]
    assert "/usr/bin/nvidia-toolkit" in there["container-toolkit"]
    for image in families.values():
        for layer in image.layers:
            assert all(path.is_file() for path in layer.programs.values())


def test_the_stand_in_of_nfd_worker_leaves_out_what_the_program_does_not_know(tmp_path: Path) -> None:
    script = (Path(operand_images.__file__).parent / "operands" / "nfd-worker").read_text()
    program = write(tmp_path / "real", '#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    program.chmod(0o755)
    command = ["sh", "-c", script.replace("/usr/libexec/nfd-worker", str(program)), "nfd-worker"]
    command += ["-feature-gates=A=true", "-owner-refs=Pod,DaemonSet", "-port=8080", "two words"]
    heard = subprocess.run(command, capture_output=True, text=True, check=True)
    often, *rest = heard.stdout.splitlines()[1:]
    assert heard.stdout.startswith("-options\n")
    assert json.loads(often)["core"]["sleepInterval"] == "2s"
    assert rest == ["-feature-gates=A=true", "-port=8080", "two words"]


def test_an_image_that_is_pinned_by_digest_is_known_by_it() -> None:
    assert images.by_digest("python:3.11-slim@sha256:1f") == "docker.io/library/python@sha256:1f"


def test_an_image_has_what_every_system_has_beside_the_c_library() -> None:
    """NVML of driver 580.159.04 asks for libpthread.so.0 and could not be loaded without it, on an H200."""
    found = {Path(path).name: Path(path).parent for path in images.tools().programs}
    there = {"libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6"}
    assert {*there, "libgcc_s.so.1"} <= found.keys()
    (libc,) = {path.parent.resolve() for path in images.libraries(Path("/bin/sh").resolve()) if path.name == "libc.so.6"}
    assert {found[name] for name in there} == {libc}
