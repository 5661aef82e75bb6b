"""What a pod's processes have of work, as they would keep it themselves: in a ledger outside of the pod, a ConfigMap.

A pod whose annotation names a ConfigMap of its namespace signs in there before it is seen to run, under its uid: it has begun a
unit of work and nothing of it is saved. Once its processes end by themselves, in answer to SIGTERM, they save the unit and sign
off. Whoever is killed can write nothing, and whoever never comes to write has lost what it had begun: an entry that is not signed
off, of a pod that is gone, is lost work. So the ledger cannot be made to look well by the one who kills.

A unit lasts as long as the pod. The ledger is made by whoever makes the pods; without one they do not come to run.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from sandbox.cluster.api_errors import ApiError
from sandbox.machines import objects
from sandbox.machines.world import LOG

if TYPE_CHECKING:
    from collections.abc import Collection

    from sandbox.machines.objects import Json
    from sandbox.machines.world import World

#: The name of a pod's ledger.
LEDGER: Final = "sandbox.gpu-pools/work-ledger"


def begin(world: World, pod: Json) -> None:
    """A pod that has one signs in to its ledger.

    Raises:
        ApiError: where there is none.
    """
    _write(world, pod, saved=False)


def save(world: World, pod: Json) -> None:
    """It signs off.

    Raises:
        ApiError: where there is none.
    """
    _write(world, pod, saved=True)


def lost(ledger: Json, present: Collection[str]) -> list[str]:
    """The pods whose work is lost, by name.

    Args:
        ledger: the ConfigMap.
        present: uids of the pods that are there.
    """
    entries = {uid: json.loads(text) for uid, text in (ledger.get("data") or {}).items()}
    return sorted(entry["pod"] for uid, entry in entries.items() if not entry["saved"] and uid not in present)


def _write(world: World, pod: Json, *, saved: bool) -> None:
    name = (pod["metadata"].get("annotations") or {}).get(LEDGER)
    if not name:
        return
    entry = {"pod": objects.name(pod), "node": objects.node_of(pod), "saved": saved}
    path = f"/api/v1/namespaces/{objects.namespace(pod)}/configmaps/{name}"
    try:
        world.store.wrote("configmaps", world.api.patch(path, {"data": {objects.uid(pod): json.dumps(entry)}}))
    except ApiError as error:
        if error.missing:
            LOG.warning("pod %s/%s: its ledger, ConfigMap %s, is not there", objects.namespace(pod), objects.name(pod), name)
        raise
