"""Files are whole, private and locked; progress tells what runs; certificates pass a strict check."""

from __future__ import annotations

import io
import re
import ssl
import threading
import time
from typing import TYPE_CHECKING

import pytest
from cryptography import x509

from sandbox.system.errors import SandboxError
from sandbox.system.files import locked, read_json, write_atomic, write_json
from sandbox.system.pki import make_pki
from sandbox.system.progress import Progress, elapsed

if TYPE_CHECKING:
    from pathlib import Path


def test_a_written_file_is_private_and_leaves_no_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "secret"
    write_atomic(path, "one")
    write_atomic(path, "two")
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_json_goes_there_and_back_and_a_missing_file_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert read_json(path) == {}
    write_json(path, {"b": [1, 2]})
    assert read_json(path) == {"b": [1, 2]}


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_a_damaged_file_is_an_error_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(SandboxError, match=r"a\.json") as caught:
        read_json(path)
    assert "make clean" in caught.value.remedy


def test_a_place_that_cannot_be_written_names_the_variables(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxError, match="cannot create it") as caught:
        write_atomic(tmp_path / "file" / "below", "text")
    assert "GPU_POOLS_SANDBOX_DIR" in caught.value.remedy


def test_a_lock_keeps_the_second_waiting(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with locked(tmp_path / "thing"):
            order.append("second")

    with locked(tmp_path / "thing"):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_step_is_one_line_with_its_time() -> None:
    out = io.StringIO()
    with Progress(out).step("Building it"):
        pass
    assert re.fullmatch(r"• Building it … done in \d\.\d s\n", out.getvalue())


def test_a_long_step_shows_signs_of_life() -> None:
    out = io.StringIO()
    with Progress(out, heartbeat=0.01).step("Building it"):
        time.sleep(0.05)
    assert "0 s …" in out.getvalue()


def test_a_long_step_says_what_it_waits_for() -> None:
    out = io.StringIO()
    with Progress(out, heartbeat=0.01).step("Waiting", lambda: ["node a: driver", "node b: driver"]):
        time.sleep(0.05)
    lines = out.getvalue().splitlines()
    assert lines[:3] == ["• Waiting … 0 s … ", "    node a: driver", "    node b: driver"]
    assert lines[-1].startswith("• Waiting … ")


class Watched(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_a_step_of_minutes_is_one_line_that_is_redrawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    out = Watched()
    with Progress(out, heartbeat=0.1).long_step("Building it", lambda: "about 5 min left: one; then another one"):
        time.sleep(0.1)
    drawn, _, last = out.getvalue().rpartition("\x1b[K")
    assert drawn.count("\n") == 0
    assert re.fullmatch(r"• Building it: \d\.\d s, about 5 min left…\x1b\[G\x1b\[G", drawn.split("\x1b[K")[1])
    assert re.fullmatch(r"• Building it … done in \d\.\d s\n", last)


@pytest.mark.parametrize("where", ["log", "dumb terminal", "shared terminal"])
def test_a_step_of_minutes_is_a_line_a_minute_elsewhere(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Two commands that redraw one line of the same terminal would take it away from each other."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb" if where == "dumb terminal" else "xterm")
    out = io.StringIO() if where == "log" else Watched()
    progress = Progress(out, heartbeat=0.02, shared_terminal=where == "shared terminal")
    with progress.long_step("Building it", lambda: "about 5 min left"):
        time.sleep(0.4)
        progress.note("by the way")
    first, *between, last = out.getvalue().replace("\x1b[K", "").splitlines()
    assert first == "• Building it …"
    assert re.fullmatch(r"• Building it … done in \d\.\d s", last)
    states = [line for line in between if re.fullmatch(r"• Building it: \d\.\d s, about 5 min left", line)]
    assert states
    assert len(states) <= 10 * float(last.split()[-2]), "one a minute, where a minute is 0.12 s; redrawn it would be 500 a second"
    assert set(between) - set(states) == {"• by the way"}


def test_a_step_of_minutes_that_says_nothing_of_itself_shows_its_time() -> None:
    def fail() -> None:
        time.sleep(0.2)
        raise KeyError

    out = io.StringIO()
    with pytest.raises(KeyError), Progress(out, heartbeat=0.01).long_step("Installing it"):
        fail()
    lines = out.getvalue().splitlines()
    assert re.fullmatch(r"• Installing it: 0\.\d s", lines[1])
    assert re.fullmatch(r"• Installing it … failed after 0\.\d s", lines[-1])


def test_times_in_words() -> None:
    assert [elapsed(seconds) for seconds in (0, 59.9, 60, 192.7, 3600)] == [
        "0.0 s",
        "59.9 s",
        "1 min 0 s",
        "3 min 12 s",
        "60 min 0 s",
    ]


def test_a_failed_step_says_so_and_steps_may_nest() -> None:
    out = io.StringIO()
    progress = Progress(out)
    with pytest.raises(KeyError), progress.step("outer"), progress.step("inner"):
        raise KeyError
    lines = ["• outer … ", "• inner … failed after 0.0 s", "• outer … failed after 0.0 s"]
    assert re.sub(r"\d\.\d s$", "0.0 s", out.getvalue(), flags=re.MULTILINE).splitlines() == lines


def test_keys_are_private_and_made_once(tmp_path: Path) -> None:
    pki = make_pki(tmp_path / "pki", "10.0.0.1")
    assert {path.stat().st_mode & 0o777 for path in pki.folder.iterdir()} == {0o600}
    before = pki.text("ca.crt")
    assert make_pki(tmp_path / "pki", "10.0.0.1").text("ca.crt") == before


def test_the_servers_certificate_names_loopback_and_strict_verifiers_find_the_key_ids(tmp_path: Path) -> None:
    pki = make_pki(tmp_path / "pki", "10.0.0.1")
    ssl.create_default_context(cafile=str(pki["ca.crt"])).load_cert_chain(pki["admin.crt"], pki["admin.key"])
    certificate = x509.load_pem_x509_certificate(pki["apiserver.crt"].read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"127.0.0.1", "10.0.0.1"} == {str(ip) for ip in names.get_values_for_type(x509.IPAddress)}
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)
    assert certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)


def test_the_clusters_authority_does_not_open_etcd(tmp_path: Path) -> None:
    pki = make_pki(tmp_path / "pki", "10.0.0.1")
    admin = x509.load_pem_x509_certificate(pki["admin.crt"].read_bytes())
    storage = x509.load_pem_x509_certificate(pki["etcd-ca.crt"].read_bytes())
    with pytest.raises(ValueError, match="Issuer"):
        admin.verify_directly_issued_by(storage)
