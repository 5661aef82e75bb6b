"""The real nvidia-device-plugin loads what the plan renders and serves what the plan says that the node advertises.

Also what it crashes on and what it ignores, which the plan therefore refuses or cannot write.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from gpu_pools.allocation.device_plugin import device_plugin_config
from gpu_pools.hardware.models import model
from gpu_pools.hardware.node import Hardware
from gpu_pools.plan.expectation import advertised
from gpu_pools.sharing.exclusive import Exclusive
from gpu_pools.sharing.mig import Mig
from gpu_pools.sharing.mode import GpuLayout
from gpu_pools.sharing.mps import Mps
from gpu_pools.sharing.time_slicing import TimeSlicing
from sandbox.nvml import from_tables, simulated
from tests.sandbox.real.device_plugin import Plugin, put_mps_daemon
from tests.sandbox.real.partitioned import partitioned
from tests.tiers import these

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpu_pools.allocation.device_plugin import FlagMigStrategy
    from gpu_pools.sharing.mode import Sharing
    from sandbox.cluster.gpu_host import GpuHost

pytestmark = pytest.mark.programs

VERSIONS: Final = ("0.19", "0.17")
GPUS: Final = 2
_XID: Final = 8


@pytest.fixture(params=these(VERSIONS, ["0.19"], by_day=1))
def plugin(request: pytest.FixtureRequest, shared_host: GpuHost, plugins: Mapping[str, Path]) -> Iterator[Plugin]:
    (shared_host.folder / "bin" / "nvidia-cuda-mps-control").unlink(missing_ok=True)
    shared_host.show(machine("a100-80gb"))
    made = Plugin(shared_host, plugins[request.param] / "nvidia-device-plugin")
    yield made
    made.stop()


def machine(key: str, *layouts: Mapping[str, int], mig: bool = False) -> simulated.Machine:
    """Two GPUs of a model, each with its layout, MIG mode on where it has one (or in any case)."""
    plain = from_tables.machine_state(key, model(key).products[0], GPUS)
    given = (*layouts, *[{}] * GPUS)
    enabled = (partitioned(key, gpu, layout) if layout or mig else gpu for gpu, layout in zip(plain.gpus, given, strict=False))
    return replace(plain, gpus=tuple(enabled))


def uniform(profile: str, count: int) -> tuple[GpuLayout, ...]:
    return (GpuLayout(None, ((profile, count),)),)


MIXED: Final = (GpuLayout(None, (("1g.10gb", 2), ("2g.20gb", 1), ("3g.40gb", 1))),)
PART: Final = (GpuLayout((0,), (("1g.10gb", 3), ("3g.40gb", 1))), GpuLayout((1,), ()))
RENAMED: Final = TimeSlicing(3, rename_by_default=True)
DECLARATIONS: Final[dict[str, tuple[str, Sharing, FlagMigStrategy]]] = {
    "exclusive": ("a100-80gb", Exclusive(), "single"),
    "exclusive-without-mig": ("t4-16gb", Exclusive(), "single"),
    "time-slicing": ("t4-16gb", TimeSlicing(4), "single"),
    "time-slicing-renamed": ("a100-80gb", RENAMED, "single"),
    "mps": ("h100-80gb", Mps(48), "single"),
    "mps-renamed": ("v100-16gb", Mps(16, rename_by_default=True), "single"),
    "mig-single": ("a100-80gb", Mig(uniform("1g.10gb", 7)), "single"),
    "mig-single-sliced": ("h100-80gb", Mig(uniform("2g.20gb", 3), TimeSlicing(4)), "single"),
    "mig-single-renamed": ("a30-24gb", Mig(uniform("1g.6gb", 4), RENAMED), "single"),
    "mig-mixed": ("a100-80gb", Mig(MIXED), "mixed"),
    "mig-mixed-sliced": ("a100-80gb", Mig(MIXED, TimeSlicing(4)), "mixed"),
    "mig-mixed-renamed": ("a100-80gb", Mig(MIXED, RENAMED), "mixed"),
    "mig-part": ("a100-80gb", Mig(PART, RENAMED), "mixed"),
}


@pytest.mark.parametrize("name", DECLARATIONS)
def test_a_node_advertises_what_the_plan_says(name: str, plugin: Plugin) -> None:
    key, sharing, strategy = DECLARATIONS[name]
    layouts = [sharing.layout_of(index) for index in range(GPUS)] if isinstance(sharing, Mig) else []
    plugin.host.show(machine(key, *layouts))
    put_mps_daemon(plugin.host)
    wanted = advertised(Hardware(model(key), model(key).products[0], GPUS, "a test"), sharing, strategy)
    text = device_plugin_config(sharing, strategy)[1]
    plugin.start(text, *(["--mps-root=/run/nvidia/mps"] if isinstance(sharing, Mps) else []), resources=len(wanted))
    assert plugin.served == set(wanted)
    listed = {resource: plugin.devices(resource) for resource in wanted}
    assert {resource: len(found) for resource, found in listed.items()} == wanted
    assert {health for found in listed.values() for health in found.values()} == {"Healthy"}


@pytest.mark.parametrize("strategy", ["single", "mixed"])
@pytest.mark.parametrize("name", ["exclusive", "time-slicing", "time-slicing-renamed"])
def test_without_mig_the_strategy_of_the_cluster_changes_nothing(name: str, strategy: str, plugin: Plugin) -> None:
    """It comes as an environment variable, which beats the file."""
    key, sharing, _ = DECLARATIONS[name]
    plugin.host.show(machine(key))
    (resource, count), *_ = advertised(Hardware(model(key), model(key).products[0], GPUS, "a test"), sharing, "single").items()
    plugin.start(device_plugin_config(sharing, "single")[1], environment={"MIG_STRATEGY": strategy})
    assert plugin.served == {resource}
    assert len(plugin.devices(resource)) == count


def test_before_0_20_variants_are_served_under_the_name_of_the_plain_profile(plugin: Plugin) -> None:
    """The plan names them as 0.20 and its GPU operator do; these versions match profile names by their beginning only."""
    sharing = Mig((GpuLayout(None, (("1g.10gb+me", 1), ("3g.40gb", 1))),), TimeSlicing(2))
    plugin.host.show(machine("a100-80gb", *[sharing.layout_of(index) for index in range(GPUS)]))
    plugin.start(device_plugin_config(sharing, "mixed")[1], resources=2)
    assert "nvidia.com/mig-1g.10gb.me" in advertised(Hardware(model("a100-80gb"), None, GPUS, "a test"), sharing, "mixed")
    # Its replicas are declared under the other name, so that it is not shared either.
    assert {name: len(plugin.devices(name)) for name in plugin.served} == {
        "nvidia.com/mig-1g.10gb": GPUS,
        "nvidia.com/mig-3g.40gb": 2 * GPUS,
    }


# --- what it crashes on -----------------------------------------------------------------------------------

ONE: Final = "resources: [{name: nvidia.com/gpu, replicas: 2}]"
CRASHES: Final = {
    "version v2": ("version: v2", "unknown version: v2"),
    "replicas 1": ("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}", "replicas must be >= 2"),
    "no replicas": ("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu}]}}", "no replicas specified"),
    "no name": ("sharing: {timeSlicing: {resources: [{replicas: 2}]}}", "no resource name specified"),
    "no resources": ("sharing: {timeSlicing: {renameByDefault: true}}", "no resources specified"),
    "empty resources": ("sharing: {timeSlicing: {resources: []}}", "no resources specified"),
    "devices in words": (
        "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2, devices: some}]}}",
        "only valid string input is 'all'",
    ),
    "unknown MIG strategy": ("flags: {migStrategy: double}", "unknown MIG strategy: double"),
    "unknown id strategy": ("flags: {plugin: {deviceIDStrategy: name}}", "invalid --device-id-strategy option: name"),
    "imex channel 1": ("imex: {channelIDs: [1]}", "channelIDs must be"),
    "MPS without a root": (f"sharing: {{mps: {{{ONE}}}}}", "using MPS requires --mps-root to be specified"),
    "MPS under mixed": (
        f"flags: {{migStrategy: mixed}}\nsharing: {{mps: {{{ONE}}}}}",
        "using --mig-strategy=mixed is not supported with MPS",
    ),
}


@pytest.mark.parametrize("mistake", CRASHES)
def test_it_ends_on(mistake: str, plugin: Plugin) -> None:
    text, reason = CRASHES[mistake]
    plugin.start(text)
    assert plugin.status == 1, plugin.said
    assert reason in plugin.said


#: Strategy single, layouts of both GPUs, and whether MIG mode is on in any case -> what it ends with.
UNFIT_FOR_SINGLE: Final[dict[str, tuple[simulated.Machine, str]]] = {
    "two profiles": (machine("a100-80gb", *[{"1g.10gb": 2, "3g.40gb": 1}] * 2), "more than one MIG device type present on node"),
    "one GPU off": (machine("a100-80gb", {"1g.10gb": 7}), "same migEnabled value"),
    "no instance": (machine("a100-80gb", mig=True), "no MIG devices"),
}


@pytest.mark.parametrize("layout", UNFIT_FOR_SINGLE)
def test_it_ends_on_strategy_single_with(layout: str, plugin: Plugin) -> None:
    shown, reason = UNFIT_FOR_SINGLE[layout]
    plugin.host.show(shown)
    plugin.start("flags: {migStrategy: single}")
    assert plugin.status == 1, plugin.said
    assert reason.lower() in plugin.said.lower()


def test_mig_on_without_instances_serves_nothing_under_mixed_and_stays_up(plugin: Plugin) -> None:
    plugin.host.show(machine("a100-80gb", mig=True))
    plugin.start("flags: {migStrategy: mixed}")
    assert plugin.status is None
    assert plugin.served == set()


def test_it_ends_on_mps_with_mig_instances(plugin: Plugin) -> None:
    plugin.host.show(machine("a100-80gb", *[{"1g.10gb": 7}] * 2))
    put_mps_daemon(plugin.host)
    plugin.start(f"flags: {{migStrategy: single}}\nsharing: {{mps: {{{ONE}}}}}", "--mps-root=/run/nvidia/mps")
    assert plugin.status == 1, plugin.said
    assert "not supported for MIG devices" in plugin.said


@pytest.mark.parametrize("key", ["v100-16gb", "h100-80gb"])
def test_it_serves_more_mps_replicas_than_the_daemon_takes(key: str, plugin: Plugin) -> None:
    plugin.host.show(machine(key))
    put_mps_daemon(plugin.host)
    # 48 clients, 16 below compute capability 7.5: mps-control-daemon ends on more, not the plugin. So the plan must refuse.
    plugin.start("sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 49}]}}", "--mps-root=/run/nvidia/mps")
    assert len(plugin.devices("nvidia.com/gpu")) == 49 * GPUS


def test_without_an_mps_daemon_it_stays_up_and_serves_nothing(plugin: Plugin) -> None:
    plugin.start(f"sharing: {{mps: {{{ONE}}}}}", "--mps-root=/run/nvidia/mps")
    assert plugin.status is None
    assert plugin.served == set()
    assert "Retrying in 30s" in plugin.said


# --- what it ignores --------------------------------------------------------------------------------------

PLAIN: Final = f"version: v1\nflags: {{migStrategy: none}}\nsharing:\n  timeSlicing: {{{ONE}}}\n"
#: What is written -> the words of its warning; None: it says nothing.
IGNORED: Final = {
    PLAIN + "replicas: 8\n": None,
    PLAIN + "  timeslicing_: {}\n": None,
    PLAIN.replace("replicas: 2", "replicas: 2, replica: 8"): None,
    PLAIN.replace("migStrategy: none", "migStrategy: none, migstrategie: mixed"): None,
    PLAIN.replace("version: v1\n", ""): None,
    PLAIN.replace("replicas: 2", "replicas: 2, rename: my.gpu"): "Setting the 'rename' field in sharing.timeSlicing.resources",
    PLAIN.replace("replicas: 2", "replicas: 2, devices: [0]"): "Customizing the 'devices' field in sharing.timeSlicing.resources",
    PLAIN + "resources: {gpus: [{pattern: '*A100*', name: nvidia.com/big}]}\n": "Customizing the 'resources' field",
}


@pytest.mark.parametrize("text", IGNORED)
def test_it_ignores(text: str, plugin: Plugin) -> None:
    plain = plugin.start(PLAIN)
    wanted, served, count, said = plain.config, plain.served, len(plain.devices("nvidia.com/gpu")), plain.said
    plugin.start(text)
    assert (plugin.config, plugin.served, len(plugin.devices("nvidia.com/gpu"))) == (wanted, served, count)
    warning = IGNORED[text]
    if warning is not None:
        assert warning in plugin.said
        assert warning not in said


def test_of_time_slicing_and_mps_it_drops_time_slicing(plugin: Plugin) -> None:
    put_mps_daemon(plugin.host)
    both = yaml.safe_load(PLAIN)
    both["sharing"]["mps"] = {"resources": [{"name": "nvidia.com/gpu", "replicas": 3}]}
    plugin.start(yaml.safe_dump(both), "--mps-root=/run/nvidia/mps")
    assert len(plugin.devices("nvidia.com/gpu")) == 3 * GPUS


def test_of_mps_it_refuses_larger_requests_whatever_is_written(plugin: Plugin) -> None:
    put_mps_daemon(plugin.host)
    plugin.start(f"sharing: {{mps: {{failRequestsGreaterThanOne: false, {ONE}}}}}", "--mps-root=/run/nvidia/mps")
    assert plugin.config["sharing"]["mps"]["failRequestsGreaterThanOne"] is True


# --- what it does not see ---------------------------------------------------------------------------------


def hurt(plugin: Plugin, *places: tuple[int | None, int | None]) -> dict[str, str]:
    """Let GPU 0 have Xids at these instances, until the plugin notices and then some more; what it lists in the end."""
    number = 0
    with plugin.listing("nvidia.com/gpu") as listed:
        last = next(listed)
        # Who registers for events is told of later ones only, and its log does not say when it has.
        noticed = 0
        while noticed < 3:
            assert number < 1000 * len(places), plugin.said
            events = tuple(simulated.Event(number := number + 1, _XID, 79, *place) for place in places)
            gpus = plugin.host.machine.gpus
            plugin.host.show(replace(plugin.host.machine, gpus=(replace(gpus[0], events=events), *gpus[1:])))
            time.sleep(0.05)
            noticed += "marked unhealthy" in plugin.said
        for _ in range(plugin.said.count("marked unhealthy")):
            last = next(listed)
    return last


def test_an_xid_makes_one_replica_of_four_unhealthy(plugin: Plugin) -> None:
    plugin.start("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}")
    uuid = plugin.host.machine.gpus[0].uuid
    listed = hurt(plugin, (None, None))
    assert sorted(health for device, health in listed.items() if device.startswith(uuid)) == [*["Healthy"] * 3, "Unhealthy"]
    assert len(listed) == 4 * GPUS


def test_xids_on_all_seven_mig_instances_make_one_unhealthy(plugin: Plugin) -> None:
    plugin.host.show(machine("a100-80gb", *[{"1g.10gb": 7}] * 2))
    plugin.start("flags: {migStrategy: single}")
    listed = hurt(plugin, *((instance, 0) for instance in range(1, 8)))
    assert sorted(listed.values()) == [*["Healthy"] * 13, "Unhealthy"]


def test_a_changed_layout_goes_unnoticed_until_it_is_told_to_look(plugin: Plugin) -> None:
    plugin.host.show(machine("a100-80gb", *[{"1g.10gb": 7}] * 2))
    plugin.start("flags: {migStrategy: single}")
    plugin.host.show(machine("a100-80gb", *[{"2g.20gb": 3}] * 2))
    before = plugin.devices("nvidia.com/gpu")
    assert len(before) == 14
    assert set(before.values()) == {"Healthy"}
    plugin.hang_up()
    plugin.until(lambda: plugin.said.count("Registered device plugin") == 2)
    assert len(plugin.devices("nvidia.com/gpu")) == 6
