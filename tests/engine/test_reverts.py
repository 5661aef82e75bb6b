"""Whatever went wrong before: going back to what was deployed well goes through, and leaves what it left the first time.

The real engine, the real program and a real API server; the stand-in of the provider runs in this process, so that a fault comes
at the step that chance has chosen: refused by the API, an engine killed before or after the step, a verification that fails.
Nobody runs the pods, so what is not made to fail is ready at once. GPU_POOLS_TEST_ALL=1 tries more.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from sandbox.cluster import control_plane as cluster
from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import UnknownKindError
from sandbox.providers.base import PartialFailure, ServiceError, serve
from sandbox.providers.chart_sources import STAND_INS
from sandbox.providers.kube_objects import Objects
from sandbox.providers.kubernetes import KubernetesStandIn
from sandbox.stack import recovery, stand_ins
from sandbox.stack.engine import Engine
from sandbox.stack.names import PROJECT
from sandbox.stack.stand_ins import Attached
from sandbox.stack.state import Sandbox, prepare
from sandbox.system import processes
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from sandbox.toolchain.tools import PLATFORM_TOOLS
from tests.patience import output_of
from tests.tiers import ALL, at_night

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep]

SEEDS: Final = range(12) if ALL else range(1)
FAULTS: Final = ("refused", "killed before", "killed after", "differs")
SHARING: Final = {"four": {"timeSlicing": {"replicas": 4}}, "eight": {"timeSlicing": {"replicas": 8}}, "whole": {"exclusive": {}}}
GOOD: Final = {"a": "four", "b": "whole"}
#: With a pool less, the same, and a pool more.
SETS: Final = ("a", "ab", "abc")
#: Of a run that takes pool b away, the numbers of all its steps; a run that has fewer goes through.
STEPS: Final = range(1, 15)
BY_DAY: Final = 3
#: Where the stack makes something, and what of it.
KINDS: Final = (
    ("v1", "ConfigMap"), ("apps/v1", "DaemonSet"), ("v1", "ServiceAccount"), ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"), ("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule"), ("v1", "Namespace"),
    ("nvidia.com/v1", "ClusterPolicy"),
)  # fmt: skip


def stack(pools: Mapping[str, str]) -> str:
    """A stack file on a cluster that has an operator of another owner: pool -> its sharing."""
    return yaml.safe_dump(
        {
            "config": {
                "gpu-pools:cluster": {"platform": "existing", "context": "byo"},
                "gpu-pools:sharing": SHARING,
                "gpu-pools:operator": {"install": False},
                "gpu-pools:nodeFeatureDiscovery": {"install": False},
                "gpu-pools:verification": {"deadlineSeconds": 10},
                "gpu-pools:pools": [
                    {"name": name, "nodeSelector": {"p": name}, "gpuModel": "NVIDIA A10", "gpusPerNode": 1, "sharing": sharing}
                    for name, sharing in pools.items()
                ],
            }
        }
    )


class Faulty(KubernetesStandIn):
    """The stand-in, with a fault at one step of a run."""

    def __init__(self) -> None:
        super().__init__()
        self._counts = threading.Lock()
        self.arm("", 0)

    def arm(self, fault: str, at: int, kill: Any = None) -> None:
        """Have the step of that number go wrong; `kill` ends the engine."""
        self.fault, self.left, self.kill = fault, at, kill

    def _goes_wrong(self) -> bool:
        with self._counts:
            self.left -= 1
            return self.left == 0

    def create(self, type_: str, name: str, inputs: dict[str, Any], timeout: float, preview: bool) -> tuple[str, dict[str, Any]]:  # noqa: FBT001
        wrong = not preview and self._goes_wrong()
        self._before(wrong=wrong)
        made = super().create(type_, name, inputs, timeout, preview)
        self._after(wrong=wrong)
        return made

    def update(self, type_: str, id_: str, old_inputs: Any, old_outputs: Any, news: Any, preview: bool) -> dict[str, Any]:  # noqa: FBT001
        wrong = not preview and self._goes_wrong()
        self._before(wrong=wrong)
        made = super().update(type_, id_, old_inputs, old_outputs, news, preview)
        self._after(wrong=wrong)
        return made

    def delete(self, type_: str, id_: str, inputs: Any, outputs: Any) -> None:
        wrong = self._goes_wrong()
        self._before(wrong=wrong)
        super().delete(type_, id_, inputs, outputs)
        self._after(wrong=wrong)

    def _before(self, *, wrong: bool) -> None:
        if wrong and self.fault == "refused":
            raise ServiceError("the API server is away for a moment")
        if wrong and self.fault == "killed before":
            self.kill()
            raise ServiceError("nobody hears this")

    def _after(self, *, wrong: bool) -> None:
        if wrong and self.fault == "killed after":
            self.kill()

    def _await(
        self, objects: Objects, live: dict[str, Any], seconds: float, overtaken: threading.Event, manager: str, failed: str
    ) -> Any:
        if self.fault == "differs" and live["metadata"]["name"].startswith("gpu-pools-verifier-"):
            kept = {**live, "__fieldManager": manager}
            raise PartialFailure(f"{live['metadata']['namespace']}/{live['metadata']['name']}", kept, [failed])
        return super()._await(objects, live, seconds, overtaken, manager, failed)


@dataclass
class Place:
    """A stack on a control plane of its own.

    Attributes:
        engine: runs the program.
        stand_in: of the provider.
        objects: of the cluster.
        hook: what happens in the cluster right before the engine is killed.
        said: what each run came to.
    """

    engine: Engine
    stand_in: Faulty
    objects: Objects
    hook: Callable[[], None] = lambda: None
    said: list[str] = field(default_factory=list)

    def up(self, pools: Mapping[str, str], fault: str = "", at: int = 0) -> bool:
        """Bring a declaration up as `make up` does, with a fault or without; says whether that went well."""
        self.declare(pools)
        recovery.recover(self.engine)
        return self.pulumi("up", fault=fault, at=at)

    def declare(self, pools: Mapping[str, str]) -> None:
        """Write the stack file, and open the lock of an engine that was killed."""
        self.engine.sandbox.stack_file.write_text(stack(pools), encoding="utf-8")
        prepare(self.engine.sandbox)
        recovery.take_over(self.engine)

    def pulumi(self, *arguments: str, fault: str = "", at: int = 0) -> bool:
        """Run the engine alone, as on a real cloud; says whether that went well."""
        command = self.engine._command([*arguments, *(["--yes", "--skip-preview"] if arguments[0] == "up" else [])])
        with subprocess.Popen(
            command, cwd=PROJECT, env=self.engine.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            self.stand_in.arm(fault, at, lambda: (self.hook(), process.kill()))
            out, _ = output_of(process, 240)
        self.stand_in.arm("", 0)
        for pid in recovery._engine_processes(self.engine.sandbox):
            os.kill(pid, signal.SIGKILL)
        declared = self.engine.sandbox.stack_file.read_text(encoding="utf-8")
        self.said.append(f"{declared}\n{arguments} {fault} {at}: {process.returncode}\n{out}")
        return process.returncode == 0

    def history(self) -> str:
        """For the message of a test that fails."""
        return "\n-----\n".join(self.said)

    def there(self) -> dict[str, Any]:
        """Everything that the stack can make: kind, namespace, name -> what counts of it."""
        found: dict[str, Any] = {}
        for api_version, kind in KINDS:
            for one in self.objects.find(api_version, kind, "", {}):
                metadata = one["metadata"]
                if not metadata.get("namespace", "").startswith("kube-"):
                    key = f"{kind} {metadata.get('namespace', '')}/{metadata['name']}"
                    found[key] = json.dumps([one.get("data"), one.get("spec"), one.get("rules")], sort_keys=True)
        return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    tools = find_tools(Progress(), only={*PLATFORM_TOOLS, "pulumi"})
    sandbox = Sandbox("reverts", tmp_path / "state", tmp_path / "Pulumi.reverts.yaml")
    sandbox.stack_file.write_text(stack(GOOD), encoding="utf-8")
    prepare(sandbox)
    stand_in = Faulty()
    server, port = serve(stand_in)
    attached = Attached({"kubernetes": port}, {})
    # The one of this process stays.
    monkeypatch.setattr(stand_ins, "stop", lambda _: None)
    monkeypatch.setattr(stand_ins, "start", lambda *_: attached)
    try:
        made = cluster.boot(sandbox.existing_cluster, "byo", tools, machines=False)
        objects = Objects(Api.at(made.kubeconfig))
        _another_owner(objects)
        yield Place(Engine(sandbox, tools, attached), stand_in, objects)
    finally:
        server.stop(0)
        for pid in recovery._engine_processes(sandbox):
            os.kill(pid, signal.SIGKILL)
        cluster.erase(sandbox.existing_cluster)


def _another_owner(objects: Objects) -> None:
    """What an operator and NFD of another owner have brought, as far as the stack needs it."""
    files = [*STAND_INS.glob("gpu-operator/crds/*clusterpolicies.yaml"), *STAND_INS.glob("node-feature-discovery/crds/*.yaml")]
    for file in files:
        for definition in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            objects.create(definition, manager="helm")
    for name in ("gpu-operator", "node-feature-discovery"):
        objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, manager="helm")
    kinds = [("nvidia.com/v1", "ClusterPolicy"), ("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule")]
    processes.wait_until(lambda: all(_served(objects, *kind) for kind in kinds), timeout=30, what="the definitions")
    required = (
        "operator",
        "driver",
        "toolkit",
        "devicePlugin",
        "daemonsets",
        "dcgm",
        "dcgmExporter",
        "nodeStatusExporter",
        "gfd",
    )
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}}
    operator = {"defaultRuntime": "containerd", "runtimeClass": "nvidia"}
    objects.create({**policy, "spec": {**{key: {} for key in required}, "operator": operator}}, manager="helm")


def _served(objects: Objects, api_version: str, kind: str) -> bool:
    try:
        objects.api.kind(api_version, kind)
    except UnknownKindError:
        return False
    return True


def deletes_as_the_leave_hook(objects: Objects, pool: str) -> None:
    """Delete what the hook of the operator's release deletes of a removed pool (hook_programs/leave_program.py)."""
    for api_version, kind, namespace, name in (
        ("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule", "", f"gpu-pools-{pool}"),
        ("apps/v1", "DaemonSet", "gpu-pools-verifier", f"gpu-pools-verifier-{pool}"),
    ):
        if found := objects.get(api_version, kind, namespace, name):
            objects.delete(found, "Background")


def test_a_pool_whose_objects_went_without_the_engine_is_no_success_and_a_refresh_brings_it_back(place: Place) -> None:
    assert place.up(GOOD), place.history()
    before = place.there()
    deletes_as_the_leave_hook(place.objects, "b")
    place.declare(GOOD)
    for command, ends_well in (("preview", True), ("up", False)):
        assert place.pulumi(command) is ends_well, place.history()
        assert "2 objects of this stack are missing in the cluster" in place.said[-1]
        assert "NodeFeatureRule gpu-pools-b" in place.said[-1]
    assert place.pulumi("up", "--refresh"), place.history()
    assert place.there() == before, place.history()

    deletes_as_the_leave_hook(place.objects, "b")
    assert place.up(GOOD), place.history()
    assert place.there() == before, place.history()


@pytest.mark.parametrize("at", [at if at == BY_DAY else pytest.param(at, marks=at_night("every step")) for at in STEPS])
def test_a_pool_that_is_put_back_after_its_removal_was_killed_is_whole_again(place: Place, at: int) -> None:
    assert place.up(GOOD), place.history()
    before = place.there()
    place.hook = lambda: deletes_as_the_leave_hook(place.objects, "b")
    place.up({"a": GOOD["a"]}, "killed after", at)
    assert place.up(GOOD), place.history()
    assert place.there() == before, place.history()


@at_night("others go back by day")
@pytest.mark.parametrize("seed", SEEDS)
def test_going_back_always_heals(place: Place, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same sequence each time
    assert place.up(GOOD), place.history()
    before = place.there()
    for fault in chance.sample(FAULTS, len(FAULTS)):
        # Always something else than before: what is to be proven is the way back.
        pools = {name: chance.choice(("eight", "whole")) for name in chance.choice(SETS)}
        place.hook = lambda gone="b" not in pools: deletes_as_the_leave_hook(place.objects, "b") if gone else None
        place.up(pools, fault, chance.randint(1, 8))
        if chance.random() < 1 / 2:
            assert place.up(GOOD), place.history()
            assert place.there() == before, place.history()
    assert place.up(GOOD), place.history()
    assert place.there() == before, place.history()
    assert not place.engine.exported().get("pending_operations"), place.history()
