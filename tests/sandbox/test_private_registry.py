"""A registry that knows one user, asked by real clients: helm for the charts, and with the Secret that a stack gives its pods.

The registry is distribution's own, on loopback, with TLS and tokens. A kubelet that pulls with the Secret:
tests/sandbox/real_node/test_private_pull.py.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.cli.main import main
from gpu_pools.rendering.registry import docker_config
from sandbox.providers.chart_sources import STAND_INS, ChartError, ChartRequest, ChartSources
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built, find_tools
from tests.registries import hand_out_to, make_trust, running
from tests.unit.stacks import aks, plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.registries import Registry

pytestmark = [pytest.mark.programs, pytest.mark.sweep]

USER, PASSWORD = "robot", "of-the-tests"
#: None that the sandbox has a stand-in of.
VERSION = "9.9.9"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    trust = make_trust(tmp_path_factory.mktemp("registry"))
    program = find_built("registry", Progress()) / "registry"
    with running(program, trust, hand_out_to(trust, USER, PASSWORD)) as found:
        yield found


@pytest.fixture(scope="module")
def helm() -> str:
    return str(find_tools(Progress(), only={"helm"}).helm)


def _fresh(registry: Registry, folder: Path) -> dict[str, str]:
    """An environment in which nobody has logged in yet."""
    homes = {name: str(folder / name) for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "DOCKER_CONFIG")}
    return {**os.environ, **homes, "SSL_CERT_FILE": registry.trust.authority}


@pytest.fixture
def around(registry: Registry, tmp_path: Path) -> dict[str, str]:
    return _fresh(registry, tmp_path)


@pytest.fixture(scope="module")
def pushed(registry: Registry, helm: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The operator's chart (the sandbox's own) in the registry, pushed by helm."""
    folder = tmp_path_factory.mktemp("pushed")
    for command in (
        ["package", str(STAND_INS / "gpu-operator"), "--version", VERSION, "--destination", str(folder)],
        ["registry", "login", registry.address, "-u", USER, "-p", PASSWORD],
        ["push", str(folder / f"gpu-operator-{VERSION}.tgz"), f"oci://{registry.address}/charts"],
    ):
        done = subprocess.run([helm, *command], env=_fresh(registry, folder), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return f"oci://{registry.address}/charts/gpu-operator"


def _pull(helm: str, address: str, around: dict[str, str]) -> str:
    sources = ChartSources(lambda: helm, reachable=lambda _: True)
    return sources.find(ChartRequest(address, VERSION), around).version()


def test_a_chart_is_had_by_who_has_logged_in_before(registry: Registry, helm: str, pushed: str, around: dict[str, str]) -> None:
    with pytest.raises(ChartError, match=r"401|unauthorized"):
        _pull(helm, pushed, around)
    login = [helm, "registry", "login", registry.address, "-u", USER, "--password-stdin"]
    refused = subprocess.run(login, env=around, input="another", capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    subprocess.run(login, env=around, input=PASSWORD, capture_output=True, text=True, check=True)
    assert _pull(helm, pushed, around) == VERSION


@pytest.mark.sweep
def test_what_the_secret_of_a_stack_s_pods_holds_lets_a_client_in(
    registry: Registry, helm: str, pushed: str, around: dict[str, str], tmp_path: Path
) -> None:
    settings = plan_of(_stack(registry)).settings.registry
    assert settings.username
    assert settings.password
    file = tmp_path / "config.json"
    for password, lets_in in (("another", False), (settings.password, True)):
        file.write_text(docker_config(settings.server, settings.username, password))
        environment = {**around, "HELM_REGISTRY_CONFIG": str(file)}
        if lets_in:
            assert _pull(helm, pushed, environment) == VERSION
        else:
            with pytest.raises(ChartError):
                _pull(helm, pushed, environment)


def test_the_command_that_looks_at_images_does_not_log_in(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither with what the stack says, nor with what Docker's configuration has."""
    (tmp_path / "config.json").write_text(docker_config(registry.address, USER, PASSWORD))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("SSL_CERT_FILE", registry.trust.authority)
    (tmp_path / "Pulumi.mirrored.yaml").write_text(_stack(registry))
    registry.realm.asked.clear()
    assert main(["images", str(tmp_path / "Pulumi.mirrored.yaml")]) == 0
    said = capsys.readouterr().out
    assert f"{registry.address}/mirror/library/busybox" in said
    assert "log in" in said
    assert registry.realm.asked
    assert not [one for one in registry.realm.asked if "authorization" in one.headers]


def _stack(registry: Registry) -> str:
    section: Any = {"mirror": f"{registry.address}/mirror", "username": USER, "password": PASSWORD}
    return aks(registry=section)
