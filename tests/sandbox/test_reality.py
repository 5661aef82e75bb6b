"""What `up` and `status` say of what is real: read off records and clusters."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.cli import reality
from sandbox.cluster import machine_groups
from sandbox.cluster.api_errors import UnreachableError
from sandbox.cluster.machine_groups import Hardware, MachineGroup
from sandbox.stack.state import Sandbox
from sandbox.system.files import make_folder, write_json
from sandbox.toolchain import plugin_releases, reach

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = {name: f"/{name}" for name in ("library", "gfd", "plugin", "migParted", "configManager", "mpsDaemon")}
OURS = {"gpu-pools/stand-in": "true"}


class Releases:
    """An API server with helm's releases."""

    def __init__(self, *charts: dict[str, Any]) -> None:
        self.charts = charts

    def list(self, path: str) -> dict[str, Any]:
        assert path == "/api/v1/secrets?labelSelector=owner%3Dhelm,status%3Ddeployed"
        packed = [gzip.compress(json.dumps({"chart": {"metadata": one}}).encode()) for one in self.charts]
        return {"items": [{"data": {"release": base64.b64encode(base64.b64encode(one)).decode()}} for one in packed]}


class Silent:
    def list(self, _path: str) -> dict[str, Any]:
        raise UnreachableError("no answer")


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    monkeypatch.setenv("GPU_POOLS_CACHE", str(tmp_path / "no-cache"))
    found = Sandbox("byo", make_folder(tmp_path / "byo"), tmp_path / "Pulumi.byo.yaml")
    folder = make_folder(found.clusters / "existing")
    write_json(folder / "cluster.json", {"nodePrograms": PROGRAMS, "gpuOperator": None})
    return found


def line(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox, api: Releases | Silent, platform: str = "existing") -> str:
    monkeypatch.setattr(reality, "shared_client", lambda _: api)
    return reality.reality(sandbox, platform)


def test_what_plays_off_the_internet(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    write_json(sandbox.providers_record, {"ports": {"kubernetes": 1, "azure-native": 2}})
    api = Releases({"name": "gpu-operator", "annotations": OURS}, {"name": "node-feature-discovery", "annotations": OURS})
    assert line(monkeypatch, sandbox, api, "aks") == (
        "Real: Pulumi, Kubernetes, helm, nfd-master, nfd-worker, NVIDIA's programs on the nodes. "
        "Stand-ins: Azure, Kubernetes plugin, chart gpu-operator, chart node-feature-discovery, GPU operator, kubelets, GPUs, "
        "MPS control program (docs/what-is-real.md)."
    )


def test_a_plugin_that_is_out_of_reach_is_told_as_that(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox, tmp_path: Path) -> None:
    monkeypatch.setenv("GPU_POOLS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(plugin_releases, "platform_name", lambda: "linux-x64")
    release = plugin_releases.release("kubernetes")
    assert release is not None
    reach.remember(release.place)
    write_json(sandbox.providers_record, {"ports": {"kubernetes": 1, "openstack": 2}})
    said = line(monkeypatch, sandbox, Silent(), "magnum")
    assert "Stand-ins: OpenStack's compute, openstack plugin, Kubernetes plugin (its release is out of reach), chart" in said
    write_json(sandbox.providers_record, {"ports": {}})
    assert "out of reach" not in line(monkeypatch, sandbox, Silent(), "magnum"), "found elsewhere meanwhile"


def test_what_plays_where_all_can_be_had(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    write_json(sandbox.providers_record, {"ports": {"azure-native": 2}})
    folder = sandbox.clusters / "existing"
    write_json(folder / "cluster.json", {"nodePrograms": PROGRAMS, "gpuOperator": {"version": "v26.7.0"}})
    machine_groups.put(folder, MachineGroup("a", "a-", 3, Hardware(4, 16), real=1))
    api = Releases({"name": "gpu-operator"}, {"name": "node-feature-discovery", "annotations": {"theirs": "x"}})
    assert line(monkeypatch, sandbox, api, "magnum") == (
        "Real: Pulumi, Kubernetes, helm, nfd-master, nfd-worker, Keystone and Magnum, openstack plugin, Kubernetes plugin, "
        "chart gpu-operator, chart node-feature-discovery, GPU operator v26.7.0, NVIDIA's programs on the nodes, "
        "1 of the nodes. Stand-ins: OpenStack's compute, the other kubelets, GPUs, MPS control program (docs/what-is-real.md)."
    )


def test_rules_and_what_cannot_be_read_are_not_called_real(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    write_json(sandbox.providers_record, {"ports": {"kubernetes": 1, "azure-native": 2}})
    write_json(sandbox.clusters / "existing" / "cluster.json", {"nodePrograms": {"rulesBecause": "no gcc"}})
    said = line(monkeypatch, sandbox, Silent())
    assert said.startswith("Real: Pulumi, Kubernetes, helm, nfd-master, nfd-worker. Stand-ins: Kubernetes plugin, ")
    assert "chart of existing (not read), GPU operator, NVIDIA's programs on the nodes, kubelets" in said
