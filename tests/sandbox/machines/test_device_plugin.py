from __future__ import annotations

import pytest

from sandbox.cluster.machine_groups import Hardware
from sandbox.machines.device_plugin import Advertised, Crash, advertise, mps_daemon
from sandbox.machines.gpu import Gpu, cleared, new_gpus, with_layout
from sandbox.machines.plugin_config import MissingFile, read_plugin_config

A100 = Hardware(24, 220, "a100-80gb", None, 2)
SHARING = "version: v1\nsharing: {{{kind}: {{{options}resources: [{{name: {name}, replicas: {replicas}}}]}}}}"


def gpus(layout: dict[str, int] | None = None, hardware: Hardware = A100) -> tuple[Gpu, ...]:
    plain = new_gpus("node", hardware, None)
    return plain if layout is None else tuple(with_layout(gpu, layout) or gpu for gpu in plain)


def sharing(kind: str, replicas: object, name: str = "nvidia.com/gpu", options: str = "") -> str:
    return SHARING.format(kind=kind, replicas=replicas, name=name, options=options)


def resources(
    text: str | None, strategy: str | None = None, on: tuple[Gpu, ...] | None = None, *, mps: bool = False
) -> dict[str, int]:
    answer = advertise(text, strategy, gpus() if on is None else on, mps_daemon=mps)
    assert isinstance(answer, Advertised), answer
    return dict(answer.resources)


def crash(text: str | None, strategy: str | None = None, on: tuple[Gpu, ...] | None = None) -> str:
    answer = advertise(text, strategy, gpus() if on is None else on, mps_daemon=True)
    assert isinstance(answer, Crash), answer
    return answer.message


def test_sharing_of_full_gpus() -> None:
    assert resources(None) == {"nvidia.com/gpu": 2}
    assert resources(sharing("timeSlicing", 4)) == {"nvidia.com/gpu": 8}
    assert resources(sharing("timeSlicing", 4, "gpu")) == {"nvidia.com/gpu": 8}
    assert resources(sharing("timeSlicing", 4, options="renameByDefault: true, ")) == {"nvidia.com/gpu.shared": 8}
    assert resources(sharing("mps", 10), mps=True) == {"nvidia.com/gpu": 20}


def test_mps_wins_over_time_slicing_without_a_word() -> None:
    both = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4}]}, mps: {resources: [{name: gpu, replicas: 3}]}}"
    assert resources(both, mps=True) == {"nvidia.com/gpu": 6}


def test_mig_strategies() -> None:
    seven = gpus({"1g.10gb": 7})
    assert resources(None, "single", seven) == {"nvidia.com/gpu": 14}
    assert resources(None, "mixed", seven) == {"nvidia.com/mig-1g.10gb": 14}
    assert resources(None, None, seven) == {"nvidia.com/gpu": 2}
    assert resources(None, "mixed", gpus({"3g.40gb": 1, "1g.10gb+me": 1})) == {
        "nvidia.com/mig-3g.40gb": 2,
        "nvidia.com/mig-1g.10gb.me": 2,
    }
    assert resources(None, "single") == {"nvidia.com/gpu": 2}


def test_mixed_advertises_full_gpus_beside_mig_ones() -> None:
    half = (gpus()[0], gpus({"2g.20gb": 3})[1])
    assert resources(None, "mixed", half) == {"nvidia.com/gpu": 1, "nvidia.com/mig-2g.20gb": 3}


def test_time_slicing_of_mig_instances() -> None:
    layout = gpus({"3g.40gb": 1, "1g.10gb": 2})
    assert resources(sharing("timeSlicing", 3, "nvidia.com/mig-1g.10gb"), "mixed", layout) == {
        "nvidia.com/mig-3g.40gb": 2,
        "nvidia.com/mig-1g.10gb": 12,
    }
    renamed = sharing("timeSlicing", 3, "nvidia.com/mig-1g.10gb", "renameByDefault: true, ")
    assert resources(renamed, "mixed", layout)["nvidia.com/mig-1g.10gb.shared"] == 12


def test_the_environment_beats_the_file() -> None:
    seven = gpus({"1g.10gb": 7})
    assert resources("flags: {migStrategy: single}", None, seven) == {"nvidia.com/gpu": 14}
    assert resources("flags: {migStrategy: single}", "mixed", seven) == {"nvidia.com/mig-1g.10gb": 14}
    assert resources("flags: {migStrategy: single}", "", seven) == {"nvidia.com/gpu": 14}


def test_the_three_errors_of_the_single_strategy() -> None:
    empty = tuple(cleared(gpu, mig_enabled=True) for gpu in gpus())
    assert "has no MIG devices configured" in crash(None, "single", empty)
    assert "more than one MIG device type" in crash(None, "single", gpus({"3g.40gb": 1, "2g.20gb": 2}))
    assert "same migEnabled value" in crash(None, "single", (gpus()[0], gpus({"1g.10gb": 7})[1]))
    assert resources(None, "mixed", empty) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (sharing("timeSlicing", 1), "number of replicas must be >= 2"),
        (sharing("mps", 0), "number of replicas must be >= 2"),
        (sharing("timeSlicing", '"4"'), "cannot unmarshal string into Go value of type int"),
        (sharing("timeSlicing", 4.5), "cannot unmarshal number"),
        (sharing("timeSlicing", 4, "GPU_0"), "incorrect format for resource name"),
        (sharing("timeSlicing", 4, "x" * 60), "must be 63 characters or less"),
        ("sharing: {timeSlicing: {resources: []}}", "no resources specified"),
        ("sharing: {timeSlicing: {}}", "no resources specified"),
        ("sharing: {timeSlicing: null}", "no resources specified"),
        ("sharing: {mps: {renameByDefault: true}}", "no resources specified"),
        ("sharing: {timeSlicing: {resources: [{replicas: 4}]}}", "no resource name specified"),
        ("sharing: {timeSlicing: {resources: [{name: gpu}]}}", "no replicas specified"),
        ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: some}]}}", "only valid string input is 'all'"),
        ("sharing: {timeSlicing: {renameByDefault: 'yes', resources: [{name: gpu, replicas: 2}]}}", "of type bool"),
        ("sharing: [1]", "cannot unmarshal array"),
        ("version: v2", "unknown version: v2"),
        ("version: 1", "unknown version: 1"),
        ("flags: {migStrategy: all}", "unknown MIG strategy: all"),
        ("flags: {failOnInitError: 'true'}", "cannot unmarshal string"),
        ("flags: {plugin: {deviceIDStrategy: name}}", "invalid --device-id-strategy"),
        ("imex: {channelIDs: [1]}", "invalid IMEX channel IDs"),
        ("just text", "cannot unmarshal string"),
        ("a: [", "converting YAML"),
    ],
)
def test_what_makes_the_plugin_exit(text: str, message: str) -> None:
    assert message in crash(text)


def test_unknown_and_misplaced_keys_vanish_in_silence() -> None:
    assert resources("flags: {renameByDefault: true}\nsharring: {}\n") == {"nvidia.com/gpu": 2}
    assert resources("sharing: {timeslicing: {resources: [{name: gpu, replicas: 4}]}}") == {"nvidia.com/gpu": 8}


def test_rename_and_devices_are_ignored_with_a_warning() -> None:
    text = "sharing: {timeSlicing: {resources: [{name: gpu, rename: fast, replicas: 2, devices: [0]}]}}\nresources: {gpus: []}"
    assert resources(text) == {"nvidia.com/gpu": 4}
    assert len(read_plugin_config(text).warnings) == 3


def test_mps_needs_its_daemon_and_full_gpus() -> None:
    assert resources(sharing("mps", 10), mps=False) == {}
    assert "mixed is not supported with MPS" in crash(sharing("mps", 10), "mixed")
    assert "not supported for MIG devices" in crash(sharing("mps", 10), "single", gpus({"1g.10gb": 7}))


def test_the_mps_daemon_has_a_limit() -> None:
    old = gpus(hardware=Hardware(6, 112, "v100-16gb", None, 1))
    assert mps_daemon(sharing("mps", 48), None, gpus()) == 48
    assert mps_daemon(sharing("timeSlicing", 4), None, gpus()) is None
    assert isinstance(mps_daemon(sharing("mps", 49), None, gpus()), Crash)
    assert isinstance(mps_daemon(sharing("mps", 17), None, old), Crash)
    assert mps_daemon(sharing("mps", 16), None, old) == 16


def test_one_unit_per_request() -> None:
    def limited(text: str) -> frozenset[str]:
        answer = advertise(text, None, gpus(), mps_daemon=True)
        assert isinstance(answer, Advertised)
        return answer.one_per_request

    assert limited(sharing("timeSlicing", 4)) == frozenset()
    assert limited(sharing("timeSlicing", 4, options="failRequestsGreaterThanOne: true, ")) == {"nvidia.com/gpu"}
    assert limited(sharing("mps", 4)) == {"nvidia.com/gpu"}
    assert limited(sharing("mps", 4, options="failRequestsGreaterThanOne: false, ")) == frozenset()


def test_a_link_that_leads_nowhere_ends_them() -> None:
    for answer in (advertise(MissingFile(), None, gpus(), mps_daemon=False), mps_daemon(MissingFile(), None, gpus())):
        assert isinstance(answer, Crash)
        assert answer.message.endswith("error opening config file: open /config/config.yaml: no such file or directory")
