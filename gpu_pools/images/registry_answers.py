"""What a registry's answers mean: whether an image is there, what its digest is, for which platforms it is. Only judging.

What comes is somebody else's: every field may be of any type, missing or a lie. What cannot be understood is not checked, and
says so; nothing of a registry's own words is passed on but digests and platforms, which are held to their form.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Verdict = Literal["there", "absent", "other", "unchecked"]

_INDEXES: Final = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS: Final = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
MANIFEST_TYPES: Final = (*_INDEXES, *_MANIFESTS)
#: The codes of the specification for what is not there; whoever must log in is answered otherwise.
_NOT_THERE: Final = frozenset({"MANIFEST_UNKNOWN", "NAME_UNKNOWN"})
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_WORD: Final = re.compile(r"[a-z0-9_.-]{1,32}")
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_PARAMETER: Final = re.compile(r'([A-Za-z]{1,32})="([\x20\x21\x23-\x7e]{0,2048})"')


class UnaskedError(Exception):
    """The registry did not say it; the text is why."""


@dataclass(frozen=True)
class Answer:
    """An answer of a registry.

    Attributes:
        status: HTTP's.
        headers: name in small letters -> value.
        body: all of it.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str:
        """A header; empty where there is none."""
        return self.headers.get(name, "")


@dataclass(frozen=True)
class Said:
    """What is known of an image.

    Attributes:
        verdict: it is there; it is not; its content is not what its digest says; nobody could tell.
        why: in words, where it is not simply there.
        digest: of the manifest that the name stands for now; empty where it was not read.
        platforms: such as linux/amd64; empty where it was not read.
        config: digest of the only platform's description, which is a document of its own.
    """

    verdict: Verdict
    why: str = ""
    digest: str = ""
    platforms: frozenset[str] = frozenset()
    config: str = ""


def is_absent(answer: Answer) -> bool:
    """Whether an image is not there.

    Raises:
        UnaskedError: the registry says neither.
    """
    if answer.status == HTTPStatus.OK:
        return False
    if answer.status == HTTPStatus.NOT_FOUND and _codes(answer.body) & _NOT_THERE:
        return True
    if answer.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise UnaskedError("its registry shows it only to those who log in")
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        raise UnaskedError("its registry has been asked too often from here")
    raise UnaskedError(f"its registry answers {answer.status}")


def challenge(answer: Answer, server: str) -> tuple[str, str]:
    """(realm, service) where a token is to be had.

    Raises:
        UnaskedError: it is no such challenge.
    """
    scheme, _, rest = answer.header("www-authenticate").partition(" ")
    given = dict(_PARAMETER.findall(rest))
    if scheme.lower() != "bearer" or "realm" not in given:
        raise UnaskedError(f"{server} shows it only to those who log in")
    return given["realm"], given.get("service", "")


def token_of(answer: Answer, server: str) -> str:
    """The token that a realm gives to anybody.

    Raises:
        UnaskedError: there is none.
    """
    said = _document(answer.body) if answer.status == HTTPStatus.OK else {}
    token = said.get("token") or said.get("access_token")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise UnaskedError(f"{server} gives no token to those who do not log in")
    return token


def content(answer: Answer, wanted: str) -> Said:
    """What a manifest says, held against the digest by which it was asked for, or else the one that the registry names.

    Raises:
        UnaskedError: it is not a manifest.
    """
    expected = wanted or answer.header("docker-content-digest")
    found = _digest(answer.body, like=expected)
    if expected and expected != found:
        return Said("other", f"the content that its registry gives for {expected[:80]} has the digest {found}", found)
    document = _document(answer.body)
    # The name of a type is optional in OCI's documents; what is in them is not.
    if isinstance(document.get("manifests"), list):
        return Said("there", digest=found, platforms=frozenset(_platforms(document["manifests"])))
    config = document.get("config")
    described = config.get("digest") if isinstance(config, dict) else None
    if not isinstance(described, str) or not _DIGEST.fullmatch(described):
        raise UnaskedError("what its registry answers is not a manifest of an image")
    return Said("there", digest=found, config=described)


def parts(answer: Answer, wanted: str) -> frozenset[str]:
    """The platform in an image's description; none where it cannot be read or is another document."""
    if answer.status != HTTPStatus.OK or _digest(answer.body, like=wanted) != wanted:
        return frozenset()
    return frozenset(_platforms([{"platform": _document(answer.body)}]))


def _platforms(manifests: list[Any]) -> Iterator[str]:
    for one in manifests:
        platform = one.get("platform") if isinstance(one, dict) else None
        words = [str(platform.get(key)) for key in ("os", "architecture")] if isinstance(platform, dict) else []
        # Signatures and statements about an image are there as of an unknown platform.
        if words and "unknown" not in words and all(map(_WORD.fullmatch, words)):
            yield "/".join(words)


def _digest(body: bytes, *, like: str) -> str:
    algorithm = "sha512" if like.startswith("sha512:") else "sha256"
    return f"{algorithm}:{hashlib.new(algorithm, body).hexdigest()}"


def _codes(body: bytes) -> set[str]:
    try:
        errors = _document(body).get("errors")
    except UnaskedError:
        return set()
    return {str(one.get("code")) for one in errors if isinstance(one, dict)} if isinstance(errors, list) else set()


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise UnaskedError("what its registry answers is not a JSON object")
    return document
