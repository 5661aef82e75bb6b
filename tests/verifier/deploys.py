"""Deploys onto a pool in memory: the engine's writes in their order, each of which may be the last that a killed engine made.

The order is that of the components: the keys (components/gpu_operator/sharing_keys.py), the wait until the kubelets have brought
them (gpu_pools/proof/key_wait.py), NFD's rule (components/gpu_operator/node_features.py, after the operator), the verifiers'
DaemonSet and the wait for it (components/proof/verification.py); and last, only where all went well, the keys that are no longer
declared go. What a killed engine has written stays, and so does its record of it. The DaemonSet gives a pod to each node that
NFD has given the pool's label, all at once: the worst case, as where none was ready.

Not played: an engine that is killed between a write and its record, and other resources than these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpu_pools.verifier.names import CONFIG_LABEL
from tests.verifier.pool_world import POOL, Changer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpu_pools.verifier.changer.rollout_steps import Target
    from tests.verifier.pool_world import World

POOL_LABEL: Final = "gpu-pools/pool"
#: How long kubelets take to bring a ConfigMap, at most, and the wait for it.
_KUBELET_SECONDS, _WAIT_SECONDS = 90.0, 95.0
_ROUND_SECONDS: Final = 5.0


@dataclass
class Deploys:
    """One stack's deploys.

    Attributes:
        world: the pool.
        most: nodes at a time.
        step: lets a changer go on.
        keys: in the ConfigMap.
    """

    world: World
    most: str
    step: Callable[[Changer], None]
    keys: set[str] = field(default_factory=set)
    _written: list[tuple[float, set[str]]] = field(default_factory=list)
    #: What the DaemonSet's template says, and its pods.
    _template: Target | None = None
    _changes: bool = True
    _pods: dict[str, Changer] = field(default_factory=dict)

    def begin(self, target: Target, *, rollout: bool) -> Iterator[bool]:
        """Write after write; True at the end of a deploy that went well. Whoever stops asking has killed it."""
        self._write_keys(self.keys | {target.labels[CONFIG_LABEL]})
        yield False
        until = self.world.now + _WAIT_SECONDS
        while self.world.now < until:
            self.pass_time()
        yield False
        self.world.set_rule({POOL_LABEL: POOL} if rollout else {POOL_LABEL: POOL, **target.labels})
        yield False
        self._template, self._changes, self._pods = target, rollout, {}
        while not self._is_proven():
            yield False
            self.pass_time()
        self._write_keys({target.labels[CONFIG_LABEL]})
        yield True

    def pass_time(self) -> None:
        """A round of what goes on without the engine."""
        for name, node in self.world.nodes.items():
            if self._template and name not in self._pods and node["metadata"]["labels"].get(POOL_LABEL):
                self._pods[name] = Changer(self.world, name, self._template, self.most)
        if self._changes:
            for one in [*self._pods.values()]:
                self.step(one)
        self.world.wait(_ROUND_SECONDS)
        for at, keys in self._written:
            if self.world.now >= at + _KUBELET_SECONDS:
                self.world.volume = keys

    def look_for_new(self) -> None:
        """Of a node that was replaced the pod is gone, too."""
        for name, node in self.world.nodes.items():
            if node.pop("new", False):
                self._pods.pop(name, None)

    def interrupt(self, chosen: Callable[[list[Changer]], Changer | None]) -> None:
        """Another changer may act between two requests."""
        if self._changes and (one := chosen([*self._pods.values()])):
            self.step(one)

    def _is_proven(self) -> bool:
        proven = [one.done if self._changes else one.proven() for one in self._pods.values()]
        return all(proven) and len(proven) == len(self.world.nodes)

    def _write_keys(self, keys: set[str]) -> None:
        self.keys = keys
        self._written.append((self.world.now, keys))
