"""What registries' answers mean, and what follows for a stack; hostile ones are in test_attacks_images.py."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.images.placed import PlacedImage, placed_images
from gpu_pools.images.registry import ask_all
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
from gpu_pools.images.verdicts import ImageVerdict
from gpu_pools.reading.image_names import read_image_name
from tests.registries import make_trust, say, serving
from tests.unit.stacks import aks, existing, plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.registries import Asked, Server

D = f"sha256:{'a' * 64}"


def digest_of(body: bytes, algorithm: str = "sha256") -> str:
    return f"{algorithm}:{hashlib.new(algorithm, body).hexdigest()}"


def answer(status: int, document: Any = None, **headers: str) -> Answer:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return Answer(status, {key.replace("_", "-"): value for key, value in headers.items()}, body)


def refused(judge: Callable[..., object], *args: object) -> str:
    with pytest.raises(UnaskedError) as why:
        judge(*args)
    return str(why.value)


# ---------------------------------------------------------------- single answers


@pytest.mark.parametrize("code", ["MANIFEST_UNKNOWN", "NAME_UNKNOWN"])
def test_an_image_is_absent_where_its_registry_says_so_in_the_words_of_the_specification(code: str) -> None:
    assert is_absent(answer(404, {"errors": ["?", {"code": "DENIED"}, {"code": code}]}))
    assert refused(is_absent, answer(500, {"errors": [{"code": code}]})) == "its registry answers 500"
    assert refused(is_absent, answer(403, {"errors": [{"code": code}]})) == "its registry shows it only to those who log in"


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (401, "its registry shows it only to those who log in"),
        (403, "its registry shows it only to those who log in"),
        (404, "its registry answers 404"),
        (429, "its registry has been asked too often from here"),
        (201, "its registry answers 201"),
    ],
)
def test_what_says_neither_is_told(status: int, why: str) -> None:
    assert refused(is_absent, answer(status, {})) == why
    assert is_absent(answer(200)) is False


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ('Bearer realm="https://r.example/t",service="s"', ("https://r.example/t", "s")),
        ('bearer service="a b",realm="https://r.example/t?a=1"', ("https://r.example/t?a=1", "a b")),
        ('BEARER realm="x"', ("x", "")),
        ('Bearer realm=""', ("", "")),
        ('Basic realm="x"', None),
        ('Bearer service="s"', None),
        ("Bearer", None),
        ("", None),
    ],
)
def test_a_challenge_says_where_a_token_is_to_be_had(header: str, found: tuple[str, str] | None) -> None:
    asked = answer(401, None, www_authenticate=header)
    if found is None:
        assert refused(challenge, asked, "r.example") == "r.example shows it only to those who log in"
    else:
        assert challenge(asked, "r.example") == found


@pytest.mark.parametrize("length", [2048, 2049])
def test_a_realm_has_an_end(length: int) -> None:
    asked = answer(401, None, www_authenticate=f'Bearer realm="{"x" * length}"')
    if length == 2048:
        assert challenge(asked, "r.example")[0] == "x" * length
    else:
        assert refused(challenge, asked, "r.example")


def test_a_token_has_either_name() -> None:
    assert token_of(answer(200, {"token": "a.b"}), "r") == "a.b"
    assert token_of(answer(200, {"access_token": "~!"}), "r") == "~!"
    assert token_of(answer(200, {"token": "a", "access_token": "b"}), "r") == "a"
    for none in (answer(401, {"token": "a"}), answer(200, {}), answer(200, {"token": "ä"}), answer(200, {"token": "a b"})):
        assert refused(token_of, none, "r") == "r gives no token to those who do not log in"


INDEX: Any = {
    "manifests": [
        {"platform": {"os": "linux", "architecture": "amd64"}},
        {"platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}},
        {"platform": {"os": "unknown", "architecture": "unknown"}},
        {"platform": {"os": "linux", "architecture": "unknown"}},
        {"platform": {"os": "linux", "architecture": "Amd64"}},
        {"platform": {"os": "windows"}},
        {"platform": "linux/s390x"},
        {},
        7,
    ]
}


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_an_index_names_its_platforms_and_is_what_its_digest_says(algorithm: str) -> None:
    given = answer(200, INDEX)
    digest = digest_of(given.body, algorithm)
    said = Said("there", digest=digest, platforms=frozenset({"linux/amd64", "linux/arm64"}))
    assert content(given, digest) == said
    assert content(answer(200, INDEX, docker_content_digest=digest), "") == said


def test_without_any_digest_the_content_has_its_own() -> None:
    given = answer(200, {"config": {"digest": D}})
    assert content(given, "") == Said("there", digest=digest_of(given.body), config=D)
    long = f"sha512:{'a' * 128}"
    assert content(answer(200, {"config": {"digest": long}}), "").config == long


def test_what_was_asked_for_by_digest_is_not_held_against_a_header() -> None:
    given = answer(200, INDEX, docker_content_digest=D)
    assert content(given, digest_of(given.body)).verdict == "there"


@pytest.mark.parametrize("like", [D, f"sha512:{'a' * 128}"])
def test_other_content_is_told_with_its_own_digest(like: str) -> None:
    given = answer(200, INDEX)
    found = digest_of(given.body, like.partition(":")[0])
    assert content(given, like) == Said(
        "other", f"the content that its registry gives for {like[:80]} has the digest {found}", found
    )


@pytest.mark.parametrize("document", [{}, {"config": 7}, {"config": {}}, {"config": {"digest": f"{D}0"}}, {"manifests": {}}])
def test_what_describes_no_image_is_no_manifest(document: object) -> None:
    assert refused(content, answer(200, document), "") == "what its registry answers is not a manifest of an image"


def test_what_is_no_object_is_not_understood() -> None:
    assert refused(content, answer(200, []), "") == "what its registry answers is not a JSON object"


def test_the_only_platform_is_believed_where_its_description_is_the_one_that_was_named() -> None:
    described = answer(200, {"os": "linux", "architecture": "amd64"})
    digest = digest_of(described.body)
    assert parts(described, digest) == {"linux/amd64"}
    assert parts(described, D) == frozenset()
    assert parts(answer(404, {"os": "linux", "architecture": "amd64"}), digest) == frozenset()


@pytest.mark.parametrize(
    ("word", "is_one"), [("a" * 32, True), ("a" * 33, False), ("x86_64.v-2", True), ("a/b", False), ("", False)]
)
def test_what_a_platform_may_be_called(word: str, is_one: bool) -> None:  # noqa: FBT001
    found = content(answer(200, {"manifests": [{"platform": {"os": "linux", "architecture": word}}]}), "").platforms
    assert found == ({f"linux/{word}"} if is_one else frozenset())


# ---------------------------------------------------------------- how a registry is asked


@pytest.fixture
def registry(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    """Starts registries that are trusted."""
    trust = make_trust(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", trust.authority)
    with contextlib.ExitStack() as running:
        yield lambda answers: running.enter_context(serving(trust, answers))


def asked_for(server: Server, name: str) -> Said:
    image = read_image_name(f"{server.address}/{name}")
    assert image
    (said,) = ask_all([image], seconds=5)
    return said


def test_an_image_of_one_platform_is_asked_for_in_two_steps(registry: Callable[..., Server]) -> None:
    described = json.dumps({"os": "linux", "architecture": "arm64"}).encode()
    manifest = json.dumps({"config": {"digest": digest_of(described)}}).encode()
    answers = {"/v2/a/b/manifests/1": manifest, f"/v2/a/b/blobs/{digest_of(described)}": described}
    server = registry(lambda asked, handler: say(handler, 200, answers[asked.path]))
    said = asked_for(server, "a/b:1")
    assert (said.verdict, said.digest, said.platforms) == ("there", digest_of(manifest), {"linux/arm64"})
    assert [(one.path, one.headers["accept"]) for one in server.asked] == [
        ("/v2/a/b/manifests/1", ", ".join(MANIFEST_TYPES)),
        (f"/v2/a/b/blobs/{digest_of(described)}", "*/*"),
    ]
    assert {one.headers["user-agent"] for one in server.asked} == {"gpu-pools"}


def test_the_types_that_are_asked_for_are_those_of_oci_and_of_docker() -> None:
    kinds = (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
    assert kinds == MANIFEST_TYPES
    for kind in kinds:
        assert content(answer(200, {**INDEX, "mediaType": kind}), "").verdict == "there"


def test_an_absent_image_is_told_with_its_registry(registry: Callable[..., Server]) -> None:
    server = registry(lambda _, handler: say(handler, 404, {"errors": [{"code": "NAME_UNKNOWN"}]}))
    assert asked_for(server, "a:1") == Said("absent", f"{server.address} has no such image")


@pytest.mark.parametrize(("hops", "verdict"), [(3, "there"), (4, "unchecked")])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_three_redirections_are_followed(registry: Callable[..., Server], status: int, hops: int, verdict: str) -> None:
    def answers(asked: Asked, handler: Any) -> None:
        if len(server.asked) <= hops:
            say(handler, status, Location=f"{len(server.asked)}?from={asked.path[:3]}")
        else:
            say(handler, 200, INDEX)

    server = registry(answers)
    said = asked_for(server, "a:1")
    assert said.verdict == verdict
    assert said.why == ("" if verdict == "there" else f"{server.address} redirects more than 3 times")
    assert server.asked[1].path == "/v2/a/manifests/1?from=/v2"


def test_a_token_is_asked_for_once(registry: Callable[..., Server]) -> None:
    """A registry that takes its own token for none is not asked for ever."""
    realm = registry(lambda _, handler: say(handler, 200, {"token": "t"}))
    server = registry(lambda _, handler: say(handler, 401, WWW_Authenticate=f'Bearer realm="https://{realm.address}/t"'))
    said = asked_for(server, "a:1")
    assert (said.verdict, said.why) == ("unchecked", "its registry shows it only to those who log in")
    assert [one.headers.get("authorization") for one in server.asked] == [None, "Bearer t"]
    assert [(one.path, one.headers["accept"]) for one in realm.asked] == [
        ("/t?scope=repository%3Aa%3Apull", "application/json"),
    ]


def test_a_description_that_the_token_does_not_open_is_not_asked_for_again(registry: Callable[..., Server]) -> None:
    realm = registry(lambda _, handler: say(handler, 200, {"token": "t"}))

    def answers(asked: Asked, handler: Any) -> None:
        if "authorization" in asked.headers and "/manifests/" in asked.path:
            say(handler, 200, {"config": {"digest": D}})
        else:
            say(handler, 401, WWW_Authenticate=f'Bearer realm="https://{realm.address}/t"')

    assert asked_for(registry(answers), "a:1").platforms == frozenset()
    assert len(realm.asked) == 1


@pytest.mark.parametrize(("more", "verdict"), [(0, "there"), (1, "unchecked")])
def test_a_manifest_has_at_most_four_mebibytes(registry: Callable[..., Server], more: int, verdict: str) -> None:
    most = 4 * 1024 * 1024
    body = json.dumps(INDEX).encode()
    server = registry(lambda _, handler: say(handler, 200, body + b" " * (most - len(body) + more)))
    said = asked_for(server, "a:1")
    assert (said.verdict, said.why) == (verdict, f"127.0.0.1 answers with more than {most} bytes" if more else "")


@pytest.mark.parametrize(("more", "verdict"), [(0, "there"), (1, "unchecked")])
def test_a_token_comes_in_at_most_a_quarter_of_one(registry: Callable[..., Server], more: int, verdict: str) -> None:
    most, body = 256 * 1024, json.dumps({"token": "t"}).encode()
    realm = registry(lambda _, handler: say(handler, 200, body + b" " * (most - len(body) + more)))

    def answers(asked: Asked, handler: Any) -> None:
        if "authorization" in asked.headers:
            say(handler, 200, INDEX)
        else:
            say(handler, 401, WWW_Authenticate=f'Bearer realm="https://{realm.address}/t"')

    assert asked_for(registry(answers), "a:1").verdict == verdict


def test_who_does_not_answer_is_told() -> None:
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        late = read_image_name(f"{address}/a:1")
        # No name of a host has a part that long, so nobody needs to be asked.
        unknown = f"{'a' * 64}.example"
        nobody = read_image_name(f"{unknown}/a:1")
        assert late
        assert nobody
        assert ask_all([late, nobody], seconds=0.2) == [
            Said("unchecked", f"{address} did not answer in time"),
            Said("unchecked", f"{unknown} is not known here"),
        ]
        # A program that has its answers is not kept from its end by who has none.
        assert all(one.daemon for one in set(threading.enumerate()) - before)
    (gone,) = ask_all([late], seconds=2)
    assert gone == Said("unchecked", "127.0.0.1 cannot be reached from here")


@pytest.mark.parametrize("place", ["https:///x", "https://u@127.0.0.1/x", "https://:p@127.0.0.1/x"])
def test_where_it_sends_to_must_be_a_host_and_nobody_s_log_in(registry: Callable[..., Server], place: str) -> None:
    """Without a host it would be this machine."""
    server = registry(lambda _, handler: say(handler, 401, WWW_Authenticate=f'Bearer realm="{place}"'))
    assert asked_for(server, "a:1") == Said("unchecked", "it sends to an address without TLS")


def test_a_redirection_to_a_host_alone_is_one_to_its_root(registry: Callable[..., Server]) -> None:
    other = registry(lambda _, handler: say(handler, 200, INDEX))
    server = registry(lambda _, handler: say(handler, 307, Location=f"https://{other.address}?a=1"))
    assert asked_for(server, "a:1").verdict == "there"
    assert [one.path for one in other.asked] == ["/?a=1"]


def test_an_address_is_looked_up_once_and_that_one_is_connected_to(
    registry: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another look-up could give another address, which nobody has judged."""
    looked_up, real = [], socket.getaddrinfo

    def counting(host: str, *args: Any, **named: Any) -> Any:
        looked_up.append(host)
        return real(host, *args, **named)

    server = registry(lambda _, handler: say(handler, 200, INDEX))
    monkeypatch.setattr(socket, "getaddrinfo", counting)
    assert asked_for(server, "a:1").verdict == "there"
    assert looked_up == ["127.0.0.1"]


def test_without_a_port_it_is_that_of_https(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def nobody(host: str, port: object, **_: object) -> None:
        asked.append((host, port))
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    image = read_image_name("r.example/a:1")
    assert image
    assert ask_all([image]) == [Said("unchecked", "r.example is not known here")]
    assert asked == [("r.example", 443)]


# ---------------------------------------------------------------- what follows


def placed(text: str = f"r.example/a@{D}", *architectures: str) -> PlacedImage:
    return PlacedImage("gpu-pools:verification.image", text, True, "the verifiers", frozenset(architectures))  # noqa: FBT003


THERE = Said("there", digest=D, platforms=frozenset({"linux/arm64", "linux/amd64"}))


def test_an_image_that_is_there_is_no_problem() -> None:
    verdict = ImageVerdict(placed(f"r.example/a@{D}", "amd64", "arm64"), THERE)
    assert (verdict.problem, verdict.warning, verdict.text) == (None, "", "there, for linux/amd64, linux/arm64")
    assert verdict.as_json() == {
        "key": "gpu-pools:verification.image",
        "image": f"r.example/a@{D}",
        "given": True,
        "byDigest": True,
        "pods": "the verifiers",
        "registry": {"verdict": "there", "why": "", "digest": D, "platforms": ["linux/amd64", "linux/arm64"]},
    }


def test_what_was_not_read_is_null_for_machines() -> None:
    assert ImageVerdict(placed(), None).as_json()["registry"] is None
    told = ImageVerdict(placed(), Said("unchecked", "too slow")).as_json()["registry"]
    assert told == {"verdict": "unchecked", "why": "too slow", "digest": None, "platforms": []}


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (None, "not asked"),
        (Said("there"), "there"),
        (Said("unchecked", "too slow"), "not checked: too slow"),
        (Said("unchecked", "too slow", platforms=frozenset()), "not checked: too slow"),
    ],
)
def test_what_nobody_has_said_is_no_problem(said: Said | None, text: str) -> None:
    verdict = ImageVerdict(placed(f"r.example/a@{D}", "amd64"), said)
    assert (verdict.problem, verdict.text) == (None, text)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (Said("absent", "r.example has no such image"), "Name an image that is there"),
        (Said("other", "it has another digest", D), "Trust neither"),
    ],
)
def test_an_image_that_is_not_what_was_named_is_a_problem(said: Said, remedy: str) -> None:
    verdict = ImageVerdict(placed("r.example/a:1"), said)
    problem = verdict.problem
    assert problem
    assert (problem.path, problem.message) == ("gpu-pools:verification.image", f"r.example/a:1: {said.why}")
    assert problem.remedy
    assert problem.remedy.startswith(remedy)
    assert verdict.text == said.why
    # The digest of what nobody should run is not advised.
    assert "now it is" not in verdict.warning


def test_an_image_for_other_processors_is_a_problem() -> None:
    only = Said("there", digest=D, platforms=frozenset({"linux/arm64", "windows/amd64"}))
    problem = ImageVerdict(placed("r.example/a:1", "amd64", "arm64"), only).problem
    assert problem
    assert problem.message == "r.example/a:1 is not for linux/amd64, which nodes of this stack are"
    assert problem.allowed == "an image for linux/amd64; this one is for linux/arm64, windows/amd64"
    assert ImageVerdict(placed("r.example/a:1", "arm64"), only).problem is None
    assert ImageVerdict(placed("r.example/a:1"), only).problem is None


def test_the_digest_to_write_instead_of_a_tag_is_advised_where_it_is_known() -> None:
    by_tag = "gpu-pools:verification.image names r.example/a:1 by tag, and whoever can push it there decides what runs (W91)"
    for said in (None, Said("unchecked", "too slow"), Said("other", "another", D)):
        assert ImageVerdict(placed("r.example/a:1"), said).warning == by_tag
    assert ImageVerdict(placed("r.example/a:1"), THERE).warning == f"{by_tag}; now it is r.example/a:1@{D}"
    assert ImageVerdict(placed("r.example/a:1", "s390x"), THERE).warning == by_tag


@pytest.mark.parametrize(
    ("stack", "pods"),
    [
        (aks(), {"nodeFeatureDiscovery.markerImage": "the pools' labellers, the waits around labels"}),
        (
            aks(verification={"smokeTest": True}),
            {
                "nodeFeatureDiscovery.markerImage": "the pools' labellers, the waits around labels",
                "verification.image": "the verifiers",
                "verification.smokeTestImage": "the smoke tests",
            },
        ),
        (
            existing(verification={}),
            {
                "nodeFeatureDiscovery.markerImage": "the pools' labellers, the waits around labels",
                "verification.image": "the verifiers, the Job that cleans the nodes after a destroy",
            },
        ),
        (
            existing(verification={"enabled": False, "smokeTest": True}),
            {
                "nodeFeatureDiscovery.markerImage": "the pools' labellers, the waits around labels",
                "verification.image": "the Job that cleans the nodes after a destroy",
            },
        ),
    ],
)
def test_which_pods_run_which_image(stack: str, pods: dict[str, str]) -> None:
    images = placed_images(plan_of(stack).settings)
    assert {image.path.removeprefix("gpu-pools:"): image.pods for image in images} == pods
    assert all(image.path.startswith("gpu-pools:") for image in images)


@pytest.mark.parametrize("key", ["gh200-144gb", "gb200-186gb", "gb300-278gb"])
def test_boards_with_a_grace_processor_are_arm64(key: str) -> None:
    for image in placed_images(plan_of(existing({"gpuModel": key})).settings):
        assert image.architectures == {"arm64"}


def test_an_image_that_nobody_has_checked_is_not_taken_for_pinned() -> None:
    strange = placed("not a name")
    assert (strange.name, strange.pinned) == (None, False)
