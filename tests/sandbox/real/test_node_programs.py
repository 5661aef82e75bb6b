"""The real programs on a simulated machine, asked as the machines daemon asks them; and the rules, asked the same."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

from gpu_pools.hardware.models import model, model_keys
from gpu_pools.verifier.mps_daemons import read_processes
from sandbox.cluster.machine_groups import Hardware, MachineGroup
from sandbox.cluster.node_tools import NodeTools
from sandbox.machines.device_plugin import Advertised, Crash
from sandbox.machines.gfd import Driver, Labels
from sandbox.machines.gpu import new_gpus, with_layout
from sandbox.machines.machine import PREINSTALLED_DRIVER, Loaded, Machine
from sandbox.machines.node_programs import LayoutRequest
from sandbox.machines.outcomes import InitCrash, Up
from sandbox.machines.pod_request import Container, Mount, PodRequest, Probe
from sandbox.machines.real import RealPrograms
from sandbox.machines.ruled import RuledPrograms
from sandbox.nvml import simulated, state
from sandbox.system import processes
from sandbox.system.patience import Patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sandbox.machines.node_programs import LayoutAnswer

T = TypeVar("T")
pytestmark = pytest.mark.programs

A100: Final = Hardware(24, 220, "a100-80gb", "NVIDIA A100-SXM4-80GB", 2)
T4: Final = Hardware(4, 28, "t4-16gb", "Tesla T4", 1)
GPU: Final = "nvidia.com/gpu"
SLICED: Final = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
MPS: Final = "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}"
LAYOUTS: Final = """
version: v1
mig-configs:
  all-disabled: [{devices: all, mig-enabled: false}]
  seven: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]
  mix: [{devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 1, 2g.20gb: 2}}, {devices: [1], mig-enabled: false}]
  too-much: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 3}}]
  of-another-gpu: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]
"""
_XID: Final = 8
_SECONDS: Final = 60
_pods: Final = itertools.count()


def machine(node: str, hardware: Hardware = A100, layout: Mapping[str, int] | None = None) -> Machine:
    gpus = new_gpus(node, hardware, None)
    gpus = gpus if layout is None else tuple(with_layout(gpu, layout) or gpu for gpu in gpus)
    group = MachineGroup(node, node, 1, hardware, driver_preinstalled=True)
    return Machine(node, group, gpus, PREINSTALLED_DRIVER)


def loaded(text: str | None, on: Machine, pod: str | None = None, attempt: int = 0) -> Loaded:
    """What a program of a new pod has read; of a pod by that name where one is given."""
    return Loaded(pod or f"pod-{next(_pods)}", attempt, 0, text, on.gpus)


class Site:
    """Machines with real programs."""

    def __init__(self, folder: Path, tools: NodeTools) -> None:
        self.folder, self.tools = folder, tools
        self.machines: dict[str, Machine] = {}
        self.woken = 0
        self.programs = RealPrograms(folder, tools, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def add(self, one: Machine) -> Machine:
        self.machines[one.node] = one
        self.programs.attend(self.machines)
        return one

    def answer(self, ask: Callable[[], T | None], holds: Callable[[T], bool] = lambda _: True) -> T:
        """Ask as the daemon does, pass by pass, until there is an answer, and one that holds."""
        end = Patience(_SECONDS)
        while True:
            self.programs.attend(self.machines)
            found = ask()
            if found is not None and holds(found):
                return found
            assert not end.is_over(), found
            time.sleep(0.02)

    def served(self, on: Machine, what: Loaded, wanted: Mapping[str, int], **environment: str) -> Advertised:
        """Wait until the plugin has registered that."""
        found = self.answer(
            lambda: self.programs.serve(on, what, environment),
            lambda found: isinstance(found, Crash) or (isinstance(found, Advertised) and found.resources == wanted),
        )
        assert isinstance(found, Advertised), found
        return found

    def apply(self, on: Machine, selected: str, text: str | None = LAYOUTS) -> LayoutAnswer:
        request = LayoutRequest(f"pod-{next(_pods)}", text, selected)
        return self.answer(lambda: self.programs.apply_layout(on, request))

    def start_anew(self) -> None:
        """As a daemon that was ended, and another one in its place."""
        self.programs.close()
        self.programs = RealPrograms(self.folder, self.tools, self._wake)


@pytest.fixture(scope="module")
def tools(library: Path, plugins: Mapping[str, Path], mig_parted: Path, config_manager: Path) -> NodeTools:
    folder = plugins["0.19"]
    programs = [folder / name for name in ("gpu-feature-discovery", "nvidia-device-plugin")]
    return NodeTools(library, *programs, mig_parted, config_manager, folder / "mps-control-daemon")


@pytest.fixture
def site(tmp_path: Path, tools: NodeTools) -> Iterator[Site]:
    made = Site(tmp_path / "machines", tools)
    yield made
    made.programs.close()


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory, tools: NodeTools) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("cluster") / "machines", tools)
    for one in (machine("t4", T4), machine("whole"), machine("seven", layout={"1g.10gb": 7}), machine("mix", layout=MIX)):
        made.add(one)
    yield made
    made.programs.close()


# --- real programs and rules say the same -----------------------------------------------------------------

MIX: Final = {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}
RENAMED: Final = SLICED.replace("{resources", "{renameByDefault: true, resources")
MIG_SLICED: Final = SLICED.replace("nvidia.com/gpu", "nvidia.com/mig-1g.10gb")
#: machine, configuration, MIG_STRATEGY
CONFIGS: Final = {
    "nothing": ("t4", "", ""),
    "time-slicing": ("t4", SLICED, ""),
    "renamed": ("whole", RENAMED, ""),
    "more than one refused": ("whole", RENAMED.replace("{renameB", "{failRequestsGreaterThanOne: true, renameB"), ""),
    "whole GPUs under single": ("whole", SLICED, "single"),
    "instances under none": ("seven", "", ""),
    "single": ("seven", "flags: {migStrategy: single}", ""),
    "the environment wins": ("seven", "flags: {migStrategy: single}", "mixed"),
    "single, sliced": ("seven", SLICED, "single"),
    "mixed": ("mix", "", "mixed"),
    "mixed, sliced": ("mix", MIG_SLICED, "mixed"),
    "two profiles under single": ("mix", "", "single"),
    "one replica": ("whole", SLICED.replace("4", "1"), ""),
    "no replicas": ("whole", SLICED.replace(", replicas: 4", ""), ""),
    "no resources": ("whole", "sharing: {timeSlicing: {resources: []}}", ""),
    "unknown version": ("whole", "version: v2", ""),
    "unknown key": ("whole", f"{SLICED}\nreplicas: 9", ""),
    "no file": ("whole", None, ""),
    "MPS in instances": ("seven", MPS, "single"),
    "MPS under mixed": ("mix", MPS, "mixed"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_rules_and_real_programs_agree(name: str, shared_site: Site, tmp_path: Path) -> None:
    node, text, strategy = CONFIGS[name]
    on, ruled, environment = shared_site.machines[node], RuledPrograms(tmp_path), {"MIG_STRATEGY": strategy}
    environment |= {"MPS_ROOT": "/run/nvidia/mps"} if text == MPS else {}
    what = loaded(text, on)

    said = ruled.discover(on, what, environment)
    labels = shared_site.answer(lambda: shared_site.programs.discover(on, what, environment))
    if isinstance(said, Labels):
        assert isinstance(labels, Labels)
        assert said.labels.items() <= labels.labels.items()
        # Where no source gives a profile's memory the rule is silent; the simulated GPU derives it.
        assert {name for name in labels.labels.keys() - said.labels.keys() if not name.endswith(".memory")} == set()
    else:
        assert isinstance(labels, Crash)

    expected = ruled.serve(on, what, environment)
    if isinstance(expected, Advertised):
        found = shared_site.served(on, what, expected.resources, **environment)
        assert found.one_per_request == expected.one_per_request
    else:
        crash = shared_site.answer(
            lambda: shared_site.programs.serve(on, what, environment), lambda answer: isinstance(answer, Crash)
        )
        assert isinstance(crash, Crash)
        assert isinstance(expected, Crash)
        # The real one says more in between.
        assert crash.message.endswith(expected.message.rpartition(": ")[2])


# --- nvidia-device-plugin ---------------------------------------------------------------------------------


def test_a_plugin_of_another_pod_takes_the_place_of_the_one_before(site: Site) -> None:
    on = site.add(machine("n"))
    site.served(on, loaded("", on, "pod"), {GPU: 2})
    site.served(on, loaded(SLICED, on, "another pod"), {GPU: 8})
    assert (site.folder / "n" / "plugin.log").read_text().count("Starting OS watcher") == 1


def test_a_plugin_that_is_stopped_takes_its_resources_along(site: Site) -> None:
    on = site.add(machine("n"))
    site.served(on, loaded("", on, "pod"), {GPU: 2})
    site.programs.stop_serving(on)
    site.served(on, loaded(SLICED, on, "next pod"), {GPU: 8})


def test_a_crashed_plugin_starts_again_with_its_pods_next_attempt(site: Site) -> None:
    on = site.add(machine("n"))
    broken = loaded("version: v2", on, "pod")
    crash = site.answer(lambda: site.programs.serve(on, broken, {}), lambda found: isinstance(found, Crash))
    assert isinstance(crash, Crash)
    assert crash.message.startswith("error starting plugins: unable to load config")
    site.served(on, loaded("", on, "pod", attempt=1), {GPU: 2})


def test_an_xid_takes_one_device_of_several_away(site: Site) -> None:
    on = site.add(machine("n"))
    what = loaded(SLICED, on, "pod")
    site.served(on, what, {GPU: 8})

    # Who registers for events is told of later ones only, and its log does not say when it has.
    numbers = itertools.count(1)

    def hurt(found: object) -> bool:
        event = simulated.Event(next(numbers), _XID, 79)
        state.change(site.folder / "n" / "state", lambda seen: replace(seen, gpus=(_after(seen.gpus[0], event), *seen.gpus[1:])))
        return isinstance(found, Advertised) and found.resources[GPU] < 8

    found = site.answer(lambda: site.programs.serve(on, what, {}), hurt)
    assert isinstance(found, Advertised)
    assert found.resources[GPU] + found.unhealthy[GPU] == 8


def _after(gpu: simulated.Gpu, event: simulated.Event) -> simulated.Gpu:
    return replace(gpu, events=(event,))


def test_a_plugin_without_an_mps_daemon_waits(site: Site) -> None:
    on, environment = site.add(machine("n", T4)), {"MPS_ROOT": "/run/nvidia/mps"}
    what = loaded(MPS, on, "pod")
    log = site.folder / "n" / "plugin.log"
    found = site.answer(
        lambda: site.programs.serve(on, what, environment), lambda _: log.exists() and "Retrying in" in log.read_text()
    )
    assert found == Advertised({})
    seen = read_processes(site.folder / "n" / "host" / "proc")
    assert (len(seen.daemons), seen.complete) == (0, True)


# --- gpu-feature-discovery --------------------------------------------------------------------------------


def test_labels_name_the_driver_that_is_loaded(site: Site) -> None:
    on = site.add(machine("n"))
    what = loaded("", on)
    site.answer(lambda: site.programs.discover(on, what, {}))
    on.driver = Driver("595.91.07", "13.2")
    found = site.answer(lambda: site.programs.discover(on, what, {}))
    assert isinstance(found, Labels)
    assert found.labels["nvidia.com/cuda.driver-version.full"] == "595.91.07"
    assert found.labels["nvidia.com/cuda.runtime-version.full"] == "13.2"


#: By its name NVIDIA's programs take it for an integrated GPU, and ask libcuda about it, which is not simulated.
INTEGRATED: Final = "jetson-thor-igpu"
UNKNOWN: Final = [key for key in model_keys() if model(key).compute_capability is None or not model(key).products]


def test_an_integrated_gpu_is_asked_of_cuda_which_is_not_simulated(site: Site) -> None:
    on = site.add(machine("n", Hardware(4, 28, INTEGRATED, None, 1)))
    what = loaded("", on)
    found = site.answer(lambda: site.programs.discover(on, what, {}))
    assert isinstance(found, Crash)
    assert "CUDA_ERROR" in found.message


@pytest.mark.parametrize("key", [key for key in UNKNOWN if key != INTEGRATED])
def test_gpus_of_which_little_is_known_have_labels_too(site: Site, key: str) -> None:
    on = site.add(machine("n", Hardware(4, 28, key, None, 1)))
    what = loaded("", on)
    found = site.answer(lambda: site.programs.discover(on, what, {}))
    assert isinstance(found, Labels)
    assert found.labels["nvidia.com/gpu.count"] == "1"
    site.served(on, what, {GPU: 1})


# --- nvidia-mig-parted ------------------------------------------------------------------------------------


def test_layouts_are_applied_and_the_record_follows(site: Site) -> None:
    on = site.add(machine("n"))
    assert site.apply(on, "seven").holds
    assert [gpu.layout for gpu in on.gpus] == [{"1g.10gb": 7}] * 2
    assert site.apply(on, "mix").holds
    assert [(gpu.mig_enabled, gpu.layout) for gpu in on.gpus] == [(True, {"3g.40gb": 1, "2g.20gb": 2}), (False, {})]
    request = LayoutRequest("pod", LAYOUTS, "mix")
    assert site.answer(lambda: site.programs.check_layout(on, request)).holds
    assert not site.answer(lambda: site.programs.check_layout(on, replace(request, selected="seven"))).holds


@pytest.mark.parametrize(
    ("selected", "text", "words"),
    [
        ("unheard-of", LAYOUTS, "selected mig-config not present: unheard-of"),
        ("all-disabled", None, "no such file or directory"),
        ("all-disabled", "version: v2", "unknown version: v2"),
    ],
)
def test_what_is_no_layout_is_an_error_of_asking_for_it(site: Site, selected: str, text: str | None, words: str) -> None:
    on = site.add(machine("n"))
    request = LayoutRequest("pod", text, selected)
    answer = site.answer(lambda: site.programs.check_layout(on, request))
    assert not answer.holds
    assert words in answer.error


@pytest.mark.parametrize("selected", ["too-much", "of-another-gpu"])
def test_a_layout_that_cannot_be_fails_and_leaves_what_mig_parted_leaves(site: Site, selected: str) -> None:
    on, ruled = site.add(machine("n")), machine("n")
    answer = site.apply(on, selected)
    by_rule = RuledPrograms(site.folder.parent / "none").apply_layout(ruled, LayoutRequest("pod", LAYOUTS, selected))
    assert by_rule is not None
    assert answer.error
    assert by_rule.error
    assert on.gpus == ruled.gpus


# --- what lasts and what does not -------------------------------------------------------------------------


def test_the_machine_outlives_the_daemon_and_is_not_reported_empty(site: Site) -> None:
    on = site.add(machine("n"))
    site.apply(on, "seven")
    before = loaded("flags: {migStrategy: single}", on, "pod")
    on.advertise(site.served(on, before, {GPU: 14}))
    site.start_anew()
    # As the record had it before: the state file knows better.
    on.gpus = new_gpus("n", A100, None)
    seen = []
    site.answer(lambda: seen.append(site.programs.serve(on, before, {})) or seen[-1])
    assert [gpu.layout for gpu in on.gpus] == [{"1g.10gb": 7}] * 2
    assert [found for found in seen if found is not None] == [Advertised({GPU: 14}, unhealthy={GPU: 0})]


def test_a_machine_whose_namespace_was_killed_gets_another_one(site: Site) -> None:
    on = site.add(machine("n"))
    site.served(on, loaded("", on, "pod"), {GPU: 2})
    host = site.programs._nodes["n"]._host
    assert host is not None
    host._keeper.kill()
    crash = site.answer(lambda: site.programs.serve(on, loaded("", on, "pod"), {}), lambda found: isinstance(found, Crash))
    assert isinstance(crash, Crash)
    site.served(on, loaded("", on, "pod", attempt=1), {GPU: 2})


def test_what_somebody_does_to_the_state_file_is_seen(site: Site) -> None:
    on = site.add(machine("n"))
    state.change(site.folder / "n" / "state", lambda seen: replace(seen, gpus=seen.gpus[:1]))
    site.answer(lambda: on.gpus, lambda gpus: len(gpus) == 1)
    site.served(on, loaded("", on, "pod"), {GPU: 1})


def test_a_gpu_that_hangs_holds_up_its_own_machine_only(site: Site) -> None:
    stuck, well = site.add(machine("stuck")), site.add(machine("well", T4))
    hang = simulated.Fault("nvmlDeviceGetName", hang_seconds=600)
    state.change(site.folder / "stuck" / "state", lambda seen: replace(seen, faults=(hang,)))
    what = loaded("", stuck)
    assert site.programs.discover(stuck, what, {}) is None
    site.served(well, loaded("", well), {GPU: 1})
    assert site.programs.discover(stuck, what, {}) is None


# --- pods whose containers really run ---------------------------------------------------------------------


def container(name: str, script: str, probe: Probe | None = None) -> Container:
    mounts = (Mount("files", "/run/here/files"), Mount("own", "/run/here/own", "/srv/own"))
    environment = {"GREETING": "hello"}
    return Container(name, ("sh", "-c", script), environment, mounts, "/run/here/last-words", probe)


def asked(init: str = "true", main: str = "exec sleep 600", **more: Any) -> PodRequest:
    given: dict[str, Any] = {"attempt": 0, "volumes": {"files": {"text": b"one"}}, "initialized": False, "ready": False}
    inits, mains = (container("first", init),), (container("main", main),)
    return PodRequest(pod="pod", address="127.0.0.1", inits=inits, mains=mains, **(given | more))


def test_a_failed_init_container_tells_why_and_is_tried_again_when_that_is_asked_for(site: Site) -> None:
    on = site.add(machine("n", T4))
    script = "echo x >> /run/here/own/tries; test $(wc -l < /run/here/own/tries) = 2 && exit 0; "
    script += 'echo "$GREETING" > /run/here/last-words; exit 3'
    crash = site.answer(lambda: site.programs.run_pod(on, asked(script)), lambda found: isinstance(found, InitCrash))
    assert crash == InitCrash("first", "", 3, left="hello")
    assert site.programs.run_pod(on, asked(script, attempt=1)) != crash
    site.answer(lambda: site.programs.run_pod(on, asked(script, attempt=1)), lambda found: found == Up())
    assert (site.folder / "n" / "host" / "srv" / "own" / "tries").read_text() == "x\nx\n"


def test_volumes_follow_their_source_and_a_container_that_ends_says_so(site: Site) -> None:
    on = site.add(machine("n", T4))
    main = "until grep -q two /run/here/files/text; do sleep 0.1; done; echo seen > /run/here/last-words; exit 7"
    site.answer(lambda: site.programs.run_pod(on, asked(main=main)), lambda found: found == Up())
    changed = asked(main=main, volumes={"files": {"text": b"two"}})
    ended = site.answer(lambda: site.programs.run_pod(on, changed), lambda found: found != Up())
    assert ended == Up({"main": ""}, {"main": 7}, left={"main": "seen"})


def test_a_container_is_ready_when_it_answers(site: Site) -> None:
    on = site.add(machine("n", T4))

    def served(pod: str, port: int, path: str) -> PodRequest:
        serve = f"cd /run/here/files && exec python3 -m http.server --bind 127.0.0.1 {port}"
        return replace(asked(), pod=pod, mains=(container("main", serve, Probe(port, path, 1, 5)),))

    good, bad = (served(*what) for what in zip(("good", "bad"), processes.free_ports(2), ("/text", "/none"), strict=True))
    assert site.programs.run_pod(on, good) != Up()
    site.answer(lambda: site.programs.run_pod(on, good), lambda found: found == Up())
    site.answer(lambda: site.programs.run_pod(on, bad), lambda found: found == Up(unready=frozenset({"main"})))


def test_an_initialized_pod_does_not_wait_for_its_init_containers_again(site: Site) -> None:
    on = site.add(machine("n", T4))
    request = asked("exit 1", initialized=True)
    site.answer(lambda: site.programs.run_pod(on, request), lambda found: found == Up())


def test_pods_that_are_not_kept_end_and_leave_nothing(site: Site) -> None:
    on = site.add(machine("n", T4))
    main = "echo begun > /run/here/own/mark; exec sleep 600.25"
    site.answer(lambda: site.programs.run_pod(on, asked(main=main)), lambda found: found == Up())
    mark = site.folder / "n" / "host" / "srv" / "own" / "mark"
    site.answer(lambda: site.programs.run_pod(on, asked(main=main)), lambda _: mark.exists())
    site.programs.keep_pods(on, frozenset({"another"}))
    site.answer(lambda: on.gpus, lambda _: not _sleeping() and not list((site.folder / "n" / "pods").iterdir()))


def _sleeping() -> bool:
    found = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
    return b"sleep\x00600.25\x00" in set(found)
