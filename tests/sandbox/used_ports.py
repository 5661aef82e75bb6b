"""The ports that a sandbox's processes listen on, and what another user of the machine gets out of each: a table, and a try."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.sandbox.strangers import as_stranger

#: Program -> why another user gets nothing there. A port of a program without a row is a finding.
KNOWN: Final = {
    "etcd": "wants a certificate of etcd's own authority before it says anything",
    "kube-apiserver": "answers 401 to who has neither certificate nor token, whatever he asks for",
    "sandbox.providers": "closes connections of other users (sandbox.providers.door)",
    "keystone_serve": "closes connections of other users (sandbox.system.peers)",
    "magnum_serve": "closes connections of other users (sandbox.system.peers)",
    "sandbox.observing": "closes connections of other users (sandbox.system.peers)",
    "sandbox.openstack.catalogue": "closes connections of other users (sandbox.system.peers)",
}
#: Table of the kernel -> the state of a socket to which anybody could send something: it listens, or is connected with nobody.
_OPEN: Final = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
_MARK: Final = "GPU_POOLS_PROCESS="
#: What is tried at each port: plain HTTP, HTTP/2 as gRPC speaks it, HTTP over TLS without a certificate. Prints what was said.
_TRY: Final = r"""
def asked(address, secure, request):
    said = b""
    try:
        with socket.create_connection(address, timeout=5) as link:
            if secure:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                link = context.wrap_socket(link)
            link.sendall(request)
            while len(said) < 4096 and (data := link.recv(4096)):
                said += data
    except (OSError, TimeoutError):
        pass
    return said.decode("latin-1")

found = {}
for host, port in json.loads(sys.argv[1]):
    answers = []
    for path in ("/", "/version", "/healthz", "/readyz", "/metrics", "/report", "/v3", "/v1", "/image", "/openapi/v2", "/health"):
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        answers += [asked((host, port), secure, request) for secure in (False, True)]
        if not any(answers):
            break
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
    answers.append(asked((host, port), False, preface))
    found[f"{host}:{port}"] = answers
print(json.dumps(found))
"""
#: What may be said to anybody: that TLS is spoken here, that it wants a certificate or a token. Nothing of what is there.
_NOTHING: Final = ("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.", "HTTP/1.1 401 Unauthorized")


@dataclass(frozen=True)
class Port:
    """A port of this machine that a process of a sandbox listens on.

    Attributes:
        program: of the process: a name of KNOWN where it has one.
        address: which.
        port: its number.
    """

    program: str
    address: str
    port: int


def ports_of(folder: Path) -> set[Port]:
    """The ports of all processes that belong to a folder or to one inside it."""
    tables = {inode: place for table, state in _OPEN.items() for inode, place in _open_to_all(Path("/proc/net") / table, state)}
    found = set()
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and _belongs(process, folder):
                links = [str(link.readlink()) for link in (process / "fd").iterdir()]
                inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
                found |= {Port(_program(process), *tables[inode]) for inode in inodes & tables.keys()}
    return found


def tried(ports: set[Port]) -> dict[str, object]:
    """What another user gets at ports, and ports that nobody knows; empty where all is well."""
    answers = as_stranger(_TRY, json.dumps([[port.address, port.port] for port in ports]))
    told = {
        f"{port.program} {port.address}:{port.port}": said
        for port in ports
        for said in answers[f"{port.address}:{port.port}"]
        if said and not said.startswith(_NOTHING)
    }
    return told | {f"{port.program} {port.port}": "no row in the table" for port in ports if port.program not in KNOWN}


def _belongs(process: Path, folder: Path) -> bool:
    environment = (process / "environ").read_bytes().decode(errors="replace").split("\0")
    own = f"{_MARK}{folder.resolve()}/"
    # The engine and its children carry no mark, but know where the state lies.
    return any(entry.startswith((own, f"PULUMI_BACKEND_URL=file://{folder.resolve()}/")) for entry in environment)


def _program(process: Path) -> str:
    words = (process / "cmdline").read_bytes().decode().split("\0")
    if "python" not in Path(words[0]).name:
        return Path(words[0]).name
    return next(
        (name for name in KNOWN if any(word.rpartition("/")[2].removesuffix(".py").endswith(name) for word in words)),
        " ".join(words),
    )


def _open_to_all(table: Path, wanted: str) -> list[tuple[str, tuple[str, int]]]:
    """Inode -> address of the sockets of a table that anybody could send something to."""
    found = []
    for line in table.read_text(encoding="ascii").splitlines()[1:]:
        _, local, _, state, _, _, _, _, _, inode, *_ = line.split()
        if state == wanted:
            host, _, port = local.partition(":")
            four = bytes.fromhex(host)[-4:][::-1]
            found.append((inode, (".".join(map(str, four)) if any(four) else "127.0.0.1", int(port, 16))))
    return found
