"""The pods of device plugin, gpu-feature-discovery and MPS control daemon: when they read what, and where it ends up.

Stand-in for their pods' lives; what the programs and config-manager do is said by the real ones or by rules (node_programs). As
the real ones, they read their configuration when they start and when config-manager signals them, and a running plugin notices
neither an edit under the same key nor a new MIG layout. Difference: the wait for the MPS daemon ends as soon as it is up (the
real retry is every 30 s).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sandbox.machines import objects
from sandbox.machines.device_plugin import CONFIG_LABEL, Advertised, Crash
from sandbox.machines.driver import app
from sandbox.machines.machine import Loaded
from sandbox.machines.node_programs import ConfigRequest
from sandbox.machines.outcomes import Creating, InitCrash, InitWaiting, Outcome, Up
from sandbox.machines.plugin_release import release_of
from sandbox.machines.pod_request import variables
from sandbox.machines.pod_volumes import PodVolumes, service_variables
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from sandbox.machines.machine import Machine
    from sandbox.machines.node_programs import NodePrograms
    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context
    from sandbox.machines.world import World

_CONFIGS = "/available-configs"
_INIT, _MANAGER = "config-manager-init", "config-manager"
#: The volume that the API server adds to pods for their service account.
_ACCOUNT = "kube-api-access"
_GFD_SLEEP_SECONDS = 60.0


def node_feature(context: Context, feature_name: str, *, node: str, spec: Json) -> Json:
    """A NodeFeature owned by a DaemonSet's pod, so that it is collected together with both."""
    sets = [{**owner, "blockOwnerDeletion": False} for owner in objects.owners(context.pod, "DaemonSet")]
    pod = {"apiVersion": "v1", "kind": "Pod", "name": objects.name(context.pod), "uid": objects.uid(context.pod)}
    return {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeature",
        "metadata": {"name": feature_name, "labels": {"nfd.node.kubernetes.io/node-name": node}, "ownerReferences": [*sets, pod]},
        "spec": spec,
    }


class _Configured:
    """What the three programs share: waiting for the toolkit, and config-manager."""

    program = ""
    container = ""
    #: What the program calls itself: the first word of its command line, and of its container's command where that names it.
    process = ""

    def __init__(self, programs: NodePrograms) -> None:
        """Know who answers for the programs."""
        self._programs = programs
        self._volumes = PodVolumes()

    def runs(self, pod: Json) -> bool:
        """By label."""
        return app(pod) == self.program

    def _loaded(self, context: Context) -> tuple[Loaded | Outcome, Up]:
        """What the program has read, reading it anew where it would, or what keeps it from starting; and how the others are."""
        if not context.machine.gpu_usable and not self._goes_on(context):
            # What it has read is gone with its process: it reads, and stamps its labels, anew.
            context.machine.loaded.pop(self.program, None)
            return InitWaiting("toolkit-validation"), Up()
        text: str | None = ""
        signals, others = 0, Up()
        if _MANAGER in {item["name"] for item in objects.containers(context.pod["spec"])}:
            try:
                configured = self._programs.configure(context.machine, self._request(context))
            except SandboxError as error:
                return Creating("ContainerCreating", "FailedMount", f"MountVolume.SetUp failed: {error.message}"), Up()
            if configured is None:
                return InitWaiting(_INIT), Up()
            if configured.init_message:
                return InitCrash(_INIT, configured.init_message, configured.init_code), Up()
            text, signals = configured.text, configured.signals
            others = _with_crash(others, _MANAGER, configured.sidecar_message, configured.sidecar_code)
        known = context.machine.loaded.get(self.program)
        read = (objects.uid(context.pod), context.restarts.get(self.container, 0), signals)
        if known is not None and (known.pod, known.attempt, known.signals) == read:
            return known, others
        loaded = Loaded(*read, text, context.machine.gpus)
        context.machine.loaded[self.program] = loaded
        # The sidecar's turn comes after the program's.
        context.world.again_in(0.0)
        return loaded, others

    def _goes_on(self, context: Context) -> bool:
        """Whether it runs, and the driver is there: to a container that runs a toolkit that goes away does nothing.

        The real operator takes its operands from a node before the driver is unloaded; here they start anew after it.
        """
        known = context.machine.loaded.get(self.program)
        return known is not None and known.pod == objects.uid(context.pod) and context.machine.driver is not None

    def _request(self, context: Context) -> ConfigRequest:
        pod = context.pod
        sidecar = next(item for item in objects.containers(pod["spec"]) if item["name"] == _MANAGER)
        config_map = context.mounted.get(objects.mounted_config_map(pod, _CONFIGS) or "") or {}
        account = [volume for volume in pod["spec"].get("volumes") or [] if volume["name"].startswith(_ACCOUNT)]
        known = context.machine.loaded.get(self.program)
        environment = variables(pod, sidecar, service_variables(context.world.api.server))
        return ConfigRequest(
            pod=objects.uid(pod),
            program=self.process,
            release=release_of(sidecar.get("image", "")),
            host_pid=bool(pod["spec"].get("hostPID")),
            environment=environment,
            files=config_map.get("data") or {},
            account={name: text for volume in account for name, text in self._volumes.files(context, volume).items()},
            label=objects.labels(context.node).get(CONFIG_LABEL, ""),
            init_restarts=context.restarts.get(_INIT, 0),
            sidecar_restarts=context.restarts.get(_MANAGER, 0),
            program_runs=self.container not in context.ended,
            read=known.text or "" if known is not None and known.pod == objects.uid(pod) else None,
        )

    def _environment(self, context: Context) -> dict[str, str]:
        return objects.env(context.pod, self.container)

    def _gone(self, machine: Machine) -> None:
        """The machine has no such pod any more."""
        self._programs.deconfigure(machine, self.process)
        machine.loaded.pop(self.program, None)


class DevicePluginPod(_Configured):
    """nvidia-device-plugin-daemonset."""

    program = "nvidia-device-plugin-daemonset"
    container = process = "nvidia-device-plugin"

    def evaluate(self, context: Context) -> Outcome:
        """Register resources, or crash."""
        loaded, others = self._loaded(context)
        if not isinstance(loaded, Loaded):
            self._stop(context.machine)
            return loaded
        answer = self._programs.serve(context.machine, loaded, self._environment(context))
        if answer is None:
            return others
        if isinstance(answer, Advertised):
            context.machine.advertise(answer)
            return others
        context.machine.advertise(None)
        return _with_crash(others, self.container, answer.message, answer.code)

    def absent(self, world: World, machine: Machine) -> None:
        """The kubelet marks all devices of a plugin that is gone as unhealthy."""
        del world
        self._stop(machine)
        self._gone(machine)

    def _stop(self, machine: Machine) -> None:
        self._programs.stop_serving(machine)
        machine.advertise(None)


class MpsDaemonPod(_Configured):
    """nvidia-device-plugin-mps-control-daemon."""

    program = "nvidia-device-plugin-mps-control-daemon"
    container = "mps-control-daemon-ctr"
    process = "mps-control-daemon"

    def evaluate(self, context: Context) -> Outcome:
        """Take the GPUs into exclusive-process mode and serve, where MPS is configured."""
        loaded, others = self._loaded(context)
        if not isinstance(loaded, Loaded):
            self._programs.stop_mps(context.machine)
            return loaded
        answer = self._programs.serve_mps(context.machine, loaded, self._environment(context))
        return others if answer is None else _with_crash(others, self.container, answer.message, answer.code)

    def absent(self, world: World, machine: Machine) -> None:
        """The daemon gives the GPUs back."""
        del world
        self._programs.stop_mps(machine)
        self._gone(machine)


class GfdPod(_Configured):
    """gpu-feature-discovery."""

    program = "gpu-feature-discovery"
    container = process = "gpu-feature-discovery"

    def __init__(self, programs: NodePrograms) -> None:
        """Nothing is published yet."""
        super().__init__(programs)
        self._looked: dict[str, float] = {}
        # Nodes whose labels are to be stamped anew: the program has started or was told to read again.
        self._fresh: set[str] = set()

    def evaluate(self, context: Context) -> Outcome:
        """Publish the labels through NFD, or crash and leave the old ones."""
        before = context.machine.loaded.get(self.program)
        loaded, others = self._loaded(context)
        if not isinstance(loaded, Loaded):
            return loaded
        node = context.machine.node
        if context.world.now - self._looked.get(node, 0) > _GFD_SLEEP_SECONDS:
            loaded.gpus = context.machine.gpus
        context.world.again_in(_GFD_SLEEP_SECONDS)
        if loaded is not before:
            self._fresh.add(node)
        answer = self._programs.discover(context.machine, loaded, self._environment(context))
        if answer is None:
            return others
        if isinstance(answer, Crash):
            return _with_crash(others, self.container, answer.message, answer.code)
        self._looked[node] = context.world.now
        self._publish(context, answer.labels, fresh=node in self._fresh)
        self._fresh.discard(node)
        return others

    def absent(self, world: World, machine: Machine) -> None:
        """Labels stay until the garbage collector removes the NodeFeature with its owners."""
        del world
        self._gone(machine)

    @staticmethod
    def _publish(context: Context, labels: dict[str, str], *, fresh: bool) -> None:
        node, where = context.machine.node, objects.namespace(context.pod)
        feature_name = f"nvidia-features-for-{node}"
        known = context.world.store.by_name("nodefeatures").get(f"{where}/{feature_name}")
        before = ((known or {}).get("spec") or {}).get("labels") or {}
        stamp = str(int(time.time())) if fresh else before.get("nvidia.com/gfd.timestamp", str(int(time.time())))
        spec = {
            "labels": {**labels, "nvidia.com/gfd.timestamp": stamp},
            "features": {"flags": {}, "attributes": {}, "instances": {}},
        }
        context.world.put_node_feature(where, node_feature(context, feature_name, node=node, spec=spec))


def _with_crash(others: Up, container: str, message: str, code: int) -> Up:
    """The pod with a container that has ended; the same where it has no last words."""
    return Up({**others.crashed, container: message}, {**others.codes, container: code}) if message else others
