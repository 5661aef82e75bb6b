"""Stand-in for Glance, Nova and Neutron: the few answers that Magnum and its clients ask of them, and nothing else.

Images, flavors, key pairs and networks come from the seed file, which is read anew for each answer. What is not in it does not
exist. There is no token check: the server answers its own user only (sandbox.system.peers), and knows nothing that the seed file
does not say.

Sources of the fields: the API references of Image v2, Compute v2.1 and Networking v2.0, as far as openstacksdk 4.22 reads them.
"""

from __future__ import annotations

import json
import sys
import uuid
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from sandbox.openstack.seed import read_seed
from sandbox.system import peers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.openstack.seed import Seed

IMAGE, COMPUTE, NETWORK = "/image", "/compute/v2.1", "/network"
"""Where the three services are; their addresses in Keystone's catalogue end in these."""
_NAMESPACE: Final = uuid.UUID("0d9e3c1a-4b0f-4a67-9f58-1f1f4a7be0aa")
_DISK_GIB: Final = 40
_MIB: Final = 1024
#: What a project may have and has, where the seed file says nothing else.
_NO_LIMITS: Final = {
    **dict.fromkeys(("maxTotalInstances", "maxTotalCores", "maxTotalRAMSize"), -1),
    **dict.fromkeys(("totalInstancesUsed", "totalCoresUsed", "totalRAMUsed"), 0),
}

Answer = tuple[HTTPStatus, dict[str, Any]]


def answer(seed: Seed, path: str, query: Mapping[str, list[str]]) -> Answer:
    """What the services say to a GET.

    Args:
        seed: what the cloud has.
        path: the path, beginning with one of IMAGE, COMPUTE, NETWORK.
        query: the query's parameters.
    """
    for prefix, service in ((IMAGE, _image), (COMPUTE, _compute), (NETWORK, _network)):
        if path == prefix or path.startswith(f"{prefix}/"):
            return service(seed, path.removeprefix(prefix).strip("/").split("/"), query)
    return _missing(path)


def _image(seed: Seed, path: list[str], query: Mapping[str, list[str]]) -> Answer:
    images = [
        {"id": str(uuid.uuid5(_NAMESPACE, name)), "name": name, "status": "active", "visibility": "public", **properties}
        for name, properties in seed.images.items()
    ]
    match path:
        case [""]:
            version = {"id": "v2.16", "status": "CURRENT", "links": [{"rel": "self", "href": f"{IMAGE}/v2/"}]}
            return HTTPStatus.OK, {"versions": [version]}
        case ["v2", "images"]:
            wanted = query.get("name")
            return HTTPStatus.OK, {"images": [image for image in images if wanted is None or image["name"] in wanted]}
        case ["v2", "images", id_]:
            found = next((image for image in images if image["id"] == id_), None)
            return (HTTPStatus.OK, found) if found else _missing(f"image {id_}")
    return _missing("/".join(path))


def _compute(seed: Seed, path: list[str], query: Mapping[str, list[str]]) -> Answer:
    match path:
        case [""]:
            version = {"id": "v2.1", "status": "CURRENT", "version": "2.96", "min_version": "2.1"}
            return HTTPStatus.OK, {"version": {**version, "links": [{"rel": "self", "href": f"{COMPUTE}/"}]}}
        case ["flavors", "detail"]:
            # The last page is the one after the last flavor.
            flavors = [] if "marker" in query else [_flavor(name, seed) for name in seed.flavors]
            return HTTPStatus.OK, {"flavors": flavors}
        case ["os-keypairs"]:
            return HTTPStatus.OK, {"keypairs": [{"keypair": _keypair(name)} for name in sorted(seed.keypairs)]}
        case ["os-keypairs", name] if name in seed.keypairs:
            return HTTPStatus.OK, {"keypair": _keypair(name)}
        case ["limits"]:
            return HTTPStatus.OK, {"limits": {"rate": [], "absolute": {**_NO_LIMITS, **seed.limits}}}
    return _missing("/".join(path))


def _keypair(name: str) -> dict[str, Any]:
    return {"name": name, "type": "ssh", "public_key": "", "fingerprint": ""}


def _flavor(name: str, seed: Seed) -> dict[str, Any]:
    hardware = seed.flavors[name]
    size = {"vcpus": hardware.cpus, "ram": int(hardware.memory_gib * _MIB), "disk": _DISK_GIB, "swap": 0}
    return {"id": name, "name": name, **size, "OS-FLV-EXT-DATA:ephemeral": 0, "os-flavor-access:is_public": True}


def _network(seed: Seed, path: list[str], query: Mapping[str, list[str]]) -> Answer:  # noqa: ARG001 as the others
    names = sorted(seed.networks)
    match path:
        case [""]:
            version = {"id": "v2.0", "status": "CURRENT", "links": [{"rel": "self", "href": f"{NETWORK}/v2.0/"}]}
            return HTTPStatus.OK, {"versions": [version]}
        case ["v2.0", "networks"]:
            networks = [{"id": str(uuid.uuid5(_NAMESPACE, name)), "name": name, "router:external": True} for name in names]
            return HTTPStatus.OK, {"networks": networks}
        case ["v2.0", "subnets"]:
            return HTTPStatus.OK, {"subnets": [{"id": str(uuid.uuid5(_NAMESPACE, f"{name}/")), "name": name} for name in names]}
    return _missing("/".join(path))


def _missing(what: str) -> Answer:
    return HTTPStatus.NOT_FOUND, {"itemNotFound": {"code": 404, "message": f"{what} could not be found."}}


class _Handler(BaseHTTPRequestHandler):
    """Answers GET from the seed file that the server names."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer from the seed file."""
        address = urlsplit(self.path)
        server = self.server
        if not isinstance(server, _Server):
            message = "this handler belongs to another server"
            raise TypeError(message)
        status, body = answer(read_seed(server.seed), address.path, parse_qs(address.query))
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the base class names it so
        """One line a request, without headers."""
        sys.stderr.write(f"{format % args}\n")


class _Server(ThreadingHTTPServer):
    """A server that knows its seed file."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, seed: Path, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.seed = seed

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ANN401 as the base class has them
        """Whether a connection is of this server's own user."""
        del client_address
        return peers.is_own(request)


def main(seed: str, port: str) -> None:
    """Serve a seed file on a port of 127.0.0.1 until killed; fails at once when the port is taken."""
    _Server(Path(seed), int(port)).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
