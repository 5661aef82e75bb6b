"""What images are, asked of a real registry (distribution/distribution) with tokens, TLS and pushed manifests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpu_pools.cli.main import main
from gpu_pools.images.registry import ask_all
from gpu_pools.reading.image_names import read_image_name
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built
from tests.registries import make_trust, running
from tests.unit.stacks import aks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpu_pools.images.registry_answers import Said
    from tests.registries import Registry

pytestmark = [pytest.mark.programs, pytest.mark.sweep]
BOTH = frozenset({"linux/amd64", "linux/arm64"})
NOBODYS = f"sha256:{'0' * 64}"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    program = find_built("registry", Progress()) / "registry"
    with running(program, make_trust(tmp_path_factory.mktemp("registry"))) as found:
        yield found


@pytest.fixture(autouse=True)
def _trusted(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", registry.trust.authority)


def ask(registry: Registry, name: str) -> Said:
    image = read_image_name(f"{registry.address}/{name}")
    assert image
    (said,) = ask_all([image])
    return said


def test_a_tag_has_its_digest_and_platforms(registry: Registry) -> None:
    digest = registry.push("tools/both", "1", "amd64", "arm64")
    for name in ("tools/both:1", f"tools/both@{digest}", f"tools/both:other@{digest}"):
        said = ask(registry, name)
        assert (said.verdict, said.digest, said.platforms) == ("there", digest, BOTH)


def test_an_image_for_one_platform_says_so_in_a_document_of_its_own(registry: Registry) -> None:
    digest = registry.push("tools/one", "1", "arm64")
    said = ask(registry, "tools/one:1")
    assert (said.verdict, said.digest, said.platforms) == ("there", digest, {"linux/arm64"})


@pytest.mark.parametrize("name", ["tools/sh:2", f"tools/sh@{NOBODYS}", f"tools/nothing@{NOBODYS}", "nobody/nothing:1"])
def test_what_is_not_there(registry: Registry, name: str) -> None:
    registry.push("tools/sh", "1", "amd64")
    assert ask(registry, name).verdict == "absent"


def test_what_wants_a_log_in_is_not_checked(registry: Registry) -> None:
    registry.push("private/sh", "1", "amd64")
    said = ask(registry, "private/sh:1")
    assert (said.verdict, "do not log in" in said.why) == ("unchecked", True)


def test_the_realm_is_asked_for_one_repository_without_credentials(registry: Registry) -> None:
    registry.push("tools/asked", "1", "amd64")
    registry.realm.asked.clear()
    ask(registry, "tools/asked:1")
    (asked,) = registry.realm.asked
    assert "scope=repository%3Atools%2Fasked%3Apull" in asked.path
    assert not {"authorization", "cookie"} & set(asked.headers)


def test_attack_a_tag_moves_between_the_plan_and_the_deploy(registry: Registry) -> None:
    """Somebody pushes another image under the tag that was looked at: the digest that was advised stays what it was."""
    looked_at = registry.push("tools/moves", "1", "amd64")
    assert ask(registry, "tools/moves:1").digest == looked_at
    another = registry.push("tools/moves", "1", "arm64")
    assert ask(registry, "tools/moves:1").digest == another != looked_at
    assert ask(registry, f"tools/moves:1@{looked_at}").platforms == {"linux/amd64"}


def images(path: Path, stack: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    path.write_text(stack)
    code = main(["images", str(path), *more])
    return code, capsys.readouterr().out


def of_here(registry: Registry, marker: str, pool: str = "Standard_NC24ads_A100_v4") -> str:
    """A stack all of whose images are of the registry of the tests: nobody else is asked."""
    smoke = f"{registry.address}/tools/cuda@{registry.push('tools/cuda', '1', 'amd64', 'arm64')}"
    return aks(
        {"vmSize": pool},
        nodeFeatureDiscovery={"markerImage": f"{registry.address}/{marker}"},
        verification={"image": smoke, "smokeTest": True, "smokeTestImage": smoke},
    )


def test_the_command_advises_the_digest_that_a_tag_has_now(
    registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = registry.push("tools/sh", "9", "amd64", "arm64")
    code, shown = images(tmp_path / "Pulumi.x.yaml", of_here(registry, "tools/sh:9"), capsys)
    assert code == 0, shown
    assert f"now it is {registry.address}/tools/sh:9@{digest}" in shown
    assert shown.count("there, for linux/amd64, linux/arm64") == 3
    assert shown.splitlines()[-1].startswith("W91: ")
    code, shown = images(tmp_path / "Pulumi.x.yaml", of_here(registry, f"tools/sh:9@{digest}"), capsys)
    assert (code, "warning" in shown) == (0, False)


def test_the_command_ends_with_1_where_an_image_is_not_there(
    registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = images(tmp_path / "Pulumi.x.yaml", of_here(registry, f"tools/sh@{NOBODYS}"), capsys)
    assert code == 1
    assert "gpu-pools:nodeFeatureDiscovery.markerImage: " in shown
    assert "has no such image" in shown


def test_the_command_ends_with_1_where_an_image_is_for_other_nodes(
    registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = registry.push("tools/amd", "1", "amd64")
    stack = of_here(registry, f"tools/amd@{digest}", pool="Standard_ND128isr_NDR_GB200_v6")
    code, shown = images(tmp_path / "Pulumi.x.yaml", stack, capsys, "--json")
    document = json.loads(shown)
    (problem,) = document["errors"]
    assert (code, problem["message"]) == (
        1,
        f"{registry.address}/tools/amd@{digest} is not for linux/arm64, which nodes of this stack are",
    )
    assert {one["registry"]["verdict"] for one in document["images"]} == {"there"}
