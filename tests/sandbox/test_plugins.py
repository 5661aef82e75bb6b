"""`make plugins`: the real Pulumi downloads the pinned plugins, from a host on loopback here, and every sandbox finds them."""

from __future__ import annotations

import io
import os
import tarfile
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain import machine, plugin_releases, plugins
from sandbox.toolchain.find import find_tools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.programs


class Host:
    """Gives plugins out as their own host does, by name, version and platform."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.there = True
        host = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.asked.append(self.path.removeprefix("/"))
                content = archive(self.path.split("-v")[0].removeprefix("/")) if host.there else b""
                self.send_response(HTTPStatus.OK if host.there else HTTPStatus.NOT_FOUND)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def archive(program: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo(program)
        member.mode, content = 0o755, b"#!/bin/sh\n"
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def pulumi() -> Path:
    return find_tools(Progress(), only={"pulumi"}).pulumi


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pulumi: Path) -> Iterator[Host]:
    assert pulumi, "found before the cache is another"
    found = Host()
    monkeypatch.setenv("GPU_POOLS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "the-users-own"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(plugin_releases.VARIABLE, plugin_releases.FOUND)
    address = f"http://127.0.0.1:{found.server.server_port}"
    monkeypatch.setenv("PULUMI_PLUGIN_DOWNLOAD_URL_OVERRIDES", f"^.*$={address}")
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_the_plugins_of_the_sdks_are_installed_and_found(pulumi: Path, host: Host, tmp_path: Path) -> None:
    assert machine.plugin("kubernetes", major=4) is None
    plugins.install(pulumi, Progress(io.StringIO()))
    wanted = [f"pulumi-resource-{name}-v{plugins.pinned(name)}-" for name in ("kubernetes", "openstack")]
    assert [name.startswith(begin) for name, begin in zip(host.asked, wanted, strict=True)] == [True, True]
    for provider, major in plugins.PROVIDERS.items():
        found = machine.plugin(provider, major=major)
        assert found is not None
        assert found.is_relative_to(tmp_path / "cache" / "pulumi-home")
        assert os.access(found, os.X_OK)
        assert plugins.pinned(provider).split(".")[0] == str(major)
    assert not (tmp_path / "the-users-own").exists()


def test_where_they_cannot_be_had_the_stand_ins_go_on(pulumi: Path, host: Host) -> None:
    host.there = False
    with pytest.raises(SandboxError, match=r"Pulumi's plugin of kubernetes 4\.\S+ cannot be had: .*404") as caught:
        plugins.install(pulumi, Progress(io.StringIO()))
    assert "The stand-ins go on playing" in caught.value.remedy
    assert machine.plugin("kubernetes", major=4) is None
