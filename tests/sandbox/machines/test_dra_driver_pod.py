"""Which pods run the DRA driver, with what, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from sandbox.cluster.machine_groups import Hardware, MachineGroup
from sandbox.machines.device_plugin import Crash
from sandbox.machines.dra_driver_pod import DraDriverPod
from sandbox.machines.gfd import Driver
from sandbox.machines.machine import Machine
from sandbox.machines.node_programs import DraDriver, DraDriverRequest
from sandbox.machines.outcomes import Creating, InitWaiting, Outcome, Up
from sandbox.machines.programs import Context
from sandbox.machines.ruled import RuledPrograms

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sandbox.machines.node_programs import NodePrograms
    from sandbox.machines.world import World

SCRIPT = 'if [ "$X" = true ]; then\n  true\nfi\ngpu-kubelet-plugin -v $(LOG_VERBOSITY)'
HARDWARE = Hardware(4, 16, "t4-16gb", "Tesla T4", 1)
INIT = "init-container"


def driver_pod(*, inits: bool = True, more: Mapping[str, str] | None = None, drop: str = "", **container: Any) -> dict[str, Any]:
    usual = {
        "NVIDIA_DRIVER_ROOT": "/run/nvidia/driver",
        "CDI_ROOT": "/var/run/cdi",
        "KUBELET_PLUGINS_DIRECTORY_PATH": "/var/lib/kubelet/plugins",
        "KUBELET_REGISTRAR_DIRECTORY_PATH": "/var/lib/kubelet/plugins_registry",
        "HTTP_ENDPOINT": ":8080",
        "LOG_VERBOSITY": "4",
        "CONSUMABLE_SHARES": "4",
        "IMAGE_NAME": "image",
        **(more or {}),
    }
    env: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in usual.items() if name != drop]
    env += [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    env += [{"name": "SERVICE_ACCOUNT_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}}]
    main = {"name": "gpus", "command": ["bash", "-c"], "args": [SCRIPT], "env": env, "startupProbe": {"grpc": {}}, **container}
    spec: dict[str, Any] = {"nodeName": "node", "serviceAccountName": "account", "containers": [main]}
    if inits:
        spec["initContainers"] = [{"name": INIT, "command": ["bash", "/usr/bin/kubelet-plugin-prestart.sh"]}]
    return {"metadata": {"name": "pod", "namespace": "space", "uid": "u", "labels": {}}, "spec": spec, "status": {}}


@dataclass
class Programs:
    answer: DraDriver | Crash | None = field(default_factory=lambda: DraDriver(registered=True))
    asked: list[DraDriverRequest] = field(default_factory=list)
    kept: list[frozenset[str]] = field(default_factory=list)

    def serve_claims(self, machine: Machine, request: DraDriverRequest) -> DraDriver | Crash | None:
        del machine
        self.asked.append(request)
        return self.answer

    def keep_dra_drivers(self, machine: Machine, pods: frozenset[str]) -> None:
        del machine
        self.kept.append(pods)


class _Api:
    server = "https://127.0.0.1:1"


@dataclass
class _World:
    pods: list[dict[str, Any]]
    api: _Api = field(default_factory=_Api)

    def pods_on(self, node: str) -> list[dict[str, Any]]:
        assert node == "node"
        return self.pods


def evaluated(
    programs: Any,
    pod: dict[str, Any],
    *,
    preinstalled: bool = False,
    loaded: bool = True,
    others: tuple[dict[str, Any], ...] = (),
) -> Outcome:
    group = MachineGroup("gpu", "gpu", 1, HARDWARE, driver_preinstalled=preinstalled)
    machine = Machine("node", group, driver=Driver("580.95.05", "13.0") if loaded else None)
    world = cast("World", _World([pod, *others]))
    return DraDriverPod(cast("NodePrograms", programs)).evaluate(Context(world, machine, {}, pod, {}, {"gpus": 2}))


@pytest.mark.parametrize(
    ("container", "runs"),
    [
        ({}, True),
        ({"command": ["/usr/bin/gpu-kubelet-plugin"], "args": ["-v", "4"]}, True),
        ({"command": ["gpu-kubelet-plugin"], "args": []}, True),
        ({"args": ["echo gpu-kubelet-plugin"]}, False),
        ({"args": ["gpu-kubelet-plugin -v 4\nsleep 1"]}, False),
        ({"command": [], "args": []}, False),
        ({"args": ["compute-domain-kubelet-plugin"]}, False),
    ],
)
def test_a_driver_s_pod_is_known_by_its_command(container: dict[str, Any], runs: bool) -> None:  # noqa: FBT001
    assert DraDriverPod(cast("NodePrograms", Programs())).runs(driver_pod(**container)) is runs


def test_the_program_gets_the_variables_that_it_decides_by() -> None:
    programs = Programs()
    assert evaluated(programs, driver_pod()) == Up()
    [request] = programs.asked
    assert request.environment == {
        "NODE_NAME": "node",
        "SERVICE_ACCOUNT_NAME": "account",
        "IMAGE_NAME": "image",
        "NVIDIA_DRIVER_ROOT": "/run/nvidia/driver",
        "CONSUMABLE_SHARES": "4",
    }
    assert (request.pod, request.attempt, request.verbosity, request.has_driver) == ("u", 2, "4", True)


@pytest.mark.parametrize(
    ("root", "preinstalled", "loaded", "starts"),
    [
        ("/run/nvidia/driver", False, True, True),
        ("/run/nvidia/driver/", False, True, True),
        ("/run/nvidia/driver", False, False, False),
        ("/", True, True, True),
        ("", True, True, True),
        # Where the driver is not, the container of the real pod waits as well.
        ("/", False, True, False),
        ("/run/nvidia/driver", True, True, False),
    ],
)
def test_it_waits_until_the_driver_is_where_it_looks_for_it(
    root: str,
    preinstalled: bool,  # noqa: FBT001
    loaded: bool,  # noqa: FBT001
    starts: bool,  # noqa: FBT001
) -> None:
    programs = Programs()
    outcome = evaluated(
        programs, driver_pod(more={"NVIDIA_DRIVER_ROOT": root}), preinstalled=preinstalled, loaded=loaded
    )  # fmt: skip
    assert outcome == (Up() if starts else InitWaiting(INIT))
    assert len(programs.asked) == starts


def test_a_pod_that_does_not_wait_starts_and_the_program_finds_no_driver() -> None:
    programs = Programs()
    evaluated(programs, driver_pod(inits=False), loaded=False)
    assert [request.has_driver for request in programs.asked] == [False]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (None, InitWaiting(INIT)),
        (DraDriver(registered=False), Up(unready=frozenset({"gpus"}))),
        (Crash("no brand", 7), Up({"gpus": "no brand"}, {"gpus": 7})),
    ],
)
def test_its_pod_is_as_ready_as_the_program(answer: DraDriver | Crash | None, outcome: Outcome) -> None:
    assert evaluated(Programs(answer), driver_pod()) == outcome


def test_without_a_startup_probe_it_is_ready_at_once() -> None:
    assert evaluated(Programs(DraDriver(registered=False)), driver_pod(startupProbe=None)) == Up()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("CDI_ROOT", "/etc/cdi", "CDI_ROOT=/etc/cdi (only /var/run/cdi or /run/cdi)"),
        ("KUBELET_PLUGINS_DIRECTORY_PATH", "/data/plugins", "KUBELET_PLUGINS_DIRECTORY_PATH=/data/plugins (only"),
        ("KUBELET_REGISTRAR_DIRECTORY_PATH", "/data/plugins_registry", "KUBELET_REGISTRAR_DIRECTORY_PATH=/data"),
        ("FEATURE_GATES", "ConsumableShares=true, PassthroughSupport=true,", "the gate PassthroughSupport=true"),
    ],
)
def test_what_a_simulated_node_does_not_have_is_refused(name: str, value: str, words: str) -> None:
    programs = Programs()
    outcome = evaluated(programs, driver_pod(more={name: value}))
    assert isinstance(outcome, Creating)
    assert (outcome.reason, words in outcome.message) == ("CreateContainerConfigError", True)
    assert programs.asked == []


@pytest.mark.parametrize("name", ["CDI_ROOT", "KUBELET_PLUGINS_DIRECTORY_PATH", "FEATURE_GATES"])
def test_what_a_pod_does_not_say_is_as_usual(name: str) -> None:
    assert evaluated(Programs(), driver_pod(drop=name)) == Up()


def test_the_chart_s_other_program_is_not_there() -> None:
    pod = driver_pod()
    pod["spec"]["containers"].append(
        {"name": "compute-domains", "command": ["bash", "-c"], "args": ["compute-domain-kubelet-plugin"]}
    )
    outcome = evaluated(Programs(), pod)
    assert isinstance(outcome, Up)
    assert list(outcome.crashed) == ["compute-domains"]
    assert "resources.computeDomains.enabled" in outcome.crashed["compute-domains"]


def test_drivers_of_other_pods_end() -> None:
    programs, gone, plain = Programs(), driver_pod(), {"metadata": {"uid": "p"}, "spec": {"containers": [{"name": "x"}]}}
    gone["metadata"] |= {"uid": "gone", "deletionTimestamp": "now"}
    evaluated(programs, driver_pod(), others=(gone, plain))
    assert programs.kept == [frozenset({"u"})]


def test_rules_cannot_play_the_driver(tmp_path: Path) -> None:
    outcome = evaluated(RuledPrograms(tmp_path), driver_pod())
    assert isinstance(outcome, Up)
    assert "no rules for NVIDIA's DRA driver" in outcome.crashed["gpus"]
