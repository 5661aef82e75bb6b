"""The real plugins out of their releases: two hosts on loopback play Pulumi's and GitHub's, with archives that hold a program.

Each way to fail leaves nothing behind and has the stand-in play; but another sum than the list's is refused. Those who were out
of reach are not asked again for a day.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.system.errors import SandboxError
from sandbox.system.patience import Patience
from sandbox.system.progress import Progress
from sandbox.toolchain import download, machine, plugin_releases, releases
from sandbox.toolchain.find import download_plugins
from sandbox.toolchain.plugins import pinned
from tests.patience import scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
PROGRAM = b"#!/bin/sh\necho a plugin\n"
NAMES = {one: f"pulumi-resource-{one}-v{pinned(one)}-linux-amd64.tar.gz" for one in ("kubernetes", "openstack")}
LISTS = {one: f"/pulumi-{one}/releases/download/v{pinned(one)}/pulumi-{one}_{pinned(one)}_checksums.txt" for one in NAMES}


def archive(program: str, prefix: str = "") -> bytes:
    """As goreleaser packs it; or as `tar -C folder .` does, with a prefix."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in (("README.md", b"read me"), (f"{prefix}{program}", PROGRAM), ("../escaped", b"no")):
            member = tarfile.TarInfo(name)
            member.mode, member.size = 0o755, len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


class Host:
    """Has files; may be silent, slow, or break off."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.moved: dict[str, str] = {}
        self.asked: list[str] = []
        self.silent_seconds = 0.0
        self.missing_bytes = 0
        self.drip_seconds = 0.0
        host = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.asked.append(self.path)
                time.sleep(host.silent_seconds)
                if self.path in host.moved:
                    self.send_response(HTTPStatus.FOUND)
                    self.send_header("Location", host.moved[self.path])
                    self.end_headers()
                    return
                content = host.files.get(self.path)
                self.send_response(HTTPStatus.OK if content else HTTPStatus.NOT_FOUND)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                sent = (content or b"")[: len(content or b"") - host.missing_bytes]
                with contextlib.suppress(ConnectionError):
                    for piece in [bytes([byte]) for byte in sent] if host.drip_seconds else [sent]:
                        self.wfile.write(piece)
                        time.sleep(host.drip_seconds)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Site:
    """A machine with a cache, and the two hosts."""

    def __init__(self, root: Path) -> None:
        self.cache, self.out = root / "cache", io.StringIO()
        self.archives, self.lists = Host(), Host()
        archives = {
            "kubernetes": archive("pulumi-resource-kubernetes"),
            "openstack": archive("pulumi-resource-openstack", prefix="./"),
        }
        self.archives.files = {f"/{NAMES[one]}": content for one, content in archives.items()}
        # Each as the real one writes it: goreleaser's sums are SHA-256, those of `shasum` SHA-1.
        sums = hashlib.sha256(archives["kubernetes"]).hexdigest()
        others = hashlib.sha256(b"for a Mac").hexdigest()
        self.lists.files = {
            LISTS["kubernetes"]: f"{others}  other.tar.gz\n{sums}  {NAMES['kubernetes']}\n".encode(),
            LISTS["openstack"]: f"{hashlib.sha1(archives['openstack']).hexdigest()}  ./{NAMES['openstack']}\n".encode(),  # noqa: S324
        }

    def download(self, *providers: str) -> None:
        download_plugins(providers or tuple(NAMES), Progress(self.out))

    def found(self, provider: str = "kubernetes") -> Path | None:
        return machine.plugin(provider, major={"kubernetes": 4, "openstack": 5}[provider])

    def folders(self) -> list[str]:
        return [path.name for path in self.cache.glob("*") if path.is_dir()]

    @property
    def asked(self) -> list[str]:
        return self.lists.asked + self.archives.asked


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    found = Site(tmp_path)
    for name, value in {
        "GPU_POOLS_CACHE": str(found.cache), "PATH": "/usr/bin:/bin", "NO_PROXY": "127.0.0.1",
        "PULUMI_HOME": str(tmp_path / "home"),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(plugin_releases.VARIABLE, raising=False)
    monkeypatch.delenv(download.SWITCH, raising=False)
    monkeypatch.setattr(plugin_releases, "platform_name", lambda: "linux-x64")
    monkeypatch.setattr(plugin_releases, "ARCHIVES", found.archives.address)
    monkeypatch.setattr(plugin_releases, "LISTS", found.lists.address)
    yield found
    found.archives.close()
    found.lists.close()


def test_they_are_downloaded_once_and_found_from_then_on(site: Site) -> None:
    site.download()
    for provider in NAMES:
        program = site.found(provider)
        assert program is not None
        assert subprocess.run([program], capture_output=True, check=True).stdout == b"a plugin\n"
        assert [path.name for path in program.parent.iterdir()] == [program.name]
        assert program.parent.name.startswith(f"pulumi-resource-{provider}-v{pinned(provider)}-release-")
    asked = len(site.asked)
    assert asked == 4
    site.download()
    assert len(site.asked) == asked
    assert len(site.folders()) == 2


def test_the_hosts_are_pulumi_s_and_github_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in the release jobs of both repositories, which upload to the first and make the release at the second."""
    monkeypatch.setattr(plugin_releases, "platform_name", lambda: "linux-arm64")
    found = plugin_releases.release("openstack")
    assert found is not None
    version = pinned("openstack")
    assert found.archive == f"https://get.pulumi.com/releases/plugins/pulumi-resource-openstack-v{version}-linux-arm64.tar.gz"
    assert found.sums == (
        f"https://github.com/pulumi/pulumi-openstack/releases/download/v{version}/pulumi-openstack_{version}_checksums.txt"
    )


def test_a_machine_for_which_there_is_no_release_has_the_stand_ins(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_releases, "platform_name", lambda: "linux-riscv64")
    site.download()
    assert (site.asked, site.found()) == ([], None)
    assert not plugin_releases.cannot_be_had("kubernetes")


@pytest.mark.parametrize("provider", NAMES)
def test_an_archive_of_another_sum_is_refused_and_nothing_of_it_stays(site: Site, provider: str) -> None:
    """Both kinds of sums."""
    changed = archive(f"pulumi-resource-{provider}", "x/")
    site.archives.files[f"/{NAMES[provider]}"] = changed
    with pytest.raises(SandboxError, match=r"is not the file that http://.*checksums\.txt lists: its sha") as caught:
        site.download(provider)
    kind = {"kubernetes": "sha256", "openstack": "sha1"}[provider]
    assert hashlib.new(kind, changed).hexdigest() in caught.value.message
    assert "Nothing of it was used" in caught.value.message
    assert "GPU_POOLS_PLUGINS=no" in caught.value.remedy
    assert site.folders() == []
    assert site.found(provider) is None
    assert not plugin_releases.cannot_be_had(provider), "it is said again the next time, not passed over for a day"


def _gone(site: Site, _monkeypatch: pytest.MonkeyPatch) -> None:
    site.lists.close()


def _archives_gone(site: Site, _monkeypatch: pytest.MonkeyPatch) -> None:
    site.archives.close()


def _without_a_list(site: Site, _monkeypatch: pytest.MonkeyPatch) -> None:
    del site.lists.files[LISTS["kubernetes"]]


def _without_the_archive(site: Site, _monkeypatch: pytest.MonkeyPatch) -> None:
    site.archives.files.clear()


def _not_listed(site: Site, _monkeypatch: pytest.MonkeyPatch) -> None:
    site.lists.files[LISTS["kubernetes"]] = b"0  another.tar.gz\n"


def _listed_twice(site: Site, _monkeypatch: pytest.MonkeyPatch) -> None:
    site.lists.files[LISTS["kubernetes"]] += f"{'0' * 64}  {NAMES['kubernetes']}\n".encode()


def _no_sum(site: Site, _monkeypatch: pytest.MonkeyPatch) -> None:
    site.lists.files[LISTS["kubernetes"]] = f"<html> {NAMES['kubernetes']}\n".encode()


def _a_page_of_a_proxy(site: Site, _monkeypatch: pytest.MonkeyPatch) -> None:
    site.lists.files[LISTS["kubernetes"]] = b"<html>\xff log in first " * 20000


def _silent(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.lists.silent_seconds = 3
    monkeypatch.setattr(download, "_ANSWER_SECONDS", 0.2)


def _broken_off(site: Site, _monkeypatch: pytest.MonkeyPatch) -> None:
    site.archives.missing_bytes = 7


def _hanging(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of the archive, without a word."""
    site.archives.drip_seconds = 1.5
    monkeypatch.setattr(download, "_PIECE_SECONDS", 0.3)


def _dripping(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never silent for long, and never done."""
    site.archives.drip_seconds = 0.05
    monkeypatch.setattr(download, "_WHOLE_SECONDS", 0.5)


def _not_an_archive(site: Site, _monkeypatch: pytest.MonkeyPatch) -> None:
    site.archives.files[f"/{NAMES['kubernetes']}"] = b"no archive"
    site.lists.files[LISTS["kubernetes"]] = f"{hashlib.sha256(b'no archive').hexdigest()}  {NAMES['kubernetes']}\n".encode()


WAYS = {
    _gone: "refused",
    _archives_gone: "refused",
    _without_a_list: "Not Found",
    _without_the_archive: "Not Found",
    _not_listed: "has no sums of",
    _listed_twice: "has 2 sums of",
    _no_sum: "is of another form",
    _a_page_of_a_proxy: "more than",
    _silent: "no answer within",
    _broken_off: "broke off after",
    _hanging: "timed out",
    _dripping: "not whole within",
    _not_an_archive: "is of another form",
}


@pytest.mark.parametrize("spoil", WAYS, ids=lambda one: one.__name__)
def test_what_cannot_be_had_leaves_the_stand_in_for_a_day_and_that_is_said(
    site: Site, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Site, pytest.MonkeyPatch], None]
) -> None:
    spoil(site, monkeypatch)
    began = time.monotonic()
    site.download("kubernetes")
    assert time.monotonic() - began < scaled(2.5)
    said = site.out.getvalue()
    assert f"a stand-in plays the plugin of kubernetes {pinned('kubernetes')}, whose release cannot be had from here" in said
    assert WAYS[spoil] in said
    assert "asked again in a day" in said
    assert (site.found(), site.folders()) == (None, [])
    assert plugin_releases.cannot_be_had("kubernetes")
    asked, told = len(site.asked), len(said)
    site.download("kubernetes")
    assert (len(site.asked), len(site.out.getvalue())) == (asked, told), "asked and told once a day"


def test_after_a_day_it_is_asked_again(site: Site) -> None:
    there, site.lists.files = site.lists.files, {}
    site.download("kubernetes")
    site.lists.files = there
    (note,) = site.cache.glob(".*not-reached")
    os.utime(note, (0, 0))
    site.download("kubernetes")
    assert site.found() is not None
    assert not plugin_releases.cannot_be_had("kubernetes")
    assert list(site.cache.glob(".*not-reached")) == []


def test_one_that_cannot_be_had_does_not_hold_the_other_up(site: Site) -> None:
    del site.lists.files[LISTS["openstack"]]
    site.download()
    assert site.found("kubernetes") is not None
    assert site.found("openstack") is None


@pytest.mark.parametrize(
    ("name", "value"), [("GPU_POOLS_DOWNLOADS", "no"), ("GPU_POOLS_PLUGINS", "no"), ("GPU_POOLS_PLUGINS", "found")]
)
def test_whoever_wants_none_downloads_none(site: Site, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    site.download()
    assert (site.asked, site.found(), site.out.getvalue()) == ([], None, "")


def test_the_stand_in_plays_where_that_is_asked_for_and_no_other_word_is_taken(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.download()
    monkeypatch.setenv("GPU_POOLS_PLUGINS", "found")
    assert site.found() is not None
    monkeypatch.setenv("GPU_POOLS_PLUGINS", "no")
    assert site.found() is None
    monkeypatch.setenv("GPU_POOLS_PLUGINS", "real")
    with pytest.raises(SandboxError, match="GPU_POOLS_PLUGINS=real: is not one of no, found"):
        site.found()


def test_one_that_is_on_this_machine_is_not_downloaded(site: Site, tmp_path: Path) -> None:
    installed = tmp_path / "home" / "plugins" / "resource-kubernetes-v4.30.0" / "pulumi-resource-kubernetes"
    installed.parent.mkdir(parents=True)
    installed.touch()
    site.download("kubernetes")
    assert (site.found(), site.asked) == (installed, [])


def test_a_list_is_followed_over_tls_only() -> None:
    """A redirection from https to http could be anybody's; one from http, as here, to http is followed."""
    follows = download._NoStepDown()
    asked = download.urllib.request.Request("https://github.com/a")
    with pytest.raises(OSError, match="which is not https"):
        follows.redirect_request(asked, None, 302, "Found", {}, "http://elsewhere.example/a")
    kept = follows.redirect_request(asked, None, 302, "Found", {}, "https://elsewhere.example/a")
    assert kept is not None
    assert kept.full_url == "https://elsewhere.example/a"


def test_the_list_is_followed_where_github_sends_it_on_to(site: Site) -> None:
    path = LISTS["kubernetes"]
    site.lists.files["/elsewhere"] = site.lists.files.pop(path)
    site.lists.moved[path] = f"{site.lists.address}/elsewhere"
    site.download("kubernetes")
    assert site.found() is not None


SCRIPT = """
import sys
from sandbox.system.progress import Progress
from sandbox.toolchain import plugin_releases
from sandbox.toolchain.find import download_plugins
plugin_releases.ARCHIVES, plugin_releases.LISTS = sys.argv[1:]
plugin_releases.platform_name = lambda: "linux-x64"
download_plugins(["kubernetes"], Progress())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_is_interrupted_half_way_leaves_nothing_half_written(site: Site, number: signal.Signals) -> None:
    site.archives.drip_seconds = 0.02
    command = [sys.executable, "-c", SCRIPT, site.archives.address, site.lists.address]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        end = Patience(20)
        while not site.archives.asked and not end.is_over():
            time.sleep(0.02)
        time.sleep(0.2)
        process.send_signal(number)
        assert process.wait(timeout=scaled(20)) != 0
    assert site.found() is None
    assert not plugin_releases.cannot_be_had("kubernetes"), "who interrupts it has not found it out of reach"
    site.archives.drip_seconds = 0
    site.download("kubernetes")
    assert site.found() is not None
    assert len(site.folders()) == 1, "what a kill has left is cleared away"


def test_the_list_of_platforms_is_of_machines_that_programs_are_made_for() -> None:
    assert set(plugin_releases._PLATFORMS) == {releases._X64, releases._ARM64}
