"""What `gpus check` says of device-plugin configs is what the real device plugin and gpu-feature-discovery do with them.

Every file is checked for the version that is then run on it. A `crash` must end the program, in the words that the finding
quotes; what is `ignored` or `overridden` is taken out of the file, and the program must go on as before: the same
configuration in its log, the same devices. So a finding holds on both sides, or the test fails.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_pools.existing.plugin_schema import plugin_schema
from sandbox.nvml import from_tables
from tests.sandbox.real.device_plugin import Plugin, put_mps_daemon
from tests.sandbox.real.feature_discovery import discover
from tests.tiers import these
from tests.unit.existing_files import DECODED, check_text, plugin, sliced

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpu_pools.existing.findings import Finding
    from sandbox.cluster.gpu_host import GpuHost

pytestmark = pytest.mark.programs

GPU: Final = "name: nvidia.com/gpu"
ONE: Final = f"resources: [{{{GPU}, replicas: 2}}]"
ENTRY: Final = "sharing.timeSlicing.resources[0]"
MPS: Final = "sharing.mps.resources[0]"


@dataclass(frozen=True)
class File:
    """A file, and what `check` must find in it.

    Attributes:
        text: the file.
        found: severity and path of each finding.
        like: the file that has the same effect; None: the one without what was found.
        only: the versions in which that is found; in others nothing is.
    """

    text: str
    found: tuple[str, ...]
    like: str | None = None
    only: tuple[str, ...] = ("0.19", "0.17")


FILES: Final = {
    "good": File(sliced(f"{GPU}, replicas: 2"), ()),
    "empty": File("version: v1\n", ()),
    # Refused.
    "version": File("version: v2\nsharing: {}\n", ("crash version",)),
    "too few replicas": File(sliced(f"{GPU}, replicas: 1"), (f"crash {ENTRY}.replicas",)),
    "no replicas": File(sliced(GPU), (f"crash {ENTRY}",)),
    "replicas in quotes": File(sliced(f"{GPU}, replicas: '2'"), (f"crash {ENTRY}.replicas",)),
    "no name": File(sliced("replicas: 2"), (f"crash {ENTRY}",)),
    "upper-case name": File(sliced("name: nvidia.com/GPU, replicas: 2"), (f"crash {ENTRY}.name",)),
    "long name": File(sliced(f"name: nvidia.com/{'g' * 53}, replicas: 2"), (f"crash {ENTRY}.name",)),
    "bad rename": File(sliced(f"{GPU}, replicas: 2, rename: G_P_U"), (f"crash {ENTRY}.rename",)),
    "devices in words": File(sliced(f"{GPU}, replicas: 2, devices: some"), (f"crash {ENTRY}.devices",)),
    "no devices": File(sliced(f"{GPU}, replicas: 2, devices: 0"), (f"crash {ENTRY}.devices",)),
    "no resources": File(plugin("sharing: {timeSlicing: {renameByDefault: true}}"), ("crash sharing.timeSlicing",)),
    "empty sharing": File(plugin("sharing: {timeSlicing: {}}"), ("crash sharing.timeSlicing",)),
    "list for a mapping": File(plugin("sharing: []"), ("crash sharing",)),
    "strategy": File(plugin("flags: {migStrategy: both}"), ("crash flags.migStrategy",)),
    "flag in quotes": File(plugin("flags: {failOnInitError: 'true'}"), ("crash flags.failOnInitError",)),
    "id strategy": File(plugin("flags: {plugin: {deviceIDStrategy: name}}"), ("crash flags.plugin.deviceIDStrategy",)),
    "list strategy": File(plugin("flags: {plugin: {deviceListStrategy: [env]}}"), ("crash flags.plugin.deviceListStrategy",)),
    "duration": File(plugin("flags: {gfd: {sleepInterval: soon}}"), ("crash flags.gfd.sleepInterval",)),
    "infinite": File(plugin("flags: {gfd: {sleepInterval: infinite}}"), ("crash flags.gfd.sleepInterval",), only=("0.17",)),
    "discovery": File(plugin("flags: {deviceDiscoveryStrategy: guess}"), ("crash flags.deviceDiscoveryStrategy",)),
    "imex channel": File(plugin("imex: {channelIDs: [1]}"), ("crash imex.channelIDs",)),
    "custom resource without a name": File(
        plugin("resources: {gpus: [{pattern: a}]}"), ("crash resources.gpus[0]", "ignored resources")
    ),
    "mps under mixed": File(
        sliced(f"{GPU}, replicas: 2", kind="mps", before="flags: {migStrategy: mixed}\n"),
        ("crash sharing.mps", "overridden flags.migStrategy"),
    ),
    "field in two cases, one of the wrong type": File(plugin("Version: []"), ("crash Version", "overridden Version")),
    "misplaced strategy": File(plugin("flags: {plugin: {migStrategy: single}}"), ("crash flags.plugin.migStrategy",)),
    "misplaced discovery": File(
        plugin("flags: {gfd: {devicediscoverystrategy: auto}}"), ("crash flags.gfd.devicediscoverystrategy",)
    ),
    "wrong type of a later field": File(
        plugin("flags: {plugin: {sharedDevicesAllocationPolicy: [packed]}}"),
        ("ignored flags.plugin.sharedDevicesAllocationPolicy",),
    ),
    # Without effect.
    "misplaced strategy, and the right one": File(
        plugin("flags: {migStrategy: none, plugin: {migStrategy: single}}"),
        ("ignored flags.plugin.migStrategy", "overridden flags.migStrategy"),
    ),
    "misspelt key": File(plugin("flags: {migStrategi: mixed}"), ("ignored flags.migStrategi",)),
    "key at the top": File(plugin("replicas: 4"), ("ignored replicas",)),
    "misplaced key": File(plugin("flags: {renameByDefault: true}"), ("ignored flags.renameByDefault",)),
    "misspelt block": File(plugin("sharing: {timeslicing_: {}}"), ("ignored sharing.timeslicing_",)),
    "key in another case": File(
        plugin(f"sharing: {{timeSlicing: {{RenameByDefault: true, {ONE}}}}}"), ("ignored sharing.timeSlicing.RenameByDefault",)
    ),
    "key of an entry": File(sliced(f"{GPU}, replicas: 2, replica: 8"), (f"ignored {ENTRY}.replica",)),
    "command line": File(plugin("flags: {plugin: {kubeletSocket: /x}}"), ("ignored flags.plugin.kubeletSocket",)),
    "rename": File(sliced(f"{GPU}, replicas: 2, rename: nvidia.com/small"), (f"ignored {ENTRY}.rename",)),
    "devices": File(sliced(f"{GPU}, replicas: 2, devices: [0]"), (f"ignored {ENTRY}.devices",)),
    "number of devices": File(sliced(f"{GPU}, replicas: 2, devices: 1"), (f"ignored {ENTRY}.devices",)),
    "rename under mps": File(sliced(f"{GPU}, replicas: 2, rename: nvidia.com/small", kind="mps"), (f"ignored {MPS}.rename",)),
    "custom resources": File(plugin("resources: {gpus: [{pattern: '*A100*', name: big}]}"), ("ignored resources",)),
    "resource of nobody": File(
        plugin(f"sharing: {{timeSlicing: {{resources: [{{name: nvidia.com/vgpu, replicas: 3}}, {{{GPU}, replicas: 2}}]}}}}"),
        (f"ignored {ENTRY}.name",),
    ),
    "profile of no model": File(
        plugin(
            f"sharing: {{timeSlicing: {{resources: [{{name: nvidia.com/mig-1g.11gb, replicas: 3}}, {{{GPU}, replicas: 2}}]}}}}"
        ),
        (f"ignored {ENTRY}.name",),
    ),
    "duration without a unit": File(
        plugin("flags: {gfd: {sleepInterval: 5}}"),
        ("ignored flags.gfd.sleepInterval",),
        like=plugin("flags: {gfd: {sleepInterval: 5ns}}"),
    ),
    "later field": File(
        plugin("flags: {plugin: {sharedDevicesAllocationPolicy: packed}}"),
        ("ignored flags.plugin.sharedDevicesAllocationPolicy",),
    ),
    "field since 0.18": File(
        plugin("flags: {gdrcopyEnabled: false, gdsEnabled: false, mofedEnabled: false}"),
        ("ignored flags.gdrcopyEnabled",),
        only=("0.17",),
    ),
    # Something else wins.
    "misplaced flag": File(
        plugin("flags: {plugin: {failOnInitError: true, passDeviceSpecs: true}}"),
        ("overridden flags.plugin.failOnInitError",),
        like=plugin("flags: {failOnInitError: false, plugin: {passDeviceSpecs: true}}"),
    ),
    "both": File(
        plugin(f"sharing: {{timeSlicing: {{resources: [{{{GPU}, replicas: 3}}]}}, mps: {{{ONE}}}}}"),
        ("overridden sharing.timeSlicing",),
    ),
    "false under mps": File(
        plugin(f"sharing: {{mps: {{failRequestsGreaterThanOne: false, {ONE}}}}}"),
        ("overridden sharing.mps.failRequestsGreaterThanOne",),
    ),
    "resource twice": File(
        plugin(f"sharing: {{timeSlicing: {{resources: [{{{GPU}, replicas: 2}}, {{name: gpu, replicas: 3}}]}}}}"),
        ("overridden sharing.timeSlicing.resources[1]",),
        like=sliced(f"{GPU}, replicas: 3"),
    ),
    "resource twice, the larger first": File(
        plugin(f"sharing: {{timeSlicing: {{resources: [{{{GPU}, replicas: 3}}, {{name: gpu, replicas: 2}}]}}}}"),
        ("overridden sharing.timeSlicing.resources[1]",),
    ),
    "key twice": File(
        plugin("flags:\n  plugin:\n    nvidiaCTKPath: /first\n    nvidiaCTKPath: /second\n"),
        ("overridden flags.plugin.nvidiaCTKPath",),
        like=plugin("flags: {plugin: {nvidiaCTKPath: /second}}"),
    ),
    "field in two cases": File(
        plugin("flags: {plugin: {nvidiaCTKPath: /first, NVIDIACTKPath: /second}}"),
        ("overridden flags.plugin.NVIDIACTKPath",),
    ),
    "environment": File(
        plugin("flags: {migStrategy: none, failOnInitError: false, plugin: {passDeviceSpecs: false, deviceIDStrategy: index}}"),
        (
            "overridden flags.failOnInitError",
            "overridden flags.migStrategy",
            "overridden flags.plugin.deviceIDStrategy",
            "overridden flags.plugin.passDeviceSpecs",
        ),
    ),
}

#: What the GPU operator gives the plugin's container, where its chart's values are the default.
OPERATOR: Final = {
    "MIG_STRATEGY": "single",
    "FAIL_ON_INIT_ERROR": "true",
    "MPS_ROOT": "/run/nvidia/mps",
    "PASS_DEVICE_SPECS": "true",
    "DEVICE_LIST_STRATEGY": "envvar",
    "DEVICE_ID_STRATEGY": "uuid",
}


@pytest.fixture(params=these(["0.19", "0.17"], ["0.19"], by_day=1))
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def program(version: str, shared_host: GpuHost, plugins: Mapping[str, Path]) -> Iterator[Plugin]:
    put_mps_daemon(shared_host)
    shared_host.show(from_tables.machine_state("a100-80gb", "NVIDIA A100-SXM4-80GB", 2))
    made = Plugin(shared_host, plugins[version] / "nvidia-device-plugin")
    yield made
    made.stop()


def quoted(finding: Finding) -> str | None:
    """The words of the real program that a finding quotes, as a pattern."""
    words = re.search(r"`([^`]+)`", finding.really)
    return f"*{words[1].replace('[', '[[]')}*" if words else None


def parts(path: str) -> list[str | int]:
    """A finding's path, piece by piece."""
    pieces = re.findall(r'\["([^"]*)"\]|\[(\d+)\]|([^.\[\]]+)', path)
    return [int(index) if index else quoted or plain for quoted, index, plain in pieces]


def without(text: str, path: str) -> str:
    """The file without what stands at a path; a resource is found by its name, and goes as a whole."""
    tree = yaml.safe_load(text)
    *parents, last = parts(path)
    if last == "name":
        *parents, last = parents
    inner: Any = tree
    for part in parents:
        inner = inner[part]
    del inner[last]
    return yaml.safe_dump(tree)


def effect(program: Plugin, text: str, environment: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, int]]:
    """The configuration that the plugin runs with, and how many devices it serves of each resource.

    Which resources are to be shared shows in what it serves; its log names them even where they match nothing.
    """
    program.start(text, "--mps-root=/run/nvidia/mps", environment=environment)
    assert program.status is None, program.said
    config = program.config
    sharing = config["sharing"]
    config["sharing"] = {**(sharing.get("mps") or sharing["timeSlicing"]), "resources": None}
    return config, {name: len(program.devices(name)) for name in program.served}


@pytest.mark.parametrize("name", FILES)
def test_what_is_found_is_what_happens(name: str, version: str, program: Plugin, tmp_path: Path) -> None:
    file = FILES[name]
    findings = check_text(tmp_path, file.text, version).findings
    assert sorted(f"{one.severity} {one.path}" for one in findings) == sorted(file.found if version in file.only else ())
    crashes = [one for one in findings if one.severity == "crash"]
    environment = OPERATOR if any("environment variable" in one.really for one in findings) and not crashes else {}
    if crashes:
        program.start(file.text, "--mps-root=/run/nvidia/mps")
        assert program.status == 1, program.said
        assert all(fnmatch.fnmatchcase(program.said, quoted(one) or "*") for one in crashes), program.said
        return
    full = effect(program, file.text, environment)
    said = program.said
    for one in findings:
        like = without(file.text, one.path) if file.like is None else file.like
        assert effect(program, like, environment) == full
        if file.like is None:
            assert one not in check_text(tmp_path, like, version).findings
        warning = quoted(one)
        assert warning is None or (fnmatch.fnmatchcase(said, warning) and not fnmatch.fnmatchcase(program.said, warning))


@pytest.mark.parametrize("name", [name for name, file in FILES.items() if any("crash" in one for one in file.found)])
def test_feature_discovery_ends_where_it_is_said_to(
    name: str, version: str, shared_host: GpuHost, plugins: Mapping[str, Path], tmp_path: Path
) -> None:
    shared_host.show(from_tables.machine_state("a100-80gb", "NVIDIA A100-SXM4-80GB", 2))
    crashes = [one for one in check_text(tmp_path, FILES[name].text, version).findings if one.severity == "crash"]
    done, labels = discover(shared_host, plugins[version] / "gpu-feature-discovery", FILES[name].text)
    assert done.returncode == any("gpu-feature-discovery exit" in one.really for one in crashes), done.stderr
    assert bool(labels) == (done.returncode == 0)


@pytest.mark.parametrize(("body", "loads"), DECODED)
def test_what_does_not_load_ends_it(body: str, loads: bool, program: Plugin) -> None:  # noqa: FBT001
    program.start(plugin(body), "--mps-root=/run/nvidia/mps")
    assert (program.status is None) == loads, program.said


def test_a_required_channel_that_a_node_lacks_ends_it(version: str, program: Plugin, tmp_path: Path) -> None:
    text = plugin("imex: {channelIDs: [0], required: true}")
    (finding,) = check_text(tmp_path, text, version).findings
    assert (finding.severity, finding.path) == ("unknown", "imex.required")
    program.start(text)
    assert program.status == 1
    assert fnmatch.fnmatchcase(program.said, quoted(finding) or "")


# --- any file ---------------------------------------------------------------------------------------------


def values(kind: str, allowed: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """Values of a field: right ones mostly, and such of every other type."""
    right: dict[str, st.SearchStrategy[Any]] = {
        "text": st.sampled_from(allowed or ("", "/", "x")),
        "flag": st.booleans(),
        "whole": st.integers(-1, 5) | st.just(2.0),
        "duration": st.sampled_from(["60s", "1m30s", "0", "5", "-3h", ".5s", "infinite", 0, 7, 1.5]),
        "texts": st.sampled_from(["envvar", "volume-mounts", ["envvar"], ["envvar", "volume-mounts"], "cdi"]),
        "wholes": st.sampled_from([[], [0], [0.0], [None], [0, 0], [1]]),
        "any": st.sampled_from(["all", 1, 0, [0], [], ["0:1"], "two", {}]),
        "list": st.lists(st.fixed_dictionaries({}, optional={"pattern": st.just("a"), "name": NAMES}), max_size=2),
    }
    wrong = st.sampled_from([None, True, 3, 2.5, "", "true", [], {}, [1]])
    return st.integers(0, 19).flatmap(lambda chance: wrong if chance == 0 else right[kind])


NAMES: Final = st.sampled_from(["nvidia.com/gpu", "gpu", "mig-1g.10gb", "GPU", "amd.com/gpu", "a_b", "x" * 53, "", None, 5])
STRANGE: Final = st.sampled_from(["x", "FLAGS", "migstrategy", "Resources", "renameByDefault", "replicas", "plugin", "mps"])
#: What needs more of a node than there is here: an IMEX channel, a Tegra, a driver elsewhere, an API server.
LEFT_OUT: Final = {"required", "deviceDiscoveryStrategy", "nvidiaDriverRoot", "nvidiaDevRoot", "mpsRoot", "useNodeFeatureAPI"}


@st.composite
def mappings(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """One mapping of the config, with few of its fields and sometimes a strange one."""
    schema = plugin_schema().mappings[name].fields
    fields = draw(st.lists(st.sampled_from([field for field in schema if field not in LEFT_OUT]), unique=True, max_size=3))
    made = {field: draw(content(name, field)) for field in fields}
    if draw(st.integers(0, 9)) == 0:
        made[draw(STRANGE)] = draw(st.sampled_from([None, True, 3, "x", [], {}]))
    return made


def content(name: str, field: str) -> st.SearchStrategy[Any]:
    entry = plugin_schema().mappings[name].fields[field]
    if entry.of is not None:
        return st.integers(0, 19).flatmap(lambda chance: st.sampled_from([None, [], "x"]) if chance == 0 else mappings(entry.of))
    if name.startswith("sharing.") and field == "resources":
        return st.lists(entries(), max_size=2) | st.lists(mappings("replicated resource"), max_size=2)
    return NAMES if field in {"name", "rename"} else values(entry.kind, entry.allowed)


def entries() -> st.SearchStrategy[dict[str, Any]]:
    """Shared resources that are right, mostly."""
    return st.fixed_dictionaries({"name": NAMES, "replicas": st.integers(1, 9)})


@settings(
    max_examples=120,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(mappings(""))
def test_of_any_file_it_is_known_whether_it_loads(version: str, program: Plugin, tmp_path: Path, tree: dict[str, Any]) -> None:
    text = yaml.safe_dump({"version": "v1", **tree})
    crashes = [one for one in check_text(tmp_path, text, version).findings if one.severity == "crash"]
    program.start(text, "--mps-root=/run/nvidia/mps")
    assert (program.status is None) == (not crashes), (text, crashes, program.said)
