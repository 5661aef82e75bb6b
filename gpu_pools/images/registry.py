"""Asks an image's registry what it has under a name, by the OCI distribution specification 1.1, and believes it little.

Nobody logs in here: no credential is read, so none can be sent anywhere, and what a registry shows only to those who log in is
not checked. Where it wants a token, its realm is asked for one for anonymous users, to pull that one repository, and the token
goes back to that registry alone. Only GET, only TLS (authorities as OpenSSL knows them, SSL_CERT_FILE).

What a hostile registry cannot do: keep anybody waiting (all of it has one limit of time), fill the memory (every answer has a
limit of size), send requests to where it cannot reach itself (a realm or a redirection must be no nearer to this machine than the
registry is, by the address that is then connected to), give other content for a digest than that digest's, or have its own texts
shown. Proxies are not used: behind one, nothing is checked.

The parts that judge answers are gpu_pools/images/registry_answers.py.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import queue
import socket
import ssl
import threading
import time
import urllib.parse
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from gpu_pools.images.registry_answers import (
    MANIFEST_TYPES,
    Answer,
    Said,
    UnaskedError,
    challenge,
    content,
    is_absent,
    parts,
    token_of,
)
from gpu_pools.verifier.api import MALFORMED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_pools.reading.image_names import ImageName

#: For one image, from the first look-up of an address to the last byte.
SECONDS: Final = 10.0
#: The specification has registries take manifests of 4 MiB; the rest of what is read is smaller.
_MOST_MANIFEST: Final = 4 << 20
_MOST_TOKEN: Final = 256 << 10
_MOST_HOPS: Final = 3
_REDIRECTIONS: Final = frozenset({301, 302, 303, 307, 308})
#: How near an address is: anybody's, a site's own, this machine's, and those that belong to no host that could be asked.
_PUBLIC, _PRIVATE, _LOCAL, _SPECIAL = range(4)
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


def ask_all(names: Sequence[ImageName], seconds: float = SECONDS) -> list[Said]:
    """What the registries say of images, asked all at once.

    Args:
        names: the images.
        seconds: after which what has not been answered is not checked.
    """
    answers: list[queue.SimpleQueue[Said]] = [queue.SimpleQueue() for _ in names]
    for name, answer in zip(names, answers, strict=True):
        # Whoever keeps a thread waiting keeps nobody else: it ends with the process.
        threading.Thread(target=_answer, args=(name, answer, seconds), daemon=True).start()
    ends = time.monotonic() + seconds
    return [_until(ends, answer, name.server) for name, answer in zip(names, answers, strict=True)]


def _answer(name: ImageName, answer: queue.SimpleQueue[Said], seconds: float) -> None:
    try:
        answer.put(_ask(_Registry(name, seconds)))
    except UnaskedError as error:
        answer.put(Said("unchecked", str(error)))
    except ssl.SSLCertVerificationError:
        answer.put(Said("unchecked", f"the certificate of {name.server}, or of where it sends to, is not trusted here"))
    except (OSError, http.client.HTTPException, *MALFORMED) as error:
        answer.put(Said("unchecked", f"{name.server}: {type(error).__name__}"))


def _until(ends: float, answer: queue.SimpleQueue[Said], server: str) -> Said:
    try:
        return answer.get(timeout=max(0.0, ends - time.monotonic()))
    except queue.Empty:
        return Said("unchecked", f"{server} did not answer in time")


def _ask(registry: _Registry) -> Said:
    answer = registry.manifest()
    if is_absent(answer):
        return Said("absent", f"{registry.name.server} has no such image")
    said = content(answer, registry.name.digest)
    # Only what is there, and does not name its platforms itself, names a description.
    return said if not said.config else replace(said, platforms=parts(registry.blob(said.config), said.config))


@dataclass
class _Registry:
    """A registry, asked for one image.

    Attributes:
        name: the image.
        seconds: how long each step may take.
        reach: how near its address is; known after the first request.
        token: what it has given for this repository.
    """

    name: ImageName
    seconds: float
    reach: int = _SPECIAL
    token: str = field(default="", repr=False)

    def manifest(self) -> Answer:
        return self._get(f"manifests/{self.name.reference}", ", ".join(MANIFEST_TYPES))

    def blob(self, digest: str) -> Answer:
        return self._get(f"blobs/{digest}", "*/*")

    def _get(self, path: str, accept: str) -> Answer:
        url = f"https://{self.name.server}/v2/{self.name.repository}/{path}"
        answer = self._followed(url, accept)
        if answer.status == http.HTTPStatus.UNAUTHORIZED and not self.token:
            self.token = self._anonymous(answer)
            answer = self._followed(url, accept)
        return answer

    def _followed(self, url: str, accept: str) -> Answer:
        """The answer, wherever it is; the token goes to the registry itself only."""
        for hop in range(_MOST_HOPS + 1):
            own = _origin(url) == _origin(f"https://{self.name.server}/")
            headers = {"Accept": accept, **({"Authorization": f"Bearer {self.token}"} if own and self.token else {})}
            answer, reach = _request(url, headers, _MOST_MANIFEST, self._nearest(hop == 0), self.seconds)
            if hop == 0:
                self.reach = reach
            if answer.status not in _REDIRECTIONS:
                return answer
            url = urllib.parse.urljoin(url, answer.header("location"))
        raise UnaskedError(f"{self.name.server} redirects more than {_MOST_HOPS} times")

    def _nearest(self, own: bool) -> int:  # noqa: FBT001 - which of two
        """The stack file says where the registry is; the registry says where else to go."""
        return _SPECIAL if own else min(self.reach, _LOCAL)

    def _anonymous(self, refusal: Answer) -> str:
        realm, service = challenge(refusal, self.name.server)
        split = urllib.parse.urlsplit(realm)
        asked = {"scope": f"repository:{self.name.repository}:pull", **({"service": service} if service else {})}
        query = "&".join(filter(None, (split.query, urllib.parse.urlencode(asked))))
        url = urllib.parse.urlunsplit((split.scheme, split.netloc, split.path, query, ""))
        answer, _ = _request(url, {"Accept": "application/json"}, _MOST_TOKEN, self._nearest(own=False), self.seconds)
        return token_of(answer, self.name.server)


def _request(url: str, headers: Mapping[str, str], most: int, nearest: int, seconds: float) -> tuple[Answer, int]:
    """One answer, and how near the address is that gave it."""
    host, port = _origin(url)
    split = urllib.parse.urlsplit(url)
    path = urllib.parse.urlunsplit(("", "", split.path or "/", split.query, ""))
    with contextlib.ExitStack() as closing:
        bare, reach = _connected(host, port, nearest, seconds)
        closing.callback(bare.close)
        line = http.client.HTTPSConnection(host, port, timeout=seconds)
        line.sock = closing.enter_context(ssl.create_default_context().wrap_socket(bare, server_hostname=host))
        line.request("GET", path, headers={"User-Agent": "gpu-pools", **headers})
        response = line.getresponse()
        body = response.read(most + 1)
        if len(body) > most:
            raise UnaskedError(f"{host} answers with more than {most} bytes")
        return Answer(response.status, {key.lower(): value for key, value in response.getheaders()}, body), reach


def _origin(url: str) -> tuple[str, int]:
    split = urllib.parse.urlsplit(url)
    if split.scheme != "https" or not split.hostname or split.username is not None:
        raise UnaskedError("it sends to an address without TLS")
    return split.hostname, split.port or 443


def _connected(host: str, port: int, nearest: int, seconds: float) -> tuple[socket.socket, int]:
    """A connection to the first address that may be asked and answers: the one that was judged, not another look-up's."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UnaskedError(f"{host} is not known here") from None
    addresses = [(entry, how_near(str(entry[4][0]))) for entry in found]
    allowed = [(entry, reach) for entry, reach in addresses if reach <= nearest]
    if not allowed:
        raise UnaskedError(f"it sends to {host}, which is nearer to this machine than the registry itself")
    for (family, kind, protocol, _, address), reach in allowed:
        line = socket.socket(family, kind, protocol)
        line.settimeout(seconds)
        try:
            line.connect(address)
        except OSError:
            line.close()
        else:
            return line, reach
    raise UnaskedError(f"{host} cannot be reached from here")


def how_near(address: str) -> int:
    """How near an address is, also one that is written inside of another."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None)
        if inner is not None:
            return how_near(str(inner))
    if ip.is_loopback:
        return _LOCAL
    if ip.is_link_local or ip.is_multicast or ip.is_unspecified or ip.is_reserved:
        return _SPECIAL
    return _PUBLIC if ip.is_global else _PRIVATE
