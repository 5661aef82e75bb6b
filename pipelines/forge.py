"""What comments and jobs need of a forge, and how it is asked: answers bounded in size, a token for its own host only.

Neither GitHub nor GitLab is known here; github.py and gitlab.py know one each.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import lzma
import re
import struct
import urllib.error
import urllib.request
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from gpu_pools.verifier.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: Of an answer in JSON, and of a stack file.
MOST_ANSWER: Final = 4 << 20
#: Of the events of a preview, and of the running pods: the recorded ones have a few hundred KiB.
MOST_DATA: Final = 16 << 20
#: Entries of a list that is read page by page.
PAGE: Final = 100
#: How what a preview leaves begins to be called, before its stack; as the workflows name it.
PREVIEW: Final = "preview-"
_MOST_PAGES: Final = 30
#: For all of a request, from the connection to the last byte of the answer.
_SECONDS: Final = 60
COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_NOT_THERE: Final = 404


#: What forges make artifacts with; others may ask for gigabytes of memory before they have read anything.
_COMPRESSIONS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: What a zip that somebody has made or broken raises, as it is opened and as it is read: each of its compressions has its own.
_BROKEN: Final = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(OSError, EOFError, RuntimeError, ValueError, LookupError, TypeError, ArithmeticError, MemoryError),
)


class ForgeError(Exception):
    """The forge did not answer as it should, or what it has is not what may be taken."""


class NotThereError(ForgeError):
    """The forge has no such thing."""


@dataclass(frozen=True)
class Note:
    """A comment of a pull request; `own`: this very identity wrote it."""

    id: int
    own: bool
    text: str


@dataclass(frozen=True)
class Request:
    """A pull request, or a merge request, whose previews have run.

    Attributes:
        number: of the request.
        head: the commit that was previewed; the newest of the request.
        previews: what its jobs left, by what they say is the stack; each is read, bounded, when it is called.
    """

    number: int
    head: str
    previews: Mapping[str, Callable[[], bytes]]


@dataclass(frozen=True)
class Deployed:
    """What the last deploy of a stack left: its commit, and the pods that ran then (None: it told none)."""

    commit: str
    pods: bytes | None

    def __post_init__(self) -> None:
        """It is an artifact, and ends in commands and addresses."""
        if not COMMIT.fullmatch(self.commit):
            message = "what the last deploy left names no commit"
            raise ForgeError(message)


class Forge(Protocol):
    """What is needed of one."""

    @property
    def branch(self) -> str:
        """The default branch."""

    def requests(self) -> Iterator[Request]:
        """Those to comment on."""

    def file(self, path: str, commit: str) -> bytes:
        """A file of the repository, or of a fork with an open request.

        Raises:
            NotThereError: if there is none.
        """

    def notes(self, number: int) -> list[Note]:
        """The comments of a request, oldest first."""

    def write(self, number: int, note: int | None, text: str) -> None:
        """Replace a comment; None: add one."""

    def deployed(self, stack: str, is_reviewed: Callable[[str], bool]) -> Deployed | None:
        """What the base branch's own deploy left; None: nothing was deployed yet.

        Args:
            stack: its name.
            is_reviewed: whether a commit is one of the base branch.
        """

    def unprotected(self, environment: str, *, reviewed: bool) -> str:
        """Why others than the base branch may get at an environment, or nobody reviews it; ``""``: it is protected."""


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows nothing by itself: it would take the token along."""

    def redirect_request(self, *_: object) -> None:
        """No other request."""


@dataclass(frozen=True)
class Client:
    """Asks one host.

    Attributes:
        base: the address of its API.
        headers: with the token; sent to that host alone.
    """

    base: str
    headers: Mapping[str, str] = field(repr=False)

    def get(self, path: str, *, most: int = MOST_ANSWER, accept: str = "application/json") -> bytes:
        """The answer.

        Raises:
            ForgeError: if there is none, or a longer one.
        """
        try:
            return self._bounded(self._request("GET", path, {"Accept": accept}), most)
        except urllib.error.HTTPError as error:
            if error.code in _REDIRECTS:
                # To a store of its own, which is given a signed address and wants no token.
                return self._elsewhere(str(error.headers.get("Location")), most)
            raise _refused(path, error) from None

    def json(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """The answer, parsed."""
        return _parsed(path, self.get(path))

    def pages(self, path: str) -> Iterator[Any]:
        """The entries of a list; it ends after the first pages of an endless one."""
        joint = "&" if "?" in path else "?"
        for number in range(1, _MOST_PAGES + 1):
            entries = self.json(f"{path}{joint}per_page={PAGE}&page={number}")
            if not isinstance(entries, list):
                message = f"{path}: no list"
                raise ForgeError(message)
            yield from entries
            if len(entries) < PAGE:
                return

    def send(self, method: str, path: str, document: Mapping[str, Any]) -> None:
        """Write something."""
        written = {"Content-Type": "application/json", "Accept": "application/json"}
        request = self._request(method, path, written, json.dumps(document).encode())
        try:
            self._bounded(request, MOST_ANSWER)
        except urllib.error.HTTPError as error:
            raise _refused(path, error) from None

    def _request(self, method: str, path: str, headers: Mapping[str, str], data: bytes | None = None) -> urllib.request.Request:
        address = f"{self.base.rstrip('/')}/{path}"
        return urllib.request.Request(address, data, {**self.headers, **headers}, method=method)  # noqa: S310 - the forge's own

    def _elsewhere(self, address: str, most: int) -> bytes:
        if not address.startswith(("https://", f"{self.base.rstrip('/')}/")):
            message = "a redirection to no address of https"
            raise ForgeError(message)
        try:
            return self._bounded(urllib.request.Request(address), most)  # noqa: S310 - https, or the forge itself
        except urllib.error.HTTPError as error:
            raise _refused("a redirection", error) from None

    @staticmethod
    def _bounded(request: urllib.request.Request, most: int) -> bytes:
        try:
            with Deadline(_SECONDS) as deadline, _opened(request, deadline) as answer:
                found: bytes = answer.read(most + 1)
                deadline.check()
        except urllib.error.HTTPError:
            raise
        except (OSError, http.client.HTTPException) as error:
            message = f"the forge does not answer: {error}"
            raise ForgeError(message) from None
        if len(found) > most:
            message = f"an answer of more than {most} bytes"
            raise ForgeError(message)
        return found


def _opened(request: urllib.request.Request, deadline: Deadline) -> http.client.HTTPResponse:
    opener = urllib.request.build_opener(_Stay, *deadline.handlers())
    answer: http.client.HTTPResponse = opener.open(request, timeout=deadline.left())
    return answer


@contextlib.contextmanager
def shaped(what: str) -> Iterator[None]:
    """Read an answer: where it has another form than the forge documents, that is said.

    Args:
        what: was asked.

    Raises:
        ForgeError: where it has.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        message = f"{what}: the forge's answer has another form than it documents ({type(error).__name__})"
        raise ForgeError(message) from None


def _refused(path: str, error: urllib.error.HTTPError) -> ForgeError:
    kind = NotThereError if error.code == _NOT_THERE else ForgeError
    return kind(f"{path}: the forge answers {error.code}")


def _parsed(path: str, text: bytes) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        message = f"{path}: no JSON"
        raise ForgeError(message) from None


def unpacked(archive: bytes, name: str, most: int) -> bytes:
    """One file of a zip that anybody may have made: by its exact name, and no more of it than may be.

    Raises:
        NotThereError: if it has none of that name.
        ForgeError: if it is not a zip, or the file is larger.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            if packed.getinfo(name).compress_type not in _COMPRESSIONS:
                message = f"{name} in the artifact is compressed in a way that no forge uses"
                raise ForgeError(message)
            with packed.open(name) as file:
                # What the zip says of its size is not believed.
                found = file.read(most + 1)
    except KeyError:
        message = f"the artifact has no {name}"
        raise NotThereError(message) from None
    except _BROKEN:
        message = "the artifact is not a zip"
        raise ForgeError(message) from None
    if len(found) > most:
        message = f"{name} in the artifact has more than {most} bytes"
        raise ForgeError(message)
    return found
