"""Stand-in for nfd-gc: removes the NodeFeatures of nodes that are gone.

As the real one (node-feature-discovery v0.18.3, pkg/nfd-gc), each replica by itself and with the rights of its pod's account:

- When a node goes it removes, in every namespace, the NodeFeatures whose label names that node.
- When it starts, and then once in its interval, it removes those that name a node that is not there, or none. What comes between
  two such looks without a node stays until the next.
- Without the right to list nodes it never begins; what else it may not do is logged, and left until the next look.

Unlike it: it learns of nodes from the daemon's passes, and so nothing of one that comes and goes between two of them; it has no
NodeResourceTopologies, which nothing here makes, and no health and metrics server. tests/sandbox/machines/test_nfd_gc.py runs
against the real one, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError
from sandbox.machines import objects
from sandbox.machines.nfd import arguments, is_nfd
from sandbox.machines.world import LOG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.machines.objects import Json
    from sandbox.machines.world import World

_FEATURES: Final = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeatures"
_NODE_NAME: Final = "nfd.node.kubernetes.io/node-name"
_INTERVAL: Final = re.compile(r"--?gc-interval(?:=| )(\S+)")
_INTERVAL_SECONDS: Final = 3600.0
#: Of Go's durations.
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_RETRY_SECONDS: Final = 1.0


@dataclass
class _Run:
    """One pod's.

    Attributes:
        api: as its account.
        interval: seconds between its looks.
        nodes: name -> uid of those that it knows; None before it could list them.
        due: when it looks at everything (monotonic).
    """

    api: Api
    interval: float
    nodes: dict[str, str] | None = None
    due: float = 0.0


class NfdCollector:
    """The pods of nfd-gc."""

    def __init__(self, folder: Path) -> None:
        """None is known yet.

        Args:
            folder: the cluster's.
        """
        self._folder = folder
        self._runs: dict[str, _Run] = {}

    def step(self, world: World) -> None:
        """Let each collect what it has to."""
        pods = {objects.uid(pod): pod for pod in world.pods if is_nfd(pod, "gc") and objects.running(pod)}
        self._runs = {uid: run for uid, run in self._runs.items() if uid in pods}
        for uid, pod in pods.items():
            run = self._runs.setdefault(uid, _Run(self._account(pod), interval(pod)))
            try:
                _collect(world, run)
            except ApiError as error:
                LOG.info("nfd-gc: %s", error)
            world.again_in(max(0.0, run.due - world.now))

    def _account(self, pod: Json) -> Api:
        account = pod["spec"].get("serviceAccountName") or "default"
        name = f"system:serviceaccount:{objects.namespace(pod)}:{account}"
        return Api.at(self._folder / "kubeconfig", acting_as=name)


def interval(pod: Json) -> float:
    """Seconds between two looks at everything, by the pod's arguments."""
    named = _INTERVAL.search(" ".join(arguments(pod)))
    parts = re.findall(r"([\d.]+)(h|ms|m|s)", named[1]) if named else []
    return sum(float(count) * _UNITS[unit] for count, unit in parts) or _INTERVAL_SECONDS


def _collect(world: World, run: _Run) -> None:
    there = {name: objects.uid(node) for name, node in world.nodes.items()}
    gone = {name for name, uid in (run.nodes or {}).items() if there.get(name) != uid}
    if world.now >= run.due:
        run.due = world.now + _RETRY_SECONDS
        if run.nodes is None:
            run.api.list("/api/v1/nodes?limit=1")
        run.nodes, run.due = there, world.now + run.interval
        _remove(run.api, lambda node: node not in there or node in gone)
    elif run.nodes is not None:
        run.nodes = there
        if gone:
            _remove(run.api, gone.__contains__)


def _remove(api: Api, stale: Callable[[str | None], bool]) -> None:
    """Delete those that name such a node."""
    for feature in api.list(_FEATURES)["items"]:
        if stale(objects.labels(feature).get(_NODE_NAME)):
            path = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{objects.namespace(feature)}/nodefeatures/{objects.name(feature)}"
            try:
                api.delete(path)
            except ApiError as error:
                LOG.info("nfd-gc: %s", error)
