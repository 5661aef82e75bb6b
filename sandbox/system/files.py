"""Files of the sandbox: written whole or not at all, readable by their owner only, locked while they change.

A sandbox is killed at any moment (Ctrl-C, a closed laptop), so no file may ever be seen half written. Locks
are advisory and belong to the kernel: they vanish with the process that held them, so a crash leaves nothing
to clean up.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager


@contextlib.contextmanager
def explained(path: Path, action: str) -> Iterator[None]:
    """Turn an operating system error about a path into a SandboxError.

    Args:
        path: the file or folder that is worked on.
        action: the verb for the message, such as "write".

    Raises:
        SandboxError: in place of an OSError raised inside the block.
    """
    try:
        yield
    except OSError as error:
        message = f"{path}: cannot {action} it: {error.strerror or error}."
        remedy = (
            "Check the permissions and the free space there, or keep it elsewhere: set GPU_POOLS_SANDBOX_DIR "
            "(the state) or GPU_POOLS_CACHE (the programs) to a folder that you can write to."
        )
        raise SandboxError(message, remedy) from error


def make_folder(path: Path) -> Path:
    """Create a folder (and its parents) that only its owner can enter, unless it exists.

    Raises:
        SandboxError: when it cannot be created.
    """
    with explained(path, "create"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def write_atomic(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a text file so that a reader sees the old content or the new one, never a part.

    Args:
        path: the file; its folder is created when missing.
        text: the whole content.
        mode: the permission bits of the file.

    Raises:
        SandboxError: when it cannot be written.
    """
    make_folder(path.parent)
    with explained(path, "write"):
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                os.fchmod(stream.fileno(), mode)
                stream.write(text)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; a file that does not exist is an empty one.

    Raises:
        SandboxError: when the file cannot be read or holds no JSON object.
    """
    remedy = "It is written by the sandbox only. Remove the sandbox (make clean) and start it again."
    with explained(path, "read"):
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        message = f"{path}: not valid JSON: {error}."
        raise SandboxError(message, remedy) from error
    if not isinstance(value, dict):
        message = f"{path}: holds a JSON {type(value).__name__}, expected an object."
        raise SandboxError(message, remedy)
    return value


def write_json(path: Path, value: Mapping[str, Any], mode: int = 0o600) -> None:
    """Write a JSON object atomically, keys in the order given.

    Raises:
        SandboxError: when it cannot be written.
    """
    write_atomic(path, json.dumps(value, indent=2) + "\n", mode)


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext) -> Iterator[None]:
    """Hold the lock that belongs to a path; waits for whoever holds it, thread or process.

    The lock is a file beside the path, `.<name>.lock`. It is not reentrant.

    Args:
        path: what is locked.
        waiting: makes what is entered while somebody else holds the lock: a step that says so.

    Raises:
        SandboxError: when the lock file cannot be opened.
    """
    lock = path.with_name(f".{path.name}.lock")
    while True:
        make_folder(lock.parent)
        with explained(lock, "open"):
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(descriptor, waiting)
            # While this waited, the folder may have been erased and made anew: that lock is another file.
            if not _still_there(lock, descriptor):
                continue
            yield
        finally:
            os.close(descriptor)
        return


def _lock(descriptor: int, waiting: Callable[[], AbstractContextManager[None]]) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with waiting():
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def _still_there(path: Path, descriptor: int) -> bool:
    """Say whether the path still names the open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
