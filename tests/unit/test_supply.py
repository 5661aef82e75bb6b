"""What is installed and fetched has its sum in the repository."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from sandbox.toolchain.packages import HASHES

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)", re.MULTILINE)
SHA256 = re.compile(r"--hash=sha256:[0-9a-f]{64}")
#: Where packages and programs come from is who installs them to say.
HOSTS = re.compile(r"https?://|index-url|find-links|trusted-host")


def _pins(*names: str) -> dict[str, str]:
    """Package -> version, in names that can be compared (PEP 503)."""
    found = [one for name in names for one in PINNED.findall((ROOT / name).read_text(encoding="utf-8"))]
    return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in found}


def _entries(name: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_hashes_are_of_exactly_what_is_pinned() -> None:
    """In neither file is a package, or a version, that the other has not: run .ci/hashes."""
    assert _pins("hashes.txt") == _pins("constraints.txt", "requirements.txt", "requirements-dev.txt")
    assert _pins("sandbox/openstack/hashes.txt") == _pins("sandbox/openstack/requirements.txt")


def test_every_package_has_the_hash_of_each_of_its_files() -> None:
    for name in ("hashes.txt", "sandbox/openstack/hashes.txt", ".ci/hashes.requirements.txt"):
        entries = _entries(name)
        assert entries
        for entry in entries:
            assert PINNED.match(entry), entry
            assert SHA256.search(entry), entry
            assert not HOSTS.search(entry), entry


def test_packages_with_wheels_of_several_platforms_have_hashes_of_several() -> None:
    """So that `make venv` works on each: not only the files of the machine that made the list."""
    hashes = {PINNED.match(entry)[1]: len(SHA256.findall(entry)) for entry in _entries("hashes.txt")}  # type: ignore[index]
    assert all(hashes[name] > 10 for name in ("grpcio", "cryptography", "ruff", "pyyaml", "aiohttp"))


def test_the_environment_is_made_by_hash_and_by_nothing_else() -> None:
    assert "pip install" not in (ROOT / "Makefile").read_text(encoding="utf-8")
    text = (ROOT / "sandbox" / "toolchain" / "packages.py").read_text(encoding="utf-8")
    installs = [line for line in text.splitlines() if '"pip", "install"' in line]
    assert len(installs) == 1
    assert '"--require-hashes", "-r", str(hashes)' in installs[0]
    assert HASHES == ROOT / "hashes.txt"
    assert '"--require-hashes"' in (ROOT / "sandbox" / "openstack" / "environment.py").read_text(encoding="utf-8")


def test_an_older_or_newer_file_of_a_package_is_refused(tmp_path: Path) -> None:
    """An index gives another file under the pinned version: pip compares before it unpacks."""
    (tmp_path / "iniconfig-2.3.1-py3-none-any.whl").write_bytes(b"evil")
    listed = next(entry for entry in _entries("hashes.txt") if entry.startswith("iniconfig=="))
    (tmp_path / "hashes.txt").write_text(listed)
    command = [sys.executable, "-m", "pip", "download", "--no-index", "--find-links", tmp_path, "--no-deps", "--require-hashes"]
    done = subprocess.run(
        [*command, "--dest", tmp_path / "got", "-r", tmp_path / "hashes.txt"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
