"""Registries on this machine, with TLS: the real one, holding what a test pushes, and one that answers what a test says.

The authority is made anew for each run; whoever is to trust it sets SSL_CERT_FILE. The real registry gives nothing to anybody
without a token of `Tokens`, which signs with a key whose certificate the registry knows.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import ipaddress
import json
import re
import secrets
import ssl
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SERVICE: Final = "registry of the tests"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_HOSTS: Final = ("127.0.0.1", "127.0.0.2")


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


@dataclass(frozen=True)
class Trust:
    """A certificate of this machine that is its own authority."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def authority(self) -> str:
        return str(self.folder / "tls.crt")

    @property
    def secret(self) -> str:
        return str(self.folder / "tls.key")

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority, self.secret)
        return context


def make_trust(folder: Path) -> Trust:
    folder.mkdir(parents=True, exist_ok=True)
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry of the tests")])
    names: list[x509.GeneralName] = [x509.DNSName("localhost"), *(x509.IPAddress(ipaddress.ip_address(one)) for one in _HOSTS)]
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    written = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "tls.key").write_bytes(written)
    return Trust(folder, key, certificate)


# ---------------------------------------------------------------- one that answers what it is told to


@dataclass(frozen=True)
class Asked:
    """A request."""

    path: str
    headers: dict[str, str]


@dataclass
class Server:
    """A server of TLS; `answer` gets each request and its handler, and writes what it likes."""

    address: str
    asked: list[Asked] = field(default_factory=list)


@contextlib.contextmanager
def serving(trust: Trust, answer: Callable[[Asked, BaseHTTPRequestHandler], None], host: str = "127.0.0.1") -> Iterator[Server]:
    server = Server("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = Asked(self.path, {key.lower(): value for key, value in self.headers.items()})
            server.asked.append(asked)
            # Whoever asks may go at any moment.
            with contextlib.suppress(OSError):
                answer(asked, self)

        def do_POST(self) -> None:
            # Tokens by POST are an option of the specification; who is told that there are none asks by GET, as containerd does.
            say(self, 405)

        def log_message(self, *_: object) -> None: ...

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None: ...

    listening = Quiet((host, 0), Handler)
    listening.socket = trust.server().wrap_socket(listening.socket, server_side=True, do_handshake_on_connect=False)
    server.address = f"{host}:{listening.server_address[1]}"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def say(handler: BaseHTTPRequestHandler, status: int, body: bytes | dict[str, Any] = b"", **headers: str) -> None:
    """Answer, with `_` for `-` in names of headers."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in {"Content_Length": str(len(text)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(text)


# ---------------------------------------------------------------- the real one


def _text(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def token(trust: Trust, repository: str, *actions: str) -> str:
    """A token of the registry's issuer."""
    der = trust.certificate.public_bytes(serialization.Encoding.DER)
    now = int(time.time())
    claims = {
        "iss": "tests",
        "sub": "",
        "aud": SERVICE,
        "exp": now + 300,
        "nbf": now - 60,
        "iat": now - 60,
        "jti": secrets.token_hex(8),
        "access": [{"type": "repository", "name": repository, "actions": list(actions)}],
    }
    head = {"alg": "ES256", "typ": "JWT", "x5c": [base64.b64encode(der).decode()]}
    signed = ".".join(_text(json.dumps(part).encode()) for part in (head, claims))
    r, s = decode_dss_signature(trust.key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{_text(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def hand_out(trust: Trust) -> Callable[[Asked, BaseHTTPRequestHandler], None]:
    """A realm that lets anybody pull, but for what is called private."""

    def answer(asked: Asked, handler: BaseHTTPRequestHandler) -> None:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(asked.path).query)
        kind, repository, action = query["scope"][0].split(":")
        if (kind, action, query["service"]) != ("repository", "pull", [SERVICE]) or repository.startswith("private/"):
            say(handler, 401, {"errors": [{"code": "UNAUTHORIZED"}]})
        else:
            say(handler, 200, {"token": token(trust, repository, "pull")})

    return answer


def hand_out_to(trust: Trust, username: str, password: str) -> Callable[[Asked, BaseHTTPRequestHandler], None]:
    """A realm that knows one user, who may pull and push, and nobody else."""
    wanted = "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()

    def answer(asked: Asked, handler: BaseHTTPRequestHandler) -> None:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(asked.path).query)
        if asked.headers.get("authorization") != wanted:
            say(handler, 401, {"errors": [{"code": "UNAUTHORIZED"}]}, WWW_Authenticate="Basic")
            return
        # Who only logs in asks for no repository.
        _, repository, actions = (query.get("scope") or ["repository:none:pull"])[0].split(":")
        say(handler, 200, {"token": token(trust, repository, *actions.split(","))})

    return answer


@dataclass(frozen=True)
class Registry:
    """A registry that runs, and its realm."""

    address: str
    trust: Trust
    realm: Server

    def push(self, repository: str, tag: str, *architectures: str) -> str:
        """An image for these platforms, as an index where there are several; its digest."""
        manifests = [self._image(repository, architecture, tag) for architecture in architectures]
        if len(manifests) == 1:
            return self.put_manifest(repository, tag, manifests[0], MANIFEST)
        listed = [
            {
                "mediaType": MANIFEST,
                "digest": self.put_manifest(repository, digest_of(one), one, MANIFEST),
                "size": len(one),
                "platform": {"os": "linux", "architecture": architecture},
            }
            for one, architecture in zip(manifests, architectures, strict=True)
        ]
        index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}).encode()
        return self.put_manifest(repository, tag, index, INDEX)

    def put_blob(self, repository: str, content: bytes) -> None:
        """A file of an image."""
        started = self._send("POST", repository, "blobs/uploads/", b"", "")
        place = urllib.parse.urljoin(f"https://{self.address}/", started)
        self._send("PUT", repository, f"{place}&digest={digest_of(content)}", content, "application/octet-stream")

    def _image(self, repository: str, architecture: str, made: str) -> bytes:
        rootfs = {"type": "layers", "diff_ids": []}
        config = json.dumps({"os": "linux", "architecture": architecture, "author": made, "rootfs": rootfs}).encode()
        self.put_blob(repository, config)
        described = {"mediaType": _CONFIG, "digest": digest_of(config), "size": len(config)}
        return json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": []}).encode()

    def put_manifest(self, repository: str, reference: str, body: bytes, kind: str) -> str:
        """A manifest whose files are there, under a tag or its digest; the digest."""
        self._send("PUT", repository, f"manifests/{reference}", body, kind)
        return digest_of(body)

    def _send(self, method: str, repository: str, path: str, body: bytes, kind: str) -> str:
        url = path if path.startswith("https:") else f"https://{self.address}/v2/{repository}/{path}"
        headers = {"Authorization": f"Bearer {token(self.trust, repository, 'pull', 'push')}", "Content-Type": kind}
        request = urllib.request.Request(url, data=body, headers=headers, method=method)  # noqa: S310 - https
        context = ssl.create_default_context(cafile=self.trust.authority)
        with urllib.request.urlopen(request, context=context, timeout=10) as response:  # noqa: S310
            return str(response.headers.get("Location", ""))


@contextlib.contextmanager
def running(
    program: Path, trust: Trust, realm_answer: Callable[[Asked, BaseHTTPRequestHandler], None] | None = None
) -> Iterator[Registry]:
    """The real registry, on a port that the kernel chooses; by default its realm lets anybody pull."""
    with serving(trust, realm_answer or hand_out(trust)) as realm:
        auth = {"realm": f"https://{realm.address}/token", "service": SERVICE, "issuer": "tests"}
        settings = {
            "version": "0.1",
            "log": {"level": "info", "accesslog": {"disabled": True}},
            "storage": {"inmemory": {}, "maintenance": {"uploadpurging": {"enabled": False}}},
            "http": {
                "addr": "127.0.0.1:0",
                "secret": secrets.token_hex(8),
                "tls": {"certificate": trust.authority, "key": trust.secret},
            },
            "auth": {"token": {**auth, "rootcertbundle": trust.authority}},
        }
        file = trust.folder / "registry.yml"
        file.write_text(yaml.safe_dump(settings))
        around = {"OTEL_TRACES_EXPORTER": "none"}
        with subprocess.Popen([program, "serve", file], stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=around) as process:
            try:
                yield Registry(_address(process), trust, realm)
            finally:
                process.kill()


def _address(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line.decode())
        if found := re.search(r"listening on (127\.0\.0\.1:\d+)", said[-1]):
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return found[1]
    raise AssertionError("".join(said))
