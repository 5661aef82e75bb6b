"""A pool in memory: what the real changers find and write, with everything around them that acts by itself or fails.

The changers are the program's own (Change, LivingNode, Turns, Release); only the API server's answers are played, with what they
depend on: versions of objects that conflict, JSON patches with a test, evictions within disruption budgets, deletions with a
grace. Around it play the scheduler with its Deployment, mig-manager and the device plugin, which takes seconds to follow its
label: a pod that starts meanwhile gets a share of what was before. mig-manager fails where a pod holds a
GPU, stays pending or paused for ever where it is told to (mig-parted#485), and begins anew when its pod is replaced. What the
real API server says to the same requests is in tests/sandbox/test_changer_rights.py. The MPS daemon of a node reads its split
when its pod starts and never again, as with device plugins before v0.18.2. Not played: DaemonSets' pods that hold GPUs.

Where there is a rule, nfd-master plays, too. It looks at all nodes after each change of the rule, one after the other, and at a
node when its worker has published; nobody's label moves it. It sets what the rule says over whatever is there, and takes away
what its own annotation lists and the rule says no more, both in one patch that names no version (node-feature-discovery,
pkg/nfd-master: nfd-api-controller.go, and updateNodeObject and createPatches in nfd-master.go). config-manager finds a key only
where the kubelet has brought it; one that it does not find is noted, since the real one then falls back or wedges.

Time is the world's own: each wait of a changer lets it pass. Before each request other changers may act, and a changer may be
killed before it or after it, as whoever makes the world decides.
"""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.verifier.api import ApiError
from gpu_pools.verifier.changer.change import Change, ChangeError, Manner
from gpu_pools.verifier.changer.commands import Release
from gpu_pools.verifier.changer.living_node import ANNOTATION, LivingNode
from gpu_pools.verifier.changer.rollout_slots import RolloutSlots, at_once
from gpu_pools.verifier.changer.rollout_steps import read_mark
from gpu_pools.verifier.marks import listed_by_nfd
from gpu_pools.verifier.names import CONFIG_LABEL, MIG_CONFIG_LABEL, MIG_STATE_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_pools.verifier.changer.rollout_steps import Target

POOL, OPERATORS, VERIFIERS = "p", "gpu-operator", "gpu-pools-verifier"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{VERIFIERS}/leases"
RULES: Final = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"
GPU: Final = "nvidia.com/gpu"
PAUSED: Final = "nvidia.com/gpu.deploy.device-plugin"
MANNER: Final = Manner(drain_seconds=60, staying="stop", wait_seconds=120)
#: How long mig-manager takes for a node, and the device plugin to serve what its label says.
_MIG_SECONDS, _PLUGIN_SECONDS = 10.0, 4.0
#: How long a node's worker takes to publish what it is.
_WORKER_SECONDS: Final = 6.0
_OPERANDS: Final = {"app=nvidia-mig-manager": "mig", "app=nvidia-device-plugin-mps-control-daemon": "mps"}
NFD_LABELS: Final = "nfd.node.kubernetes.io/feature-labels"


class KilledError(BaseException):
    """The process of a changer is gone."""


@dataclass
class Pod:
    """A pod that holds a GPU.

    Attributes:
        grace: seconds that it takes to end.
        ends: when it ends, once it was told to.
        stays: whether nothing evicts it: a budget of its own.
        replica: whether the Deployment makes another one in its place.
        late: whether it is bound in spite of a cordon: by its node's name, or since it was bound before.
        share: the labels that the plugin served when it started.
    """

    uid: str
    node: str
    grace: float = 2.0
    ends: float | None = None
    stays: bool = False
    replica: bool = True
    late: bool = False
    share: tuple[str, str] = ("", "")


@dataclass
class World:
    """A pool of nodes.

    Attributes:
        names: of the nodes.
        shares: that each node offers.
        least: replicas that must run.
        before, after: called before and after each request, with the node whose changer asks.
        now: seconds.
        requests: how many there were.
        broken: node -> how its mig-manager behaves: failed, pending or paused, or hangs, pending until its pod is replaced.
        applied: node -> the layout that its GPUs have.
        replicas: of the Deployment.
        served: node -> the config label that its device plugin serves.
        splits: node -> the key whose split its MPS daemon serves, where it has one.
        advertised: the labels of a target -> what a node then offers.
        rule: the labels that NFD sets; None: it is not there.
        volume: the keys that config-manager finds on the nodes; None: any.
        missed: nodes whose label named a key that was not there.
        harmed: pods whose share was taken away while they ran.
        fewest: replicas that ran at least.
        most_away: nodes at most that were being changed at once.
    """

    names: tuple[str, ...]
    shares: int = 2
    least: int = 0
    before: Callable[[str], None] = lambda _: None
    after: Callable[[str], None] = lambda _: None
    now: float = 1_000.0
    requests: int = 0
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    leases: dict[str, dict[str, Any]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    applied: dict[str, str] = field(default_factory=dict)
    served: dict[str, str] = field(default_factory=dict)
    splits: dict[str, str] = field(default_factory=dict)
    advertised: dict[tuple[str, str], Mapping[str, int]] = field(default_factory=dict)
    rule: dict[str, str] | None = None
    volume: set[str] | None = None
    missed: list[str] = field(default_factory=list)
    replicas: int = 0
    harmed: list[str] = field(default_factory=list)
    fewest: int | None = None
    most_away: int = 0
    _working: dict[str, float] = field(default_factory=dict)
    _reloads: dict[str, tuple[str, float]] = field(default_factory=dict)
    _asked: dict[str, str] = field(default_factory=dict)
    _nfd: dict[str, float] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        """Nodes that have joined and were never given the labels."""
        for name in self.names:
            self.add(name)

    # ---- what acts by itself

    def add(self, name: str) -> None:
        """A node joins."""
        metadata = {"name": name, "labels": {}, "annotations": {}, "resourceVersion": self._version()}
        self.nodes[name] = {"metadata": metadata, "spec": {}}
        for one in (self.applied, self.served, self._working, self._reloads, self._asked):
            one.pop(name, None)
        self._nfd[name] = self.now + _WORKER_SECONDS

    def set_rule(self, labels: dict[str, str]) -> None:
        """The rule changes; nfd-master comes to one node after the other."""
        self.rule = labels
        self.resync()

    def resync(self) -> None:
        """As nfd-master does each hour, and when it starts."""
        self._nfd |= {name: self.now + number for number, name in enumerate(self.nodes, 1)}

    def remove(self, name: str) -> None:
        """A node is gone, and its pods with it."""
        del self.nodes[name]
        self.pods = {uid: pod for uid, pod in self.pods.items() if pod.node != name}

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self._end_pods()
        self._schedule()
        for name in self.nodes:
            self._nfd_master(name)
            self._mig_manager(name)
            self._device_plugin(name)
            self._mps_daemon(name)
        self._look()

    def _end_pods(self) -> None:
        for uid, pod in list(self.pods.items()):
            if pod.ends is not None and pod.ends <= self.now:
                del self.pods[uid]

    def _schedule(self) -> None:
        running = sum(pod.replica and pod.ends is None for pod in self.pods.values())
        for _ in range(self.replicas - running):
            room = [name for name in self.nodes if self._takes_pods(name)]
            if not room:
                return
            least = min(room, key=lambda name: sum(pod.node == name for pod in self.pods.values()))
            self.pod(least)

    def _takes_pods(self, name: str) -> bool:
        node = self.nodes[name]
        held = sum(pod.node == name for pod in self.pods.values())
        return not node["spec"].get("unschedulable") and self.serves(name) is not None and held < self.shares

    def serves(self, name: str) -> tuple[str, str] | None:
        """The labels that the device plugin gives shares of; None where there is none, or mig-manager keeps it away."""
        if name not in self.served or self.is_paused(name):
            return None
        return self.served[name], self.applied.get(name, "")

    def offers(self, name: str) -> bool:
        """Whether its device plugin serves what its labels say."""
        labels = self.nodes[name]["metadata"]["labels"]
        return self.serves(name) == (labels.get(CONFIG_LABEL), labels.get(MIG_CONFIG_LABEL, ""))

    def bind(self, name: str) -> Pod | None:
        """A pod comes in spite of a cordon; None where the kubelet refuses it, since nothing serves its resource."""
        return None if self.serves(name) is None else self.pod(name, replica=False, late=True)

    def _nfd_master(self, name: str) -> None:
        if self.rule is None or self.now < self._nfd.get(name, float("inf")):
            return
        del self._nfd[name]
        metadata = self.nodes[name]["metadata"]
        before, listed = copy.deepcopy(metadata), listed_by_nfd(metadata)
        for key in listed - {*self.rule}:
            metadata["labels"].pop(key, None)
        metadata["labels"] |= self.rule
        metadata["annotations"][NFD_LABELS] = ",".join(sorted(self.rule))
        if metadata != before:
            metadata["resourceVersion"] = self._version()

    def _device_plugin(self, name: str) -> None:
        # Without the label it serves its default config; before it ever had one the startup taint keeps pods away.
        wanted = self.nodes[name]["metadata"]["labels"].get(CONFIG_LABEL, "" if name in self.served else None)
        if wanted is None or wanted == self.served.get(name):
            self._reloads.pop(name, None)
            return
        if wanted and self.volume is not None and wanted not in self.volume:
            self.missed.append(f"{name}: {wanted}")
        if name not in self._reloads or self._reloads[name][0] != wanted:
            self._reloads[name] = (wanted, self.now)
        if self.now - self._reloads[name][1] >= _PLUGIN_SECONDS:
            self.served[name] = wanted

    def _start_mps_daemon(self, name: str) -> None:
        """Its init container waits for the label, and the daemon starts with what that says."""
        self.splits[name] = self.nodes[name]["metadata"]["labels"].get(CONFIG_LABEL, "")

    def _mps_daemon(self, name: str) -> None:
        """GFD's label follows the configuration, and the DaemonSet that label."""
        if not self.served.get(name, "").startswith("mps-"):
            self.splits.pop(name, None)
        elif name not in self.splits:
            self._start_mps_daemon(name)

    def is_paused(self, name: str) -> bool:
        """Whether mig-manager keeps its clients away."""
        return self.nodes[name]["metadata"]["labels"].get(PAUSED) == "paused-for-mig-change"

    def _mig_manager(self, name: str) -> None:
        labels = self.nodes[name]["metadata"]["labels"]
        wanted = labels.get(MIG_CONFIG_LABEL)
        state = labels.get(MIG_STATE_LABEL)
        if wanted is None:
            return
        # It follows its label, also after a failure.
        moved = self._asked.get(name) != wanted
        self._asked[name] = wanted
        if moved:
            self._working.pop(name, None)
        if (state == "failed" and not moved) or (state == "success" and self.applied.get(name) == wanted):
            return
        if name not in self._working:
            self._working[name] = self.now
            self._says(name, "pending", paused=True)
        if self.now - self._working[name] < _MIG_SECONDS:
            return
        broken = self.broken.get(name, "")
        in_use = any(pod.node == name for pod in self.pods.values())
        if broken in {"pending", "hangs"}:
            return
        del self._working[name]
        if broken == "failed" or in_use:
            self._says(name, "failed", paused=False)
        else:
            self.applied[name] = wanted
            self._says(name, "success", paused=broken == "paused")

    def _says(self, name: str, state: str, *, paused: bool) -> None:
        metadata = self.nodes[name]["metadata"]
        metadata["labels"] |= {MIG_STATE_LABEL: state, PAUSED: "paused-for-mig-change" if paused else "true"}
        metadata["resourceVersion"] = self._version()

    def _restart_mig_manager(self, name: str) -> None:
        self._working.pop(name, None)
        if self.broken.get(name) == "hangs":
            del self.broken[name]
        if name in self.nodes and MIG_CONFIG_LABEL in self.nodes[name]["metadata"]["labels"]:
            self.applied.pop(name, None)
            self._says(name, "pending", paused=False)

    def _look(self) -> None:
        running = sum(pod.replica and pod.ends is None for pod in self.pods.values())
        self.fewest = running if self.fewest is None else min(self.fewest, running)
        away = sum(ANNOTATION in node["metadata"]["annotations"] and not self._given_up(node) for node in self.nodes.values())
        self.most_away = max(self.most_away, away)

    @staticmethod
    def _given_up(node: dict[str, Any]) -> bool:
        mark = read_mark(node["metadata"]["annotations"].get(ANNOTATION))
        return mark is not None and bool(mark.stopped)

    def pod(self, node: str, **more: Any) -> Pod:
        """A pod starts there."""
        made = Pod(f"u{next(self._numbers)}", node, share=self.serves(node) or ("", ""), **more)
        self.pods[made.uid] = made
        return made

    # ---- the API

    def get(self, path: str, **query: str) -> dict[str, Any]:
        if path == LEASES:
            return {"items": copy.deepcopy(list(self.leases.values()))}
        if path.startswith("/api/v1/nodes/"):
            node = self._node(path)
            return {**copy.deepcopy(node), "status": {"allocatable": self._allocatable(node["metadata"]["name"])}}
        if path.startswith("/apis/apps/v1/"):
            return {"status": {"desiredNumberScheduled": len(self.nodes)}}
        if path == RULES:
            ours = {"metadata": {"name": f"gpu-pools-{POOL}"}, "spec": {"rules": [{"labels": self.rule}]}}
            return {"items": [] if self.rule is None else [ours]}
        if path == f"/api/v1/namespaces/{OPERATORS}/pods":
            name = query["fieldSelector"].partition("=")[2]
            return {"items": [{"metadata": {"name": f"{_OPERANDS[query['labelSelector']]}-{name}", "uid": "m"}}]}
        assert path == "/api/v1/pods", path
        name = query["fieldSelector"].partition("=")[2]
        return {"items": [self._as_object(pod) for pod in self.pods.values() if pod.node == name]}

    def _allocatable(self, name: str) -> dict[str, str]:
        return {resource: str(count) for resource, count in self.advertised.get(self.serves(name) or ("", ""), {}).items()}

    @staticmethod
    def _as_object(pod: Pod) -> dict[str, Any]:
        metadata: dict[str, Any] = {"namespace": "work", "name": pod.uid, "uid": pod.uid}
        metadata |= {"ownerReferences": [{"kind": "ReplicaSet", "controller": True}]} if pod.replica else {}
        metadata |= {"deletionTimestamp": "now"} if pod.ends is not None else {}
        return {"metadata": metadata, "spec": {"containers": [{"resources": {"limits": {GPU: 1}}}]}, "status": {}}

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        node = self._node(path)
        metadata = node["metadata"]
        if body["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise ApiError(f"PATCH {path}", 409, "the object has been modified")
        self._note_harm(metadata, body["metadata"].get("labels", {}))
        for part in ("labels", "annotations"):
            for key, value in body["metadata"].get(part, {}).items():
                metadata[part].pop(key, None) if value is None else metadata[part].__setitem__(key, value)
        for key, value in body.get("spec", {}).items():
            node["spec"].pop(key, None) if value is None else node["spec"].__setitem__(key, value)
        metadata["resourceVersion"] = self._version()
        return copy.deepcopy(node)

    def _note_harm(self, metadata: dict[str, Any], labels: dict[str, str]) -> None:
        """Of time-slicing more or fewer replicas end nothing that runs; everything else does."""
        now, becomes = metadata["labels"], {**metadata["labels"], **labels}
        if not now.get(CONFIG_LABEL) or now == becomes:
            return
        sliced = all(one[CONFIG_LABEL].startswith("time-slicing-") for one in (now, becomes))
        if not sliced or now.get(MIG_CONFIG_LABEL) != becomes.get(MIG_CONFIG_LABEL):
            self.harmed += [pod.uid for pod in self.pods.values() if pod.node == metadata["name"] and not pod.late]

    def change(self, path: str, operations: list[dict[str, Any]]) -> dict[str, Any]:
        lease = self.leases.get(path.rpartition("/")[2])
        same, does = operations
        if lease is None or same["value"] != lease["metadata"]["resourceVersion"]:
            raise ApiError(f"PATCH {path}", 404 if lease is None else 422, "it is another one")
        if does["op"] == "add":
            lease["spec"]["holderIdentity"] = does["value"]
        else:
            del lease["spec"]["holderIdentity"]
        lease["metadata"]["resourceVersion"] = self._version()
        return copy.deepcopy(lease)

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == LEASES:
            name = body["metadata"]["name"]
            if name in self.leases:
                raise ApiError(f"POST {path}", 409, "already exists")
            metadata = {"name": name, "resourceVersion": self._version()}
            self.leases[name] = {"metadata": metadata, "spec": dict(body["spec"])}
            return copy.deepcopy(self.leases[name])
        assert path.endswith("/eviction"), path
        pod = self._pod(path.removesuffix("/eviction"))
        running = sum(one.replica and one.ends is None for one in self.pods.values())
        if pod.stays or (pod.replica and pod.ends is None and running - 1 < self.least):
            raise ApiError(f"POST {path}", 429, "it would violate the pod's disruption budget")
        if "dryRun" not in body["deleteOptions"] and pod.ends is None:
            pod.ends = self.now + pod.grace
        return {}

    def delete(self, path: str, uid: str) -> dict[str, Any]:
        if path.startswith(f"/api/v1/namespaces/{OPERATORS}/"):
            operand, _, name = path.rpartition("/")[2].partition("-")
            if operand == "mps":
                self._start_mps_daemon(name)
            else:
                self._restart_mig_manager(name)
            return {}
        pod = self._pod(path)
        if pod.uid != uid:
            raise ApiError(f"DELETE {path}", 409, "it is another one")
        pod.ends = self.now + pod.grace if pod.ends is None else pod.ends
        return {}

    def _node(self, path: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if name not in self.nodes:
            raise ApiError(path, 404, "not found")
        return self.nodes[name]

    def _pod(self, path: str) -> Pod:
        uid = path.rpartition("/")[2]
        if uid not in self.pods:
            raise ApiError(path, 404, "not found")
        return self.pods[uid]

    def _version(self) -> str:
        return str(next(self._numbers))


@dataclass(frozen=True)
class Asks:
    """A changer's way to the world; whoever made the world may interrupt it at each request."""

    world: World
    name: str

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """As gpu_pools/verifier/api.py."""

        def ask(*given: Any, **query: str) -> Any:
            self.world.before(self.name)
            self.world.requests += 1
            try:
                return getattr(self.world, method)(*given, **query)
            finally:
                self.world.after(self.name)

        return ask


@dataclass
class Changer:
    """The containers of one node's pod, one after the other: change, the proof, release."""

    world: World
    name: str
    target: Target
    most: str
    manner: Manner = MANNER
    chance: Callable[[], float] = lambda: 0.5
    done: bool = False
    why: str = ""
    _waits: bool = False
    _wakes: float = 0.0
    _doing: Change | Release | None = None

    def __post_init__(self) -> None:
        """Its node will offer that."""
        labels = self.target.labels
        self.world.advertised[labels[CONFIG_LABEL], labels.get(MIG_CONFIG_LABEL, "")] = self.target.advertises

    def step(self) -> None:
        """What it does until it waits; a failure is tried again, as the kubelet does."""
        if self.done or self.name not in self.world.nodes or self.world.now < self._wakes:
            return
        self._waits = False
        self._doing = self._doing or self._change()
        try:
            while not (ended := self._doing.look()) and not self._waits:
                pass
        except (ApiError, ChangeError) as error:
            self.why = str(error)
            self._doing = self._change() if isinstance(self._doing, Change) else self._release()
            return
        if ended and isinstance(self._doing, Release):
            self.done = True
        elif ended and self.proven():
            self._doing = self._release()
            self.step()

    def _change(self) -> Change:
        made = Change(self.target, *self._means(), self.manner, self._nvml, chance=self.chance)
        made.now = made.wall = lambda: self.world.now
        made.sleep = self._sleep
        return made

    def _release(self) -> Release:
        return Release(*self._means(), now=lambda: self.world.now, sleep=self._sleep)

    def _means(self) -> tuple[LivingNode, RolloutSlots]:
        api: Any = Asks(self.world, self.name)
        return LivingNode(api, self.name, OPERATORS), RolloutSlots(api, VERIFIERS, POOL, self.most, self.name)

    def _sleep(self, seconds: float) -> None:
        self._waits, self._wakes = True, self.world.now + seconds

    def killed(self, *, pod: bool = True) -> None:
        """Its process is gone, and another one begins; of a container, or of the whole pod."""
        release = isinstance(self._doing, Release) and not pod
        self._doing, self._wakes = self._release() if release else None, 0.0

    def _nvml(self) -> bool:
        """It knows of MIG, and nothing of how GPUs are shared otherwise."""
        layout = self.target.labels.get(MIG_CONFIG_LABEL)
        return layout is None or self.world.applied.get(self.name) == layout

    def proven(self) -> bool:
        """What the assertion finds."""
        labels = self.world.nodes[self.name]["metadata"]["labels"]
        return all(labels.get(key) == value for key, value in self.target.labels.items()) and self.world.offers(self.name)


def left_over(world: World) -> list[str]:
    """What a change has left that should be gone."""
    found = [f"{name} is cordoned" for name, node in world.nodes.items() if node["spec"].get("unschedulable")]
    found += [f"{name} is marked" for name, node in world.nodes.items() if ANNOTATION in node["metadata"]["annotations"]]
    found += [f"{name} is paused" for name in world.nodes if world.is_paused(name)]
    return found + [f"{name} is held" for name, lease in world.leases.items() if lease["spec"].get("holderIdentity")]


def stale(world: World) -> list[str]:
    """Pods that hold a share of what is no more; of time-slicing running pods keep theirs."""
    return [
        f"{pod.uid} on {pod.node} holds {pod.share}"
        for pod in world.pods.values()
        if (now := world.serves(pod.node)) != pod.share
        and not (now and now[1] == pod.share[1] and all(one[0].startswith("time-slicing-") for one in (now, pod.share)))
    ]


def bound(most: str, world: World) -> int:
    """How many nodes may be away."""
    return at_once(most, len(world.nodes))
