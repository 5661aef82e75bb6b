"""Downloads a release: whole, of the sums that stand in this repository or in a list at another host, or not at all.

Where there is no way to its host it says so within seconds. Redirections are followed, to any host: what counts is the sum. A
list of sums has none itself, so it is not followed to where TLS does not say who gives it out. Only the named files are taken, so
that nothing in an archive decides where anything is written.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import queue
import shutil
import string
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from gpu_pools.images.registry_answers import Answer, UnaskedError, challenge, token_of
from sandbox.system.errors import SandboxError
from sandbox.system.files import explained
from sandbox.toolchain.releases import Archive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sandbox.toolchain.releases import Image, ImageSteps, ListedArchive, Release

#: Until a host answers, its name looked up and all redirections followed; and then for each piece of the answer.
_ANSWER_SECONDS: Final = 6.0
_PIECE_SECONDS: Final = 20.0
#: For a whole file: a host that sends a byte now and then would hold everything up for ever.
_WHOLE_SECONDS: Final = 900.0
#: Three times what the largest of them has today.
_MOST_BYTES: Final = 512 * 1024 * 1024
_PIECE: Final = 1024 * 1024
_MOST_TOKEN: Final = 256 * 1024
_MOST_LIST: Final = 256 * 1024
#: Of a line of such a list: the sum, the name.
_PARTS: Final = 2
#: Lists of images for several kinds of machine, and what one image is made of, as OCI and Docker call them.
_MANIFESTS: Final = (
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
)
SWITCH: Final = "GPU_POOLS_DOWNLOADS"
#: Digits of a sum -> what it is: lists say it by nothing else, as `sha256sum` and `shasum` write them.
_SUMS: Final = {64: "sha256", 40: "sha1"}


class Unreachable(Exception):  # noqa: N818 - no error: the program is built then
    """The release could not be had from here."""


def download(release: Release, over: threading.Event, folder: Path) -> None:
    """Put the files of a release into an existing folder.

    Args:
        release: which.
        over: set where nobody wants it any more.
        folder: for its files.

    Raises:
        Unreachable: when a host cannot be reached or has no such file.
        SandboxError: when what came is not the file that this repository names.
    """
    for part in release:
        with _as_expected(part.url):
            if isinstance(part, Archive):
                _take(part.url, part.sha256, part.members, folder, over)
            else:
                _take_from_image(part, folder, over)


def download_steps(image: ImageSteps, over: threading.Event, folder: Path) -> None:
    """Put what some steps have brought into an image into an existing folder.

    Args:
        image: which.
        over: set where nobody wants it any more.
        folder: for its files.

    Raises:
        Unreachable: when the registry cannot be reached, or its image is made otherwise.
        SandboxError: when what came is not what this repository names.
    """
    with _as_expected(image.url, AttributeError):
        manifest = _manifest(image, over)
        config = manifest["config"]["digest"].removeprefix("sha256:")
        history = _document(f"{image.url}/blobs/sha256:{config}", config, over)["history"]
        made = [str(step.get("created_by")) for step in history if not step.get("empty_layer")]
        # From the end: of what it is based on there may be layers without a history.
        layers = list(zip(reversed(made), reversed([layer["digest"] for layer in manifest["layers"]]), strict=False))
        for step, members in image.steps.items():
            digests = [digest for line, digest in layers if step in line]
            if len(digests) != 1:
                raise Unreachable(f"{image.url}: {len(digests)} layers of it are made by {step}")
            _take(f"{image.url}/blobs/{digests[0]}", digests[0].removeprefix("sha256:"), members, folder, over)


def listed_sum(address: str, name: str, over: threading.Event) -> str:
    """The sum of a file, out of a list as `sha256sum` and `shasum` write it.

    Args:
        address: of the list.
        name: the file.
        over: set where nobody wants it any more.

    Raises:
        Unreachable: when the list cannot be had, or has no such file.
    """
    with tempfile.TemporaryFile() as file:
        _receive(address, file, over, hashlib.sha256(), most=_MOST_LIST, safely=True)
        file.seek(0)
        lines = [line.split() for line in file.read().decode("utf-8", errors="replace").splitlines()]
    sums = {line[0].lower() for line in lines if len(line) == _PARTS and line[1].lstrip("*").removeprefix("./") == name}
    if len(sums) != 1:
        raise Unreachable(f"{address}: has {len(sums) or 'no'} sums of {name}")
    (found,) = sums
    if len(found) not in _SUMS or set(found) - set(string.hexdigits):
        raise Unreachable(f"{address}: is of another form than expected: {found[:80]!r} of {name}")
    return found


def download_listed(archive: ListedArchive, over: threading.Event, folder: Path) -> None:
    """Put the files of an archive whose sum another host has given into an existing folder.

    Args:
        archive: which.
        over: set where nobody wants it any more.
        folder: for its files.

    Raises:
        Unreachable: when the archive cannot be had, or is made otherwise.
        SandboxError: when what came is not of that sum.
    """
    with _as_expected(archive.url), tempfile.TemporaryFile(dir=folder) as file:
        kind = _SUMS[len(archive.sum)]
        found = _receive(archive.url, file, over, hashlib.new(kind, usedforsecurity=False))
        if found != archive.sum:
            message = (
                f"{archive.url}: is not the file that {archive.listed_at} lists: its {kind} is {found}, "
                f"wanted: {archive.sum}. Nothing of it was used."
            )
            raise SandboxError(message, f"Find out who answers for these hosts here (a proxy, a mirror); or {archive.instead}.")
        _unpack_members(file, archive.url, archive.members, folder)


@contextlib.contextmanager
def _as_expected(url: str, *more: type[Exception]) -> Iterator[None]:
    """What is made otherwise than its readers expect could not be had.

    Args:
        url: of what is read.
        more: what its readers raise then, besides the usual.
    """
    otherwise: tuple[type[Exception], ...] = (KeyError, IndexError, TypeError, ValueError, tarfile.TarError, *more)
    try:
        yield
    except otherwise as error:
        raise Unreachable(f"{url}: is of another form than expected: {error!r}") from error


def _take_from_image(image: Image, folder: Path, over: threading.Event) -> None:
    """Take a file out of the last layer of an image: of one that a Dockerfile ends with by copying it there."""
    layer = _manifest(image, over)["layers"][-1]["digest"]
    _take(f"{image.url}/blobs/{layer}", layer.removeprefix("sha256:"), image.members, folder, over)


def _manifest(image: Image | ImageSteps, over: threading.Event) -> Any:  # noqa: ANN401 - what JSON holds
    """What the image for this machine is made of."""
    listed = _document(f"{image.url}/manifests/sha256:{image.sha256}", image.sha256, over)["manifests"]
    wanted = {"os": "linux", "architecture": image.architecture}
    fitting = [one["digest"] for one in listed if wanted.items() <= one["platform"].items()]
    if not fitting:
        raise Unreachable(f"{image.url}: has nothing for {image.architecture}")
    return _document(f"{image.url}/manifests/{fitting[0]}", fitting[0].removeprefix("sha256:"), over)


def _document(url: str, sha256: str, over: threading.Event) -> Any:  # noqa: ANN401 - what JSON holds
    with tempfile.TemporaryFile() as file:
        _fetch(url, sha256, file, over)
        file.seek(0)
        return json.load(file)


def _take(url: str, sha256: str, members: Mapping[str, str], folder: Path, over: threading.Event) -> None:
    with tempfile.TemporaryFile(dir=folder) as file:
        _fetch(url, sha256, file, over)
        _unpack_members(file, url, members, folder)


def _unpack_members(file: IO[bytes], url: str, members: Mapping[str, str], folder: Path) -> None:
    file.seek(0)
    with tarfile.open(fileobj=file, mode="r:gz") as tar:
        for member, name in members.items():
            if member.endswith("/"):
                _unpack_folder(tar, member, folder / name, url)
            else:
                _unpack(tar, member, folder / name, url)


def _unpack_folder(tar: tarfile.TarFile, member: str, target: Path, url: str) -> None:
    """The files below a folder; of links and other things none."""
    inside = [one.name for one in tar.getmembers() if one.isfile() and one.name.startswith(member)]
    if not inside:
        raise Unreachable(f"{url}: {member} is not a folder with files")
    for name in inside:
        below = PurePosixPath(name.removeprefix(member))
        if ".." in below.parts or below.is_absolute():
            raise Unreachable(f"{url}: has {name}")
        _unpack(tar, name, target / below, url)


def _unpack(tar: tarfile.TarFile, member: str, target: Path, url: str) -> None:
    # `tar -C folder .` writes ./ before each name.
    source = tar.extractfile(member if member in tar.getnames() else f"./{member}")
    if source is None:
        raise Unreachable(f"{url}: {member} is not a file")
    with explained(target, "write"):
        target.parent.mkdir(parents=True, exist_ok=True)
    with explained(target, "write"), target.open("wb") as file:
        shutil.copyfileobj(source, file)
    target.chmod(0o755)


def _fetch(url: str, sha256: str, file: IO[bytes], over: threading.Event) -> None:
    """Write an answer to a file; refuses one of another sum."""
    found = _receive(url, file, over, hashlib.sha256())
    if found != sha256:
        message = (
            f"{url}: is not the file that this repository names: its sha256 is {found}, wanted: {sha256} "
            "(sandbox/toolchain/releases.py). Nothing of it was used."
        )
        remedy = f"Find out who answers for that host here (a proxy, a mirror); or build from sources: {SWITCH}=no."
        raise SandboxError(message, remedy)


def _receive(
    url: str, file: IO[bytes], over: threading.Event, digest: hashlib._Hash, *, most: int = _MOST_BYTES, safely: bool = False
) -> str:
    """Write an answer to a file, and return its sum; `safely`: over TLS only, wherever it is sent on to."""
    size, end = 0, time.monotonic() + _WHOLE_SECONDS
    answer = _answer(url, safely=safely)
    try:
        with answer:
            # What is there, not as much as that: else nobody would look at the clock meanwhile.
            while piece := answer.read1(_PIECE):
                if over.is_set():
                    raise Unreachable(f"{url}: interrupted")
                if time.monotonic() > end:
                    raise Unreachable(f"{url}: not whole within {_WHOLE_SECONDS:.0f} s")
                size += len(piece)
                if size > most:
                    raise Unreachable(f"{url}: more than {most} bytes")
                digest.update(piece)
                file.write(piece)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{url}: {error or type(error).__name__}") from error
    announced = answer.headers.get("Content-Length")
    if announced is not None and int(announced) != size:
        raise Unreachable(f"{url}: broke off after {size} of {announced} bytes")
    return digest.hexdigest()


class _NoStepDown(urllib.request.HTTPRedirectHandler):
    """Follows no redirection from TLS to what anybody on the way can change."""

    def redirect_request(self, req: urllib.request.Request, *answer: Any) -> urllib.request.Request | None:  # noqa: ANN401 - as urllib has it
        """Refuse those."""
        following = super().redirect_request(req, *answer)
        if following is not None and req.type == "https" != following.type:
            raise OSError(f"is sent on to {following.full_url}, which is not https")
        return following


def _answer(url: str, *, safely: bool = False) -> http.client.HTTPResponse:
    """Ask for a file. In a thread, since nothing else limits how long a name is looked up."""
    said: queue.SimpleQueue[http.client.HTTPResponse | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            said.put(_opened(url, safely=safely))
        except Exception as error:  # noqa: BLE001 - told below
            said.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = said.get(timeout=_ANSWER_SECONDS)
    except queue.Empty:
        raise Unreachable(f"{url}: no answer within {_ANSWER_SECONDS:.0f} s") from None
    if isinstance(answer, Exception):
        raise Unreachable(f"{url}: {getattr(answer, 'reason', answer)}") from answer
    return answer


def _opened(url: str, token: str = "", *, safely: bool = False) -> Any:  # noqa: ANN401 - an answer, as urllib has it
    asked = urllib.request.Request(url, headers={"Accept": f"{_MANIFESTS}, */*"})  # noqa: S310 - addresses of releases.py
    if token:
        # For the registry alone: what it sends on to is signed by itself, and refuses it.
        asked.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        return urllib.request.build_opener(*([_NoStepDown] if safely else [])).open(asked, timeout=_PIECE_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.UNAUTHORIZED or token:
            raise
        return _opened(url, _anonymous(url, error))


def _anonymous(url: str, refusal: urllib.error.HTTPError) -> str:
    """The token that a registry gives to everybody, for one repository.

    Raises:
        OSError: it gives none.
    """
    registry = urlsplit(url)
    try:
        realm, service = challenge(Answer(refusal.code, {key.lower(): text for key, text in refusal.headers.items()}, b""), url)
        repository = registry.path.removeprefix("/v2/").rpartition("/")[0].rpartition("/")[0]
        asked = urlencode({"scope": f"repository:{repository}:pull", **({"service": service} if service else {})})
        where = urlsplit(realm)
        # As the registry is asked: with TLS, but for a host of tests.
        source = where._replace(scheme=registry.scheme, query="&".join(filter(None, (where.query, asked)))).geturl()
        with urllib.request.urlopen(source, timeout=_PIECE_SECONDS) as answer:  # noqa: S310
            return token_of(Answer(answer.status, {}, answer.read(_MOST_TOKEN)), registry.netloc)
    except UnaskedError as error:
        raise OSError(str(error)) from error
