"""Stand-in for the kubelets: what becomes of the pods that are bound to the machines.

A pod starts as soon as what it mounts exists, its claims are prepared (pod_claims), and its runtime class is known on the
machine; known programs then decide for themselves (programs), others run; a Job's pod succeeds after a moment, or after as
long as its commands `sleep`. Containers that end are started again, each after a back-off of its own (backoff), and pods see
their ConfigMaps as of their last sync (config_volumes): both as with a kubelet, but faster. A deleted pod that says how it
ends has its grace (ending) and may have work to save (work); any other is gone at once. There are no images to pull, no exec,
no network (a pod's address is made up), and no logs to ask for: container_logs keeps the last words of what has failed. Of
known programs, the verifier's containers really run (containers.py), and only they are probed; config-manager does, too, with
the programs that it signals (config_pod.py). A pod that is labelled like one of a known program, and was not made as those
are, never starts (makers).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpu_pools.verifier.quantities import read_count
from sandbox.cluster.api_errors import ApiError
from sandbox.machines import container_logs, objects, work
from sandbox.machines.backoff import Backoff
from sandbox.machines.config_volumes import ConfigVolumes
from sandbox.machines.ending import NEVER_RAN, Ending, ending, takes_time
from sandbox.machines.makers import Makers
from sandbox.machines.outcomes import Creating, Finished, Outcome, Up, crashed, last_texts, pod_status
from sandbox.machines.pod_claims import PodClaims, is_dra_backed
from sandbox.machines.programs import Context, Program
from sandbox.machines.world import LOG

if TYPE_CHECKING:
    from sandbox.machines.machine import Machine
    from sandbox.machines.objects import Json
    from sandbox.machines.world import World

_JOB_SECONDS = 0.5
_RETRY_SECONDS = 0.5
_SLEEP = re.compile(r"\bsleep (\d+)\b")
_ENDED = {"Succeeded", "Failed"}
# The API server mounts it into every pod; whether the controller manager publishes it does not matter to a simulated one.
_ROOT_CA = "kube-root-ca.crt"


@dataclass
class _Life:
    """What the kubelet knows of a pod beyond its status.

    Attributes:
        restarts: container -> how often it was started again.
        started: its containers have been created once, so mounts are not looked at any more.
        since: when it started (monotonic), None before.
        waits: container that has ended -> when it is started again.
        backoffs: container -> how long it has to wait.
        volumes: the ConfigMaps as it sees them.
        reported: the last event, so that each is reported once.
        pod: one that takes its time to end, as it was last seen.
        ending: how it ends, and since when it does (monotonic); None before.
    """

    restarts: dict[str, int] = field(default_factory=dict)
    started: bool = False
    since: float | None = None
    waits: dict[str, float] = field(default_factory=dict)
    backoffs: dict[str, Backoff] = field(default_factory=dict)
    volumes: ConfigVolumes = field(default_factory=ConfigVolumes)
    reported: str = field(default="")
    pod: Json | None = None
    ending: tuple[Ending, float] | None = None

    def restart(self, now: float) -> None:
        """Start again what is due."""
        for name in [name for name, until in self.waits.items() if until <= now]:
            del self.waits[name]
            self.restarts[name] = self.restarts.get(name, 0) + 1

    def left(self, pod: Json, grace: float, now: float) -> float:
        """Seconds until its containers have ended; they begin to with the first question, and no later grace changes that."""
        self.ending = self.ending or (ending(pod, grace), now)
        return self.ending[0].seconds - (now - self.ending[1])

    def ended(self, names: frozenset[str], now: float) -> bool:
        """These containers have ended; whether one of them ran before."""
        self.waits = {name: until for name, until in self.waits.items() if name in names}
        new = names - set(self.waits)
        for name in new:
            self.waits[name] = self.backoffs.setdefault(name, Backoff()).ended(now)
        return bool(new)


class Kubelet:
    """All kubelets of one cluster."""

    def __init__(self, programs: list[Program], claims: PodClaims) -> None:
        """Know the programs, in the order in which they depend on each other, and who prepares claims."""
        self._programs, self._claims = programs, claims
        self._lives: dict[str, _Life] = {}
        self._makers = Makers()

    def step(self, world: World) -> None:
        """Look at every pod of every machine once."""
        self._claims.begin(world)
        for node, machine in world.machines.items():
            pods = world.pods_on(node)
            mine = self._sorted(pods)
            container_logs.forget(world.folder / "machines" / node, {objects.uid(pod) for pod in pods})
            for program in self._programs:
                if not any(owner is program and not objects.deleted(pod) for owner, pod in mine):
                    program.absent(world, machine)
            for owner, pod in mine:
                try:
                    self._pod(world, machine, pod, owner)
                except ApiError as error:
                    if not error.outdated:
                        LOG.warning("pod %s/%s: %s", objects.namespace(pod), objects.name(pod), error)
                    world.again_in(_RETRY_SECONDS)
                except Exception:  # noqa: BLE001 one pod that is not understood must not stop the others
                    LOG.exception("pod %s/%s", objects.namespace(pod), objects.name(pod))
                    world.again_in(_RETRY_SECONDS)
        present = {objects.uid(pod) for pod in world.pods}
        self._lives = {
            uid: life
            for uid, life in self._lives.items()
            if uid in present or (life.pod and self._outlives(world, life.pod, life))
        }
        self._claims.step(world, frozenset(self._lives))

    def _sorted(self, pods: list[Json]) -> list[tuple[Program | None, Json]]:
        """The pods with their programs; what others wait for comes first."""
        mine = [(next((program for program in self._programs if program.runs(pod)), None), pod) for pod in pods]
        order = {id(program): position for position, program in enumerate(self._programs)}
        return sorted(mine, key=lambda item: order.get(id(item[0]), len(order)))

    def _pod(self, world: World, machine: Machine, pod: Json, program: Program | None) -> None:
        if objects.deleted(pod):
            if pod["metadata"].get("deletionGracePeriodSeconds") != 0:
                self._end(world, pod, program)
            return
        if objects.phase(pod) in _ENDED:
            return
        life = self._lives.setdefault(objects.uid(pod), _remembered(pod))
        due = life.volumes.follow(pod, world.config_maps, world.now)
        if due is not None:
            world.again_in(due)
        life.restart(world.now)
        context = Context(
            world, machine, world.nodes[machine.node], pod, life.volumes.mounted, life.restarts, frozenset(life.waits)
        )
        objection = self._makers.objection(world, pod) if program is not None else ""
        outcome = _not_run(context, objection) if objection else self._outcome(context, program, life)
        if isinstance(outcome, Finished) and not self._claims.released(world, pod):
            return
        self._report(world, pod, outcome, life)

    def _end(self, world: World, pod: Json, program: Program | None) -> None:
        life = self._lives.setdefault(objects.uid(pod), _remembered(pod))
        if program is None and takes_time(pod) and objects.phase(pod) not in _ENDED:
            if not life.started:
                self._report(world, pod, NEVER_RAN, life)
            elif (left := life.left(pod, pod["metadata"]["deletionGracePeriodSeconds"], world.now)) > 0:
                world.again_in(left)
                return
            elif not self._claims.released(world, pod):
                return
            else:
                self._ended(world, pod, life)
        if self._claims.released(world, pod):
            life.pod = None
            world.delete_pod(pod, grace_seconds=0)

    def _ended(self, world: World, pod: Json, life: _Life) -> None:
        """Its containers have ended: what they have saved is there before anybody sees that."""
        code = life.ending[0].code if life.ending else 0
        if not code:
            work.save(world, pod)
        self._report(world, pod, Finished("Error" if code else "", "", code), life)

    def _outlives(self, world: World, pod: Json, life: _Life) -> bool:
        """Whether the processes of a pod that is gone from the API server still run: not after their node has gone."""
        if objects.node_of(pod) not in world.machines:
            return False
        left = life.left(pod, 0, world.now)
        if left > 0:
            world.again_in(left)
            return True
        if life.ending and not life.ending[0].code:
            work.save(world, pod)
        return False

    def _outcome(self, context: Context, program: Program | None, life: _Life) -> Outcome:
        world = context.world
        if not life.started:
            obstacle = self._obstacle(context)
            if obstacle is not None:
                world.again_in(_RETRY_SECONDS)
                return obstacle
        outcome = program.evaluate(context) if program is not None else _plain(context, life)
        if program is None and takes_time(context.pod):
            self._work(context, outcome, life)
        life.started = life.started or isinstance(outcome, (Up, Finished))
        if life.since is None and life.started:
            life.since = world.now
        if life.ended(crashed(outcome), world.now):
            # A container that ends makes the kubelet sync its pod.
            life.volumes.sync(context.pod, world.config_maps)
        for until in life.waits.values():
            world.again_in(max(0.0, until - world.now))
        return outcome

    def _obstacle(self, context: Context) -> Outcome | None:
        """What keeps the containers from being created."""
        return (
            _rejected(context)
            or _missing_mount(context)
            or self._claims.obstacle(context)
            or _missing_handler(context)
            or _missing_environment(context)
        )

    @staticmethod
    def _work(context: Context, outcome: Outcome, life: _Life) -> None:
        """It begins with its containers, and is saved where they end by themselves."""
        if isinstance(outcome, Up) and not life.started:
            work.begin(context.world, context.pod)
        elif isinstance(outcome, Finished) and life.started:
            work.save(context.world, context.pod)
        life.pod = context.pod if isinstance(outcome, Up) else None

    def _report(self, world: World, pod: Json, outcome: Outcome, life: _Life) -> None:
        if isinstance(outcome, Creating) and outcome.message and life.reported != outcome.message:
            life.reported = outcome.message
            world.event(pod, outcome.event, outcome.message)
        waiting = {name: life.backoffs[name].seconds for name in life.waits}
        status = pod_status(pod, outcome, life.restarts, waiting)
        old = pod.get("status") or {}
        changed = {key: value for key, value in status.items() if old.get(key) != value}
        if not changed:
            return
        if words := last_texts(pod, outcome):
            container_logs.keep(world.folder / "machines" / objects.node_of(pod), pod, words)
        path = f"/api/v1/namespaces/{objects.namespace(pod)}/pods/{objects.name(pod)}/status"
        world.store.wrote("pods", world.api.patch(path, {"metadata": {"uid": objects.uid(pod)}, "status": changed}))


def _not_run(context: Context, objection: str) -> Outcome:
    """What becomes of a pod that claims to be of a known program; its owner may only not be seen yet."""
    context.world.again_in(_RETRY_SECONDS)
    return Creating("CreateContainerError", "Failed", f"Error: its programs are not run: {objection}")


def _remembered(pod: Json) -> _Life:
    """A pod that was there before the daemon goes on where it was."""
    status = pod.get("status") or {}
    statuses = [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]
    counts = {item["name"]: item["restartCount"] for item in statuses if item.get("restartCount")}
    return _Life(counts, started=objects.phase(pod) == "Running")


def _plain(context: Context, life: _Life) -> Outcome:
    """A pod of no known program."""
    if not objects.owners(context.pod, "Job"):
        return Up()
    left = _job_seconds(context.pod) - (0.0 if life.since is None else context.world.now - life.since)
    if left <= 0:
        return Finished()
    context.world.again_in(left)
    return Up()


def _job_seconds(pod: Json) -> float:
    """How long a Job's pod takes. Nothing in it runs; what its commands say that they sleep is kept to."""
    commands = (
        "\n".join([*(container.get("command") or []), *(container.get("args") or [])])
        for container in objects.containers(pod["spec"])
    )
    return max(_JOB_SECONDS, *(float(sum(map(int, _SLEEP.findall(command)))) for command in commands))


def _rejected(context: Context) -> Outcome | None:
    """The device plugin refuses more than one unit of a shared resource, if so configured."""
    for container in objects.containers(context.pod["spec"]):
        for resource, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if is_dra_backed(context.pod, container["name"], resource):
                continue
            if resource in context.machine.one_per_request and (read_count(amount) or 0) > 1:
                return Finished(
                    "UnexpectedAdmissionError",
                    "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = invalid request: "
                    f"maximum request size for shared resources is 1; found {amount}, which is unexpected",
                )
    return None


def _missing_mount(context: Context) -> Outcome | None:
    for volume in context.pod["spec"].get("volumes") or []:
        sources = [volume, *((volume.get("projected") or {}).get("sources") or [])]
        for source in sources:
            missing = _missing_source(context, source.get("configMap"), source.get("secret"))
            if missing is not None:
                message = f'MountVolume.SetUp failed for volume "{volume["name"]}" : {missing}'
                return Creating("ContainerCreating", "FailedMount", message)
    return None


def _missing_source(context: Context, config_map: Json | None, secret: Json | None) -> str | None:
    where = objects.namespace(context.pod)
    if config_map is not None and not config_map.get("optional") and config_map["name"] != _ROOT_CA:
        found = context.world.config_maps.get(f"{where}/{config_map['name']}")
        if found is None:
            return f'configmap "{config_map["name"]}" not found'
        if any(item["key"] not in (found.get("data") or {}) for item in config_map.get("items") or []):
            return "configmap references non-existent config key"
    if secret is not None and not secret.get("optional"):
        name = secret.get("secretName") or secret.get("name")
        if context.world.api.get(f"/api/v1/namespaces/{where}/secrets/{name}") is None:
            return f'secret "{name}" not found'
    return None


def _missing_handler(context: Context) -> Outcome | None:
    runtime_class = context.pod["spec"].get("runtimeClassName")
    if not runtime_class:
        return None
    known = context.world.store.by_name("runtimeclasses").get(runtime_class)
    handler = known["handler"] if known else runtime_class
    if handler in context.machine.runtime_handlers:
        return None
    message = (
        "Failed to create pod sandbox: rpc error: code = Unknown desc = "
        f'failed to get sandbox runtime: no runtime for "{handler}" is configured'
    )
    return Creating("ContainerCreating", "FailedCreatePodSandBox", message)


def _missing_environment(context: Context) -> Outcome | None:
    where = objects.namespace(context.pod)
    spec = context.pod["spec"]
    for container in [*objects.containers(spec), *objects.containers(spec, init=True)]:
        for entry in container.get("env") or []:
            reference = (entry.get("valueFrom") or {}).get("configMapKeyRef")
            if reference and not reference.get("optional"):
                found = context.world.config_maps.get(f"{where}/{reference['name']}")
                if found is None or reference["key"] not in (found.get("data") or {}):
                    what = (
                        f'configmap "{reference["name"]}" not found'
                        if found is None
                        else f"couldn't find key {reference['key']} in ConfigMap {where}/{reference['name']}"
                    )
                    return Creating("CreateContainerConfigError", "Failed", f"Error: {what}")
    return None
