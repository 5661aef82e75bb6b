"""A server that sends a byte a second: no time limit of a single read ends that, and each client ends all the same.

The server drips from the line of its status on, in the head, in the body, in the body of an error, or before TLS is spoken.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
import urllib.request
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.components.aks import session as azure_session
from gpu_pools.components.aks.session import Session, UnreadError
from gpu_pools.verifier import api as verifier_api
from gpu_pools.verifier.api import Api, ApiError
from gpu_pools.verifier.deadline import Deadline
from pipelines import forge
from pipelines.forge import ForgeError
from sandbox.system.pki import make_pki

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sandbox.system.pki import Pki

#: Longer than a byte takes, so that no read is too slow.
SECONDS: Final = 1.5
BYTE_SECONDS: Final = 1.0
#: What a client may take beyond its time, on a busy machine.
SLACK: Final = 2.0
HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
#: What comes at once, and what comes a byte a second.
DRIPS: Final = {
    "status": (b"", HEAD + b"{}"),
    "head": (b"HTTP/1.1 200 OK\r\n", b"X-Long: " + b"a" * 60 + b"\r\n\r\n{}"),
    "body": (HEAD, b"{" + b" " * 60 + b"}"),
    "measured body": (HEAD.replace(b"\r\n\r\n", b"\r\nContent-Length: 62\r\n\r\n"), b"{" + b" " * 60 + b"}"),
    "error": (HEAD.replace(b"200 OK", b"403 Forbidden"), b'{"message": "' + b"m" * 60 + b'"}'),
}


class Dripping:
    """Answers every connection with something at once, and the rest a byte a second."""

    def __init__(self, drips: tuple[bytes, bytes], context: ssl.SSLContext | None, *, silent: bool = False) -> None:
        self._drips, self._context, self._silent = drips, context, silent
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def address(self) -> str:
        return f"{'https' if self._context or self._silent else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._ended.set()
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _answer(self, bare: socket.socket) -> None:
        at_once, slowly = self._drips
        with contextlib.suppress(OSError), bare:
            line = self._context.wrap_socket(bare, server_side=True) if self._context else bare
            line.recv(65536)
            line.sendall(at_once)
            for byte in slowly:
                line.sendall(bytes([byte]))
                if self._ended.wait(BYTE_SECONDS):
                    return


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("pki"), "127.0.0.1")


@contextlib.contextmanager
def dripping(what: str, pki: Pki | None) -> Iterator[str]:
    """The address of such a server; without a pki it speaks no TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if pki and what != "handshake" else None
    if pki and context:
        context.load_cert_chain(pki["apiserver.crt"], pki["apiserver.key"])
    # Of a handshake: the beginning of a record of 16,384 bytes.
    drips = (b"\x16\x03\x03\x40\x00", b"\x02" * 60) if what == "handshake" else DRIPS[what]
    server = Dripping(drips, context, silent=what == "handshake")
    try:
        yield server.address
    finally:
        server.close()


@contextlib.contextmanager
def ends_in_time() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert SECONDS / 2 < time.monotonic() - began < SECONDS + SLACK


@pytest.mark.parametrize("what", [*DRIPS, "handshake"])
def test_the_verifier_s_client_ends(what: str, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier_api, "_SECONDS", SECONDS)
    (tmp_path / "token").write_text("secret")
    with dripping(what, pki) as address, ends_in_time():
        with pytest.raises(ApiError) as refused:
            Api(address, tmp_path / "token", pki["ca.crt"]).get("/version")
        assert refused.value.status == (403 if what == "error" else None)
        assert what == "error" or "no whole answer within 1.5 s" in refused.value.message


def test_a_watch_ends(pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier_api, "_STREAM_SLACK_SECONDS", SECONDS)
    (tmp_path / "token").write_text("secret")
    with dripping("body", pki) as address, ends_in_time(), pytest.raises(ApiError, match="no whole answer"):
        list(Api(address, tmp_path / "token", pki["ca.crt"]).watch("/api/v1/nodes", 0))


@pytest.mark.parametrize("what", [one for one in DRIPS if one != "error"])
def test_the_forge_s_client_ends(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forge, "_SECONDS", SECONDS)
    with dripping(what, None) as address, ends_in_time(), pytest.raises(ForgeError, match="no whole answer within"):
        forge.Client(address, {}).get("repos")


@pytest.mark.parametrize("what", [*DRIPS, "handshake"])
def test_the_check_of_azure_ends(what: str, pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_session, "_SECONDS", SECONDS)
    monkeypatch.setenv("SSL_CERT_FILE", str(pki["ca.crt"]))
    says = "Azure answers 403" if what == "error" else "no whole answer within"
    with dripping(what, pki) as address, ends_in_time(), pytest.raises(UnreadError, match=says):
        Session(address, "s", "token").get("/subscriptions", "2022-12-01")


def test_an_answer_in_time_is_taken_and_nothing_is_left_behind() -> None:
    before = threading.active_count()
    server = Dripping((HEAD + b"{}", b""), None)
    with Deadline(30) as deadline:
        opener = urllib.request.build_opener(*deadline.handlers())
        with opener.open(server.address, timeout=deadline.left()) as answer:
            assert answer.read() == b"{}"
        deadline.check()
    server.close()
    time.sleep(0.1)
    assert threading.active_count() <= before + 1


def test_what_is_no_fault_of_the_time_stays_what_it_is() -> None:
    def refuse() -> Any:
        with Deadline(30) as deadline:
            urllib.request.build_opener(*deadline.handlers()).open("http://127.0.0.1:1", timeout=deadline.left())

    with pytest.raises(urllib.error.URLError, match="refused"):
        refuse()
