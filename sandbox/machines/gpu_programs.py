"""The pods of device plugin, gpu-feature-discovery and MPS control daemon: when they read what, and where it ends up.

Stand-in for their pods' lives and for config-manager; what the programs decide is said by the real ones or by rules
(node_programs), and of the MPS daemon by a rule alone. As the real ones, they read their configuration when they start and when
the node's label changes, and a running plugin notices neither an edit under the same key nor a new MIG layout. Differences: a
ConfigMap's change is visible in a starting pod at once (kubelets sync volumes about once a minute); a running plugin whose label
comes to name a missing key stops to advertise at once, where the real one would keep the old configuration until its pod
restarts; the wait for the MPS daemon ends as soon as it is up (the real retry is every 30 s).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sandbox.machines import objects
from sandbox.machines.device_plugin import (
    CONFIG_LABEL,
    Advertised,
    Crash,
    MissingKey,
    NotReady,
    mps_daemon,
    select_config,
)
from sandbox.machines.driver import app
from sandbox.machines.machine import Loaded
from sandbox.machines.outcomes import InitCrash, InitWaiting, Outcome, Up

if TYPE_CHECKING:
    from sandbox.machines.machine import Machine
    from sandbox.machines.node_programs import NodePrograms
    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context
    from sandbox.machines.world import World

_CONFIGS = "/available-configs"
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

    def __init__(self, programs: NodePrograms) -> None:
        """Know who answers for the programs."""
        self._programs = programs

    def runs(self, pod: Json) -> bool:
        """By label."""
        return app(pod) == self.program

    def _loaded(self, context: Context) -> Loaded | Outcome:
        """What the program has read, reading it anew where it would; or what keeps it from starting."""
        if not context.machine.gpu_usable:
            return InitWaiting("toolkit-validation")
        known = context.machine.loaded.get(self.program)
        started = known is not None and known.pod == objects.uid(context.pod)
        if known is not None and started and self._unmounted(context):
            # What a running pod has mounted stays when its ConfigMap is deleted.
            return known
        label = objects.labels(context.node).get(CONFIG_LABEL, "")
        default = objects.env(context.pod, "config-manager-init").get("DEFAULT_CONFIG", "")
        if known is not None and started and known.key and (known.attempt, known.key) == (context.attempt, label or default):
            # config-manager looks at the ConfigMap only when the label changes, so the key may even be gone by now.
            return known
        data = self._data(context)
        key = select_config(data, label, default) if data is not None else None
        if isinstance(key, MissingKey):
            self._missing(context, key)
            return Up({"config-manager": key.message}) if started else InitCrash("config-manager-init", key.message)
        if known is not None and started and (known.attempt, known.key) == (context.attempt, key):
            return known
        text = data[key] if data is not None and key is not None else None
        loaded = Loaded(objects.uid(context.pod), context.attempt, key, text, context.machine.gpus)
        context.machine.loaded[self.program] = loaded
        return loaded

    def _missing(self, context: Context, key: MissingKey) -> None:
        """The key does not exist."""

    def _environment(self, context: Context) -> dict[str, str]:
        return objects.env(context.pod, self.container)

    @staticmethod
    def _unmounted(context: Context) -> bool:
        config_map = objects.mounted_config_map(context.pod, _CONFIGS)
        return config_map is not None and f"{objects.namespace(context.pod)}/{config_map}" not in context.world.config_maps

    @staticmethod
    def _data(context: Context) -> dict[str, str] | None:
        """The mounted ConfigMap's content, None where the pod has no config-manager."""
        config_map = objects.mounted_config_map(context.pod, _CONFIGS)
        if config_map is None:
            return None
        found = context.world.config_maps.get(f"{objects.namespace(context.pod)}/{config_map}") or {}
        return found.get("data") or {}


class DevicePluginPod(_Configured):
    """nvidia-device-plugin-daemonset."""

    program = "nvidia-device-plugin-daemonset"
    container = "nvidia-device-plugin"

    def evaluate(self, context: Context) -> Outcome:
        """Register resources, or crash."""
        loaded = self._loaded(context)
        if not isinstance(loaded, Loaded):
            self._stop(context.machine)
            return loaded
        answer = self._programs.serve(context.machine, loaded, self._environment(context))
        if answer is None:
            return Up()
        if isinstance(answer, Advertised):
            context.machine.advertise(answer)
            return Up()
        context.machine.advertise(None)
        return Up({self.container: answer.message})

    def _missing(self, context: Context, key: MissingKey) -> None:
        del key
        self._stop(context.machine)

    def absent(self, world: World, machine: Machine) -> None:
        """The kubelet marks all devices of a plugin that is gone as unhealthy."""
        del world
        self._stop(machine)
        machine.loaded.pop(self.program, None)

    def _stop(self, machine: Machine) -> None:
        self._programs.stop_serving(machine)
        machine.advertise(None)


class MpsDaemonPod(_Configured):
    """nvidia-device-plugin-mps-control-daemon."""

    program = "nvidia-device-plugin-mps-control-daemon"
    container = "mps-control-daemon-ctr"

    def evaluate(self, context: Context) -> Outcome:
        """Take the GPUs into exclusive-process mode and serve, where MPS is configured."""
        loaded = self._loaded(context)
        if not isinstance(loaded, Loaded):
            self._serve(context.machine, None)
            return loaded
        answer = mps_daemon(loaded.text, self._environment(context).get("MIG_STRATEGY"), loaded.gpus)
        self._serve(context.machine, answer if isinstance(answer, int) else None)
        return Up({self.container: answer.message}) if isinstance(answer, (Crash, NotReady)) else Up()

    def absent(self, world: World, machine: Machine) -> None:
        """The daemon gives the GPUs back."""
        del world
        self._serve(machine, None)
        machine.loaded.pop(self.program, None)

    def _serve(self, machine: Machine, replicas: int | None) -> None:
        before, machine.mps_replicas = machine.mps_replicas, replicas
        if replicas != before:
            self._programs.switch_mps(machine, on=replicas is not None)


class GfdPod(_Configured):
    """gpu-feature-discovery."""

    program = "gpu-feature-discovery"
    container = "gpu-feature-discovery"

    def __init__(self, programs: NodePrograms) -> None:
        """Nothing is published yet."""
        super().__init__(programs)
        self._looked: dict[str, float] = {}
        # Nodes whose labels are to be stamped anew: the program has started or was told to read again.
        self._fresh: set[str] = set()

    def evaluate(self, context: Context) -> Outcome:
        """Publish the labels through NFD, or crash and leave the old ones."""
        before = context.machine.loaded.get(self.program)
        loaded = self._loaded(context)
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
            return Up()
        if isinstance(answer, (Crash, NotReady)):
            return Up({self.container: answer.message})
        self._looked[node] = context.world.now
        self._publish(context, answer.labels, fresh=node in self._fresh)
        self._fresh.discard(node)
        return Up()

    def absent(self, world: World, machine: Machine) -> None:
        """Labels stay until the garbage collector removes the NodeFeature with its owners."""
        del world
        machine.loaded.pop(self.program, None)

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
