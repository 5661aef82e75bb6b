"""A registry for the node's pulls: it has each image under every tag that a pod may ask for, by the last part of its name.

By the OCI distribution specification, as far as a pull needs it; it listens in the node's network only. What it has no image for
it does not know, so such a pod waits as it would anywhere. An image tells the tag's version as NVIDIA's driver images do
(DRIVER_VERSION). Digests are another matter: an image that is pinned by one is imported under it (node.py).
"""

from __future__ import annotations

import json
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sandbox.real_node.images import Blob, described
from sandbox.system.files import read_json, write_json

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from sandbox.real_node.images import Image, Packed

_TABLE: Final = "images.json"
_PARTS: Final = 4


def write(folder: Path, families: Mapping[str, Image], packed: Packed) -> None:
    """Write what a registry has into a folder.

    Args:
        folder: an existing one.
        families: last part of an image's name -> the image.
        packed: its layers.
    """
    write_json(folder / _TABLE, _table(folder, families, packed))


def _table(folder: Path, families: Mapping[str, Image], packed: Packed) -> dict[str, Any]:
    table = {}
    for name, image in families.items():
        layers = [packed.layer(layer) for layer in image.layers]
        for layer in layers:
            (folder / layer.digest).write_bytes(layer.content)
        references = [layer.reference() for layer in layers]
        table[name] = {"layers": references, "command": list(image.command), "user": image.user, "env": dict(image.environment)}
    return table


def add(folder: Path, families: Mapping[str, Image], packed: Packed) -> None:
    """Give a registry that answers already more images; arguments as of `write`."""
    known = json.loads((folder / _TABLE).read_text("utf-8"))
    write_json(folder / _TABLE, {**known, **_table(folder, families, packed)})


def server(listener: socket.socket, folder: Path) -> ThreadingHTTPServer:
    """What answers at a socket that listens, once its `serve_forever` is called."""
    handler = type("Handler", (_Handler,), {"folder": folder})
    made = ThreadingHTTPServer(("127.0.0.1", 0), handler, bind_and_activate=False)
    made.socket.close()
    made.socket = listener
    return made


class _Handler(BaseHTTPRequestHandler):
    folder: Path
    #: Digest -> what was made of an image's description when its tag was asked for.
    made: Final[dict[str, Blob]] = {}
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a request with its content."""
        self._answer(content=True)

    def do_HEAD(self) -> None:
        """Answer a request without."""
        self._answer(content=False)

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""

    def _answer(self, *, content: bool) -> None:
        path = self.path.partition("?")[0]
        parts = path.strip("/").split("/")
        if path == "/v2/":
            self._send(b"{}", "application/json", "", content=content)
            return
        if len(parts) < _PARTS or parts[-2] not in ("manifests", "blobs"):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        found = self._manifest(parts[-3], parts[-1]) if parts[-2] == "manifests" else None
        digest = parts[-1].removeprefix("sha256:")
        found = found or self.made.get(digest)
        file = self.folder / Path(digest).name
        if found is not None:
            self._send(found.content, found.kind, found.digest, content=content)
        elif parts[-2] == "blobs" and parts[-1] != digest and file.is_file():
            self._send(file.read_bytes(), "application/octet-stream", digest, content=content)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _manifest(self, name: str, reference: str) -> Blob | None:
        image = read_json(self.folder / _TABLE).get(name)
        if image is None or reference.startswith("sha256:"):
            return None
        version = reference.removeprefix("v").partition("-")[0]
        config, manifest = described(
            image["layers"], {"Cmd": image["command"], "User": image["user"]}, {**image["env"], "DRIVER_VERSION": version}
        )
        self.made.update({blob.digest: blob for blob in (config, manifest)})
        return manifest

    def _send(self, body: bytes, kind: str, digest: str, *, content: bool) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if digest:
            self.send_header("Docker-Content-Digest", f"sha256:{digest}")
        self.end_headers()
        if content:
            self.wfile.write(body)
