"""Names of images as runtimes read them, and what a stack says of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.cli.main import main
from gpu_pools.images.placed import placed_images
from gpu_pools.plan.document import plan_json
from gpu_pools.reading.image_names import by_digest, read_image_name
from gpu_pools.text.errors import InvalidStackError
from tests.unit.stacks import aks, existing, magnum, plan_of

if TYPE_CHECKING:
    from pathlib import Path

D = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("text", "registry", "repository", "reference"),
    [
        ("busybox", "docker.io", "library/busybox", "latest"),
        ("busybox:1.37", "docker.io", "library/busybox", "1.37"),
        (f"busybox:1.37@{D}", "docker.io", "library/busybox", D),
        ("bitnami/kubectl:1", "docker.io", "bitnami/kubectl", "1"),
        ("docker.io/busybox:1", "docker.io", "library/busybox", "1"),
        ("index.docker.io/library/busybox:1", "docker.io", "library/busybox", "1"),
        ("nvcr.io/nvidia/k8s/cuda-sample:vectoradd", "nvcr.io", "nvidia/k8s/cuda-sample", "vectoradd"),
        ("mcr.microsoft.com/a__b/c--d:1", "mcr.microsoft.com", "a__b/c--d", "1"),
        ("localhost/a:1", "localhost", "a", "1"),
        ("localhost:5000/a", "localhost:5000", "a", "latest"),
        ("[::1]:5000/a:1", "[::1]:5000", "a", "1"),
        ("Registry/a:1", "Registry", "a", "1"),
        (f"r.example/a@sha512:{'b' * 128}", "r.example", "a", f"sha512:{'b' * 128}"),
        ("index.docker.io/busybox:1", "docker.io", "library/busybox", "1"),
        ("index.docker.io", "docker.io", "library/index.docker.io", "latest"),
        ("r.example/busybox", "r.example", "busybox", "latest"),
        ("[fe80:0::AF]/a:1", "[fe80:0::AF]", "a", "1"),
        (f"r.example/{'a' * 255}:1", "r.example", "a" * 255, "1"),
        (f"a/b:{'t' * 128}", "docker.io", "a/b", "t" * 128),
        ("a/b:_", "docker.io", "a/b", "_"),
        ("r-1.ex-ample:65535/a_b/c.d/e-f:A.b-c_D", "r-1.ex-ample:65535", "a_b/c.d/e-f", "A.b-c_D"),
    ],
)
def test_a_name(text: str, registry: str, repository: str, reference: str) -> None:
    name = read_image_name(text)
    assert name
    assert (name.registry, name.repository, name.reference) == (registry, repository, reference)
    assert name.pinned == ("@" in text)
    written, _, digest = text.partition("@")
    tag = written.rpartition("/")[2].partition(":")[2]
    assert (name.tag, name.digest) == (tag, digest)
    assert name.server == ("registry-1.docker.io" if registry == "docker.io" else registry)


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "a:", "a@", "a:1:2", "a b:1", "a/:1", "/a:1", "a//b:1", "A:1", "docker.io/A:1", "a.:1", "a___b:1", "a:-1"),
        *(
            "a@sha256:abc",
            f"a@sha256:{'A' * 64}",
            f"a@md5:{'a' * 32}",
            "https://r.example/a:1",
            "r.example:x/a:1",
            "-r.example/a:1",
        ),
        *(
            f"r.example/{'a' * 256}:1",
            f"a:{'t' * 129}",
            "a:1\n",
            "a\u202e:1",
            "é:1",
            "r.example/../a:1",
            "user@r.example/a:1",
            "a?x=1",
        ),
        "a#b",
    ],
)
def test_no_name(text: str) -> None:
    assert read_image_name(text) is None


def test_a_name_with_another_digest_keeps_its_tag() -> None:
    assert by_digest("r.example/a:1", D) == f"r.example/a:1@{D}"
    assert by_digest(f"r.example/a:1@sha256:{'b' * 64}", D) == f"r.example/a:1@{D}"


@pytest.mark.parametrize("stack", [aks, magnum, existing])
def test_our_own_images_need_no_warning(stack: Any) -> None:
    plan = plan_of(stack(verification={"smokeTest": True}))
    assert {image.given for image in placed_images(plan.settings)} == {False}
    assert "W91" not in json.dumps(plan_json(plan))


def test_tags_are_warned_of_once_and_the_stack_goes_on() -> None:
    labellers, smoke = {"markerImage": "r.example/sh:1"}, {"smokeTest": True, "smokeTestImage": "r.example/cuda:1"}
    pools = [{"name": name, "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "whole"} for name in ("a", "b")]
    plan = plan_of(aks(pools=pools, nodeFeatureDiscovery=labellers, verification=smoke))
    first, second = ([one for one in pool.warnings if "W91" in one] for pool in plan.pools)
    assert [one.partition(" by tag")[0] for one in first] == [
        "gpu-pools:nodeFeatureDiscovery.markerImage names r.example/sh:1",
        "gpu-pools:verification.smokeTestImage names r.example/cuda:1",
    ]
    assert second == []


def test_an_image_that_nothing_runs_is_not_told_of() -> None:
    plan = plan_of(aks(verification={"smokeTestImage": "r.example/cuda:1"}))
    assert "W91" not in json.dumps(plan_json(plan))


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("verification", "image", f"r.example/PY@{D}"),
        ("verification", "smokeTestImage", "r.example/Cuda:1"),
        ("verification", "smokeTestImage", "r.example/cuda@sha256:12"),
        ("nodeFeatureDiscovery", "markerImage", "https://r.example/sh:1"),
    ],
)
def test_what_no_runtime_reads_is_refused(section: str, key: str, value: str) -> None:
    with pytest.raises(InvalidStackError) as refused:
        plan_of(aks(**{section: {key: value}}))
    (problem,) = refused.value.problems
    assert problem.path == f"gpu-pools:{section}.{key}"
    assert "the rest in lower case" in problem.remedy
    assert "sha256: with 64 hexadecimal digits" in problem.remedy


def test_the_nodes_processors_are_known_where_the_hardware_says_it() -> None:
    (pool,) = {image.architectures for image in placed_images(plan_of(aks()).settings)}
    assert pool == {"amd64"}
    grace = plan_of(aks({"vmSize": "Standard_ND128isr_NDR_GB200_v6"}))
    assert {image.architectures for image in placed_images(grace.settings)} == {frozenset({"arm64"})}
    board = plan_of(existing({"gpuModel": "gh200-144gb"}))
    assert {image.architectures for image in placed_images(board.settings)} == {frozenset({"arm64"})}
    assert {image.architectures for image in placed_images(plan_of(existing()).settings)} == {frozenset()}


def test_the_command_asks_nobody_where_it_must_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = tmp_path / "Pulumi.x.yaml"
    stack.write_text(aks(nodeFeatureDiscovery={"markerImage": "r.example/sh:1"}))
    assert main(["images", str(stack), "--offline", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(one["image"], one["byDigest"], one["given"], one["registry"]) for one in document["images"]] == [
        ("r.example/sh:1", False, True, None)
    ]
    assert len(document["warnings"]) == 1


def test_a_stack_that_is_refused_has_no_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = tmp_path / "Pulumi.x.yaml"
    stack.write_text(aks({"count": -1}))
    assert main(["images", str(stack)]) == 2
    assert "1 problem in the stack file" in capsys.readouterr().err
