"""What the name of a container image says: which registry is asked, for what, and whether it can name another image tomorrow.

The grammar is that of distribution/reference v0.6.0, by which kubelets and container runtimes read it (``regexp.go``,
``normalize.go``): without a registry an image is of docker.io, and there without a folder of ``library/``. Only reading: who asks
a registry is gpu_pools/images/registry.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST: Final = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?::[0-9]{{1,5}})?"
_PART: Final = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_NAME: Final = re.compile(
    rf"(?:(?P<host>{_HOST})/)?(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}))?",
    re.ASCII,
)
_HUB: Final = "docker.io"
#: Where Docker Hub serves what it calls docker.io.
_HUB_SERVER: Final = "registry-1.docker.io"
_LONGEST: Final = 255
#: What a runtime pulls where nothing else is named.
_LATEST: Final = "latest"


@dataclass(frozen=True)
class ImageName:
    """The name of an image.

    Attributes:
        registry: host, and its port where one is named.
        repository: below it.
        tag: empty where none is written.
        digest: empty where none is written; with it the tag says nothing.
    """

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def pinned(self) -> bool:
        """Whether it can name no other image."""
        return bool(self.digest)

    @property
    def reference(self) -> str:
        """What a registry is asked for."""
        return self.digest or self.tag or _LATEST

    @property
    def server(self) -> str:
        """Who is asked."""
        return _HUB_SERVER if self.registry == _HUB else self.registry


def read_image_name(text: str) -> ImageName | None:
    """What a name says; None where no runtime could read it."""
    host, slash, rest = text.partition("/")
    named = slash and (any(sign in host for sign in ".:[") or host == "localhost" or host != host.lower())
    if named and host == "index.docker.io":
        text, host = f"{_HUB}/{rest}", _HUB
    match = _NAME.fullmatch(text if named else f"{_HUB}/{text}")
    if match is None or len(match["path"]) > _LONGEST:
        return None
    registry, path = match["host"] or _HUB, match["path"]
    if registry == _HUB and "/" not in path:
        path = f"library/{path}"
    return ImageName(registry, path, match["tag"] or "", match["digest"] or "")


def by_digest(text: str, digest: str) -> str:
    """The name as it was written, with that digest; its tag stays, for people."""
    return f"{text.partition('@')[0]}@{digest}"
