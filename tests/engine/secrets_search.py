"""Finds a sandbox's secrets where they must not be: raw, in base64 at any offset, in base64 of base64.

What is searched for is the middle of each secret, so that line breaks, escapes and what stands around it cannot hide it.
"""

from __future__ import annotations

import base64
import textwrap
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from sandbox.system.files import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.engine.trial import Trial

_GZIP = b"\x1f\x8b"
_LONGEST = 48
_OFFSETS = 3
_SHORTEST_LINE = 40
_WORDS = {"client-key-data", "client-certificate-data", "token", "password"}


@dataclass(frozen=True)
class Needle:
    """A piece of a secret."""

    what: str
    bytes: bytes


def needles(trial: Trial) -> list[Needle]:
    """Pieces of the passphrase, of OpenStack's passwords, of every private key and of every kubeconfig's credentials."""
    # Lines of certificates that only name the authority are everybody's.
    public = b"".join((folder / "pki/ca.crt").read_bytes() for folder in trial.clusters)
    known = {(what, secret) for what, secret in _secrets(trial) if _middle(secret) not in public}
    return [Needle(what, form) for what, secret in known for form in {*_forms(secret)}]


def found(texts: Iterable[tuple[str, bytes]], wanted: Iterable[Needle]) -> list[str]:
    """Where secrets stand: ``place: what``, each once."""
    known = tuple(wanted)
    return sorted({f"{place}: {needle.what}" for place, text in texts for needle in known if needle.bytes in text})


def contents(path: Path) -> bytes:
    """What a file says: some logs of the engine are compressed (others are encrypted with the passphrase)."""
    raw = path.read_bytes()
    if not raw.startswith(_GZIP):
        return raw
    text, rest = b"", raw
    while rest.startswith(_GZIP):
        unpacker = zlib.decompressobj(wbits=31)
        text += unpacker.decompress(rest)
        rest = unpacker.unused_data
    return text


def keepers(trial: Trial) -> set[Path]:
    """The files whose purpose is to hold a secret."""
    keys = {path for folder in trial.clusters for path in (folder / "pki").iterdir()}
    own = ("passwords.json", "credential.json", "magnum.conf")
    openstack = {path for name in own if (path := trial.sandbox.openstack / name).exists()}
    return {trial.sandbox.passphrase, *keys, *(folder / "kubeconfig" for folder in trial.clusters), *openstack}


def _secrets(trial: Trial) -> Iterator[tuple[str, str]]:
    yield "passphrase", trial.sandbox.passphrase.read_text().strip()
    yield from ((f"password {who}", password) for who, password in read_json(trial.sandbox.openstack / "passwords.json").items())
    credential = read_json(trial.sandbox.openstack / "credential.json")
    yield from (("application credential", secret) for key, secret in credential.items() if key == "secret")
    for folder in trial.clusters:
        for key in (folder / "pki").glob("*.key"):
            lines = [line for line in key.read_text().splitlines() if not line.startswith("-") and len(line) > _SHORTEST_LINE]
            yield from ((f"pki/{key.name}", line) for line in lines)
        for user in yaml.safe_load((folder / "kubeconfig").read_text())["users"]:
            for word in _WORDS & user["user"].keys():
                value = user["user"][word]
                yield f"kubeconfig {word}", value
                if word.endswith("-data"):
                    pem = base64.b64decode(value).decode()
                    lines = [line for line in pem.splitlines() if not line.startswith("-") and len(line) > _SHORTEST_LINE]
                    yield from ((f"kubeconfig {word}", line) for line in lines)


def _forms(secret: str) -> Iterator[bytes]:
    """The secret as it may be written, itself and wrapped in base64 whatever stands before it."""
    piece = _middle(secret)
    yield piece
    for offset in range(_OFFSETS):
        # The first and the last group of four also hold what stands around the piece.
        yield base64.b64encode(b"\0" * offset + piece).rstrip(b"=")[4:-4]


def _middle(secret: str) -> bytes:
    return textwrap.wrap(secret, _LONGEST)[len(secret) // _LONGEST // 2].encode()
