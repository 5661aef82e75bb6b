"""What another user of this machine does, for the tests that are attacks: code that runs as `nobody` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import scaled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


#: What is imported is imported before: the interpreter may lie where only we can read.
_BECOME = f"""
import encodings.idna, json, os, socket, ssl, sys, threading
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
"""


def as_stranger(program: str, *arguments: str, given: str = "") -> Any:
    """What a Python program prints as JSON that runs as another user, with nothing of ours: no group, no environment."""
    command = [sys.executable, "-I", "-S", "-c", _BECOME + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=scaled(120), env={}, cwd="/", input=given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


#: Listens on a port, takes who comes, and prints what it was sent in its time.
_LISTEN = """
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
listener.settimeout(0.1)
print(listener.getsockname()[1], flush=True)
heard, links, end = b"", [], False
def ended():
    global end
    sys.stdin.readline()
    end = True
threading.Thread(target=ended, daemon=True).start()
def hear(link):
    global heard
    try:
        while data := link.recv(4096):
            heard += data
            link.sendall(b"welcome")
    except OSError:
        pass
while not end:
    try:
        link, _ = listener.accept()
    except TimeoutError:
        continue
    links.append(link)
    threading.Thread(target=hear, args=(link,), daemon=True).start()
print(json.dumps([len(links), heard.decode(errors="replace")]), flush=True)
os._exit(0)
"""


@dataclass
class Impostor:
    """A server of another user.

    Attributes:
        port: where it listens.
        came: how many connections it has accepted; known once it has ended.
        heard: what it was sent; known once it has ended.
    """

    port: int
    came: int = 0
    heard: str = ""


@contextmanager
def impostor(port: int = 0) -> Iterator[Impostor]:
    """A server of another user that listens on a port of 127.0.0.1; 0 for a free one."""
    command = [sys.executable, "-I", "-S", "-c", _BECOME + _LISTEN, str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={}, cwd="/") as process:
        assert process.stdout is not None
        found = Impostor(int(process.stdout.readline()))
        yield found
        said, _ = process.communicate("\n", timeout=scaled(60))
        found.came, found.heard = json.loads(said)


_OPEN = """
opened = []
for path in sys.stdin.read().split("\\n"):
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        opened.append(path)
    except OSError:
        pass
print(json.dumps(opened))
"""


def opened(folder: Path) -> tuple[int, list[str]]:
    """How many files and folders there are below a folder, and which of them another user can open."""
    paths = [str(folder), *(str(path) for path in folder.rglob("*"))]
    return len(paths), as_stranger(_OPEN, given="\n".join(paths))
