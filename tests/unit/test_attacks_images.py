"""Hostile registries: whoever is named in a stack file, or answers for it, against whoever asks. On loopback, with TLS."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_pools.cli.main import main
from gpu_pools.images import registry
from gpu_pools.images.registry import ask_all, how_near
from gpu_pools.images.registry_answers import Answer, UnaskedError, challenge, content, is_absent, parts, token_of
from gpu_pools.reading.image_names import read_image_name
from tests.hostile import ACTED_ON, WORST
from tests.registries import INDEX, digest_of, make_trust, say, serving
from tests.unit.stacks import existing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

    from gpu_pools.images.registry_answers import Said
    from tests.registries import Asked, Server, Trust

    Answering = Callable[[Asked, BaseHTTPRequestHandler], None]

BODY: Final = json.dumps(
    {"schemaVersion": 2, "mediaType": INDEX, "manifests": [{"platform": {"os": "linux", "architecture": "amd64"}}]}
).encode()
DIGEST: Final = digest_of(BODY)
SOON: Final = 0.4


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    return make_trust(tmp_path_factory.mktemp("trust"))


@pytest.fixture
def trust(made: Trust, monkeypatch: pytest.MonkeyPatch) -> Trust:
    monkeypatch.setenv("SSL_CERT_FILE", made.authority)
    return made


@pytest.fixture
def hostile(trust: Trust) -> Iterator[Callable[[Answering], Server]]:
    with contextlib.ExitStack() as running:
        yield lambda answer, host="127.0.0.1": running.enter_context(serving(trust, answer, host))


def ask(server: Server, name: str = f"a/b@{DIGEST}", seconds: float = 5.0) -> Said:
    image = read_image_name(f"{server.address}/{name}")
    assert image
    (said,) = ask_all([image], seconds=seconds)
    return said


def stack_of(server: Server, path: Path, marker: str) -> str:
    """A stack file all of whose images are of that server: nobody else is asked."""
    verification = {"enabled": False, "image": f"{server.address}/a@{DIGEST}"}
    path.write_text(existing(nodeFeatureDiscovery={"markerImage": f"{server.address}/{marker}"}, verification=verification))
    return str(path)


def wanting_a_token(realm: str) -> Answering:
    def answer(asked: Asked, handler: BaseHTTPRequestHandler) -> None:
        if "authorization" in asked.headers:
            say(handler, 200, BODY)
        else:
            say(handler, 401, WWW_Authenticate=f'Bearer realm="{realm}",service="s",scope="repository:others/secret:push"')

    return answer


def test_an_honest_one_is_believed(hostile: Callable[..., Server]) -> None:
    """Without it none of the refusals below would say anything."""
    realm = hostile(lambda _, handler: say(handler, 200, {"token": "t"}))
    said = ask(hostile(wanting_a_token(f"https://{realm.address}/t")))
    assert (said.verdict, said.platforms) == ("there", {"linux/amd64"})


# ---------------------------------------------------------------- time and memory


def _endless(_: Asked, handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(bytes(1 << 20))


def _dripping_body(_: Asked, handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    while True:
        handler.wfile.write(b" ")
        time.sleep(0.1)


def _dripping_headers(_: Asked, handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        handler.wfile.write(b"y")
        time.sleep(0.1)


def _silent(_: Asked, __: BaseHTTPRequestHandler) -> None:
    time.sleep(3)


def _many_headers(_: Asked, handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000 + b"\r\n")


@pytest.mark.parametrize("answer", [_endless, _dripping_body, _dripping_headers, _silent, _many_headers])
def test_attack_keeping_whoever_asks_waiting_or_filling_the_memory(hostile: Callable[..., Server], answer: Answering) -> None:
    """An answer without an end, one byte at a time, none at all, headers without number."""
    began = time.monotonic()
    assert ask(hostile(answer), seconds=SOON).verdict == "unchecked"
    assert time.monotonic() - began < SOON + 1


def test_attack_a_port_that_takes_connections_and_speaks_no_tls(trust: Trust) -> None:  # noqa: ARG001
    """A port that never answers the handshake keeps nobody waiting."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        image = read_image_name(f"127.0.0.1:{silent.getsockname()[1]}/a@{DIGEST}")
        assert image
        began = time.monotonic()
        assert ask_all([image], seconds=SOON)[0].verdict == "unchecked"
        assert time.monotonic() - began < SOON + 1


def test_attack_one_slow_registry_hides_what_the_others_say(hostile: Callable[..., Server]) -> None:
    """A registry that does not answer takes no time from the other images."""
    slow, quick = hostile(_silent), hostile(lambda _, handler: say(handler, 200, BODY))
    images = [read_image_name(f"{server.address}/a@{DIGEST}") for server in (slow, quick)]
    said = ask_all([image for image in images if image], seconds=SOON)
    assert [one.verdict for one in said] == ["unchecked", "there"]


# ---------------------------------------------------------------- where else it sends to


def test_attack_a_loop_of_redirections(hostile: Callable[..., Server]) -> None:
    """A registry that redirects to itself for ever is asked a few times."""
    server = hostile(lambda asked, handler: say(handler, 307, Location=f"{asked.path}x"))
    assert ask(server).verdict == "unchecked"
    assert len(server.asked) <= 8


@pytest.mark.parametrize("place", ["http://127.0.0.1:9/x", "ftp://127.0.0.1/x", "file:///etc/passwd", "https://u:p@127.0.0.1/x"])
def test_attack_a_redirection_or_a_realm_that_is_none_of_tls(hostile: Callable[..., Server], place: str) -> None:
    """Down to HTTP, to a file, with a password in it: not followed."""
    redirecting = hostile(lambda _, handler: say(handler, 307, Location=place))
    assert ask(redirecting).why == "it sends to an address without TLS"
    assert ask(hostile(wanting_a_token(place))).why == "it sends to an address without TLS"


@pytest.fixture
def far_and_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """One address of this machine stands for a public one."""
    monkeypatch.setattr(registry, "how_near", lambda address: 0 if address == "127.0.0.1" else how_near(address))


@pytest.mark.usefixtures("far_and_near")
def test_attack_a_realm_inside_of_the_site(hostile: Callable[..., Server]) -> None:
    """A public registry has a token asked for at a host of the site (SSRF): no connection is made."""
    inside = hostile(lambda _, handler: say(handler, 200, {"token": "t"}), "127.0.0.2")
    said = ask(hostile(wanting_a_token(f"https://{inside.address}/admin?delete=all")))
    assert (said.verdict, "nearer to this machine" in said.why, inside.asked) == ("unchecked", True, [])


@pytest.mark.usefixtures("far_and_near")
def test_attack_a_redirection_inside_of_the_site(hostile: Callable[..., Server]) -> None:
    """The same by a redirection of a manifest."""
    inside = hostile(lambda _, handler: say(handler, 200, BODY), "127.0.0.2")
    said = ask(hostile(lambda _, handler: say(handler, 307, Location=f"https://{inside.address}/x")))
    assert (said.verdict, inside.asked) == ("unchecked", [])


def test_attack_a_name_whose_address_changes_after_it_was_judged(
    hostile: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the first answer is public, any other is inside. What was judged is what is connected to."""
    monkeypatch.setattr(registry, "how_near", lambda address: 0 if address == "127.0.0.2" else how_near(address))
    inside = hostile(lambda _, handler: say(handler, 200, {"token": "t"}))
    answers, real = ["127.0.0.2"], socket.getaddrinfo

    def changing(host: str, *args: Any, **named: Any) -> Any:
        return real(answers.pop() if host == "localhost" and answers else host, *args, **named)

    monkeypatch.setattr(socket, "getaddrinfo", changing)
    realm = f"https://localhost:{inside.address.rpartition(':')[2]}/t"
    said = ask(hostile(wanting_a_token(realm), "127.0.0.2"))
    assert (said.verdict, said.why, inside.asked) == ("unchecked", "localhost cannot be reached from here", [])


@pytest.mark.parametrize(
    ("address", "near"),
    [
        *(("8.8.8.8", 0), ("2606:4700::1", 0), ("10.1.2.3", 1), ("192.168.0.1", 1), ("100.64.0.1", 1), ("fd00:ec2::254", 1)),
        *(("127.0.0.1", 2), ("::1", 2), ("::ffff:127.0.0.1", 2), ("2002:7f00:1::", 2), ("64:ff9b::7f00:1", 2)),
        *(("169.254.169.254", 3), ("fe80::1%1", 3), ("0.0.0.0", 3), ("::", 3), ("224.0.0.1", 3), ("::ffff:169.254.169.254", 3)),  # noqa: S104
        ("64:ff9b::a9fe:a9fe", 3),
        ("240.0.0.1", 3),
    ],
)
def test_attack_an_address_that_is_written_inside_of_another(address: str, near: int) -> None:
    """The metadata service of a cloud, this machine, a private network, each also as IPv6, 6to4 and NAT64."""
    assert how_near(address) == near


# ---------------------------------------------------------------- what is sent


def test_attack_taking_the_token_to_another_host(hostile: Callable[..., Server]) -> None:
    """A token is sent to the registry that wanted it, not to where that redirects."""
    other = hostile(lambda _, handler: say(handler, 200, BODY))
    realm = hostile(lambda _, handler: say(handler, 200, {"token": "of-the-registry"}))
    wanting = wanting_a_token(f"https://{realm.address}/t")

    def answer(asked: Asked, handler: BaseHTTPRequestHandler) -> None:
        if "authorization" in asked.headers:
            say(handler, 307, Location=f"https://{other.address}/x")
        else:
            wanting(asked, handler)

    server = hostile(answer)
    assert ask(server).verdict == "there"
    assert [one.headers["authorization"] for one in server.asked if "authorization" in one.headers] != []
    assert [one for one in other.asked if "authorization" in one.headers] == []


def test_attack_asking_for_credentials_of_this_machine(
    hostile: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Basic and Bearer challenges, with log-ins of Docker and of .netrc at hand: nothing is sent, and no helper is run."""
    ran = tmp_path / "ran"
    helper = tmp_path / "bin" / "docker-credential-evil"
    helper.parent.mkdir()
    helper.write_text(f"#!/bin/sh\ntouch {ran}\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(helper.parent))
    monkeypatch.setenv("HOME", str(tmp_path))
    servers = [
        hostile(lambda _, handler: say(handler, 401, WWW_Authenticate='Basic realm="give"')),
        hostile(lambda _, handler: say(handler, 401)),
    ]
    realm = hostile(lambda _, handler: say(handler, 401, WWW_Authenticate='Basic realm="give"'))
    servers.append(hostile(wanting_a_token(f"https://{realm.address}/t")))
    hosts = [server.address for server in (*servers, realm)]
    (tmp_path / ".docker").mkdir()
    auths = {"auths": {host: {"auth": "dXNlcjpwYXNz"} for host in hosts}, "credsStore": "evil"}
    (tmp_path / ".docker" / "config.json").write_text(json.dumps(auths))
    (tmp_path / ".netrc").write_text("".join(f"machine {host.partition(':')[0]} login user password pass\n" for host in hosts))
    assert {ask(server).verdict for server in servers} == {"unchecked"}
    sent = [one.headers for server in (*servers, realm) for one in server.asked]
    assert sent
    assert not [headers for headers in sent if {"authorization", "cookie"} & set(headers)]
    assert not ran.exists()


def test_attack_asking_for_more_than_one_repository(hostile: Callable[..., Server]) -> None:
    """The challenge names another repository, to push: the token that is asked for is to pull this one."""
    realm = hostile(lambda _, handler: say(handler, 200, {"token": "t"}))
    ask(hostile(wanting_a_token(f"https://{realm.address}/t?scope=x")))
    (asked,) = realm.asked
    assert asked.path.endswith("&scope=repository%3Aa%2Fb%3Apull&service=s")


@pytest.mark.parametrize("token", ["t\r\nX-Evil: 1", "t t", "", None, 7, ["t"], "\u202e"])
def test_attack_a_token_that_is_a_header(hostile: Callable[..., Server], token: Any) -> None:
    """A token with a line break, or of another type, is none."""
    realm = hostile(lambda _, handler: say(handler, 200, {"token": token}))
    server = hostile(wanting_a_token(f"https://{realm.address}/t"))
    assert ask(server).verdict == "unchecked"
    assert not [one for one in server.asked if {"authorization", "x-evil"} & set(one.headers)]


def test_attack_an_authority_that_nobody_trusts(
    hostile: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sits in between has a certificate of their own: nothing is asked."""
    server = hostile(lambda _, handler: say(handler, 200, BODY))
    monkeypatch.setenv("SSL_CERT_FILE", make_trust(tmp_path / "other").authority)
    said = ask(server)
    assert (said.verdict, "is not trusted here" in said.why, server.asked) == ("unchecked", True, [])


# ---------------------------------------------------------------- what it says


def test_attack_other_content_under_a_digest(
    hostile: Callable[..., Server], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A registry gives another manifest for a digest: told as an error, and not as there."""
    server = hostile(lambda _, handler: say(handler, 200, BODY + b" "))
    assert ask(server).verdict == "other"
    assert main(["images", stack_of(server, tmp_path / "Pulumi.x.yaml", f"a/b@{DIGEST}")]) == 1
    assert f"has the digest {digest_of(BODY + b' ')}" in capsys.readouterr().out


def test_attack_a_header_with_another_digest_than_the_tags_content(hostile: Callable[..., Server]) -> None:
    """The digest that is advised for a tag is of what was read, and one that the registry only claims is told."""
    assert ask(hostile(lambda _, handler: say(handler, 200, BODY)), "a:1").digest == DIGEST
    lying = hostile(lambda _, handler: say(handler, 200, BODY, Docker_Content_Digest=f"sha256:{'0' * 64}"))
    assert ask(lying, "a:1").verdict == "other"


def test_attack_another_description_than_the_manifests(hostile: Callable[..., Server]) -> None:
    """The document with the platform is another one than the manifest names: no platform is believed."""
    described = json.dumps({"os": "linux", "architecture": "arm64"}).encode()
    manifest = json.dumps({"config": {"digest": digest_of(described)}}).encode()
    contents = {"manifests": manifest, "blobs": described + b" "}
    server = hostile(lambda asked, handler: say(handler, 200, contents[asked.path.split("/")[-2]]))
    said = ask(server, "a:1")
    assert (said.verdict, said.platforms) == ("there", set())


@pytest.mark.parametrize(
    ("status", "body"),
    [
        *((404, b"<html>not here"), (404, b""), (404, b'{"errors": 7}'), (404, b'{"errors": [{"code": "DENIED"}]}')),
        *((500, b""), (429, b"")),
    ],
)
def test_what_does_not_say_that_there_is_no_image_is_no_such_answer(
    hostile: Callable[..., Server], status: int, body: bytes
) -> None:
    """A proxy's page, a registry that hides what it has: nobody's deploy ends there."""
    assert ask(hostile(lambda _, handler: say(handler, status, body))).verdict == "unchecked"


@pytest.mark.parametrize("worst", WORST)
def test_attack_texts_of_a_registry_reach_no_terminal(
    hostile: Callable[..., Server], tmp_path: Path, capsys: pytest.CaptureFixture[str], worst: str
) -> None:
    """Escapes in platforms, in codes, in where it sends to."""
    platforms = [{"platform": {"os": worst, "architecture": worst}}, {"platform": {"os": "linux", "architecture": "amd64"}}]
    place = f"https://{worst.encode('ascii', 'ignore').decode()}/x"
    answers: list[tuple[int, Any]] = [
        (200, {"manifests": platforms, "mediaType": worst}),
        (404, {"errors": [{"code": worst, "message": worst}]}),
        (307, {}),
    ]
    for status, body in answers:
        server = hostile(lambda _, handler, status=status, body=body: say(handler, status, body, Location=place))
        main(["images", stack_of(server, tmp_path / "Pulumi.x.yaml", "a:1")])
        shown = capsys.readouterr()
        assert not ACTED_ON & set(shown.out + shown.err)


_KEYS: Final = ("manifests", "platform", "os", "architecture", "config", "digest", "errors", "code", "token")
_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.sampled_from(["linux", "amd64", DIGEST]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(_KEYS) | st.text(max_size=5),
            inner,
            max_size=6,
        )
    ),
    max_leaves=30,
)


@given(_JSON, st.sampled_from([200, 401, 404]), st.text(max_size=200))
def test_attack_any_document(document: Any, status: int, header: str) -> None:
    """Whatever it answers is judged or not checked; nothing else happens."""
    answer = Answer(status, {"www-authenticate": header}, json.dumps(document).encode())
    for judge in (is_absent, lambda one: content(one, ""), lambda one: token_of(one, "r"), lambda one: challenge(one, "r")):
        with contextlib.suppress(UnaskedError):
            judge(answer)
    with contextlib.suppress(UnaskedError):
        assert all(re.fullmatch(r"[a-z0-9_.-]+/[a-z0-9_.-]+", one) for one in parts(answer, digest_of(answer.body)))


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' * 100_000, b"1" * 100_000, b"\xff\xfe", b"", b"{"])
def test_attack_a_document_without_a_bottom(body: bytes) -> None:
    """Levels without number, a number without end, no text at all."""
    with pytest.raises(UnaskedError):
        content(Answer(200, {}, body), "")


def test_attack_a_challenge_that_takes_for_ever_to_read() -> None:
    """A header as long as Python's client takes one, full of beginnings."""
    began = time.monotonic()
    for text in ('a="' * 21_000, "Bearer " + 'realm="' + "x" * 65_000, "Bearer " + "A" * 65_000):
        with pytest.raises(UnaskedError):
            challenge(Answer(401, {"www-authenticate": text}, b""), "r")
    assert time.monotonic() - began < 1
