"""Downloads a release: whole, of the sum that stands in this repository, or not at all.

Where there is no way to its host it says so within seconds. Redirections are followed, to any host: what counts is the sum. Only
the named files of the archive are taken, so that nothing in it decides where anything is written.
"""

from __future__ import annotations

import hashlib
import http.client
import queue
import shutil
import tarfile
import tempfile
import threading
import urllib.request
from typing import IO, TYPE_CHECKING, Final

from sandbox.errors import SandboxError
from sandbox.files import explained

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.toolchain.releases import Release

#: Until a host answers, its name looked up and all redirections followed; and then for each piece of the answer.
_ANSWER_SECONDS: Final = 6.0
_PIECE_SECONDS: Final = 20.0
#: Three times what the largest of them has today.
_MOST_BYTES: Final = 512 * 1024 * 1024
_PIECE: Final = 1024 * 1024
SWITCH: Final = "GPU_POOLS_DOWNLOADS"


class Unreachable(Exception):  # noqa: N818 - no error: the program is built then
    """The release could not be had from here."""


def download(release: Release, folder: Path) -> None:
    """Put the files of a release into an existing folder.

    Raises:
        Unreachable: when its host cannot be reached or has no such file.
        SandboxError: when what came is not the file that this repository names.
    """
    with tempfile.TemporaryFile(dir=folder) as archive:
        digest = _fetch(release.url, archive)
        if digest != release.sha256:
            message = (
                f"{release.url}: is not the file that this repository names: its sha256 is {digest}, "
                f"wanted: {release.sha256} (sandbox/toolchain/releases.py). Nothing of it was used."
            )
            remedy = f"Find out who answers for that host here (a proxy, a mirror); or build from sources: {SWITCH}=no."
            raise SandboxError(message, remedy)
        archive.seek(0)
        _unpack(archive, release, folder)


def _fetch(url: str, archive: IO[bytes]) -> str:
    """Write an answer to a file and return its sha256."""
    digest, size = hashlib.sha256(), 0
    answer = _answer(url)
    try:
        with answer:
            while piece := answer.read(_PIECE):
                size += len(piece)
                if size > _MOST_BYTES:
                    raise Unreachable(f"{url}: more than {_MOST_BYTES} bytes")
                digest.update(piece)
                archive.write(piece)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{url}: {error or type(error).__name__}") from error
    announced = answer.headers.get("Content-Length")
    if announced is not None and int(announced) != size:
        raise Unreachable(f"{url}: broke off after {size} of {announced} bytes")
    return digest.hexdigest()


def _answer(url: str) -> http.client.HTTPResponse:
    """Ask for a file. In a thread, since nothing else limits how long a name is looked up."""
    said: queue.SimpleQueue[http.client.HTTPResponse | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            said.put(urllib.request.urlopen(url, timeout=_PIECE_SECONDS))  # noqa: S310 - the addresses stand in releases.py
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


def _unpack(archive: IO[bytes], release: Release, folder: Path) -> None:
    with tarfile.open(fileobj=archive, mode="r:gz") as tar:
        for member, name in release.members.items():
            source = tar.extractfile(member)
            if source is None:
                message = f"{release.url}: {member} is not a file."
                raise SandboxError(message, "Mend its members in sandbox/toolchain/releases.py.")
            target = folder / name
            with explained(target, "write"), target.open("wb") as file:
                shutil.copyfileobj(source, file)
            target.chmod(0o755)
