"""Fails a deploy, and warns in a preview, where the cluster lacks objects that the engine's state records.

gpu_pools/proof/recorded_objects.py says how that comes about and what the error says. The outputs of a resource that the engine
does not change come from its state, in a preview too; a resource that is still to be created has no id there and is left out. So
the program knows without the state file what the state records, and it lists the cluster once for each kind of object.

A preview only warns, since `drift` runs a preview and has to show everything. A cluster that does not answer is not an error
here: the provider reports that itself.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pulumi

from gpu_pools.components.engine import log
from gpu_pools.components.kubernetes.ask_first import cluster_at, reason
from gpu_pools.kubernetes_api.cluster_api import ClusterApi
from gpu_pools.proof.recorded_objects import RecordedObject, describe_missing, missing_from
from gpu_pools.text import harmless
from gpu_pools.text.nested import at
from gpu_pools.verifier.api import ApiError

_NOT_FOUND: Final = 404


class Stored(NamedTuple):
    """A Kubernetes object of a stack: its resource, and for a ConfigMapPatch the keys that the program declares.

    The outputs of a patch have every key that the ConfigMap had when it was written, those of others included.
    """

    resource: pulumi.Resource
    keys: tuple[str, ...] = ()


def require_objects(objects: Sequence[Stored], reached: tuple[pulumi.Input[str] | None, str | None]) -> None:
    """Have the deploy fail, and the preview warn, where the cluster lacks one of these objects.

    Args:
        objects: ConfigMaps, ConfigMapPatches, DaemonSets and NodeFeatureRules of a stack.
        reached: kubeconfig of the cluster, and a context of it; without a kubeconfig nothing is looked at.
    """
    kubeconfig, context = reached
    if kubeconfig is None or not objects:
        return
    # An Output of a coroutine keeps the program waiting for it, and fails the program with it.
    looked: pulumi.Output[bool] = pulumi.Output.from_input(_required(objects, pulumi.Output.from_input(kubeconfig), context))
    looked.apply(lambda _: None)


async def _required(objects: Sequence[Stored], kubeconfig: pulumi.Output[str], context: str | None) -> bool:
    """Whether the cluster was looked at, and has everything."""
    content = await kubeconfig.future()
    recorded = [one for stored in objects if (one := await _recorded(stored.resource, stored.keys)) is not None]
    if not content or not recorded:
        return False
    try:
        missing = await asyncio.to_thread(_missing, recorded, content, context)
    except Exception as error:  # noqa: BLE001 - whatever it is, a cluster that does not answer lacks nothing
        log.warn(f"whether the cluster has all objects of this stack is not known: {reason(error)}")
        return False
    if not missing:
        return True
    if not pulumi.runtime.is_dry_run():
        # A RunError is shown as it is.
        raise pulumi.RunError(harmless.text(describe_missing(missing)))
    log.warn(describe_missing(missing))
    return False


async def _recorded(resource: Any, keys: tuple[str, ...]) -> RecordedObject | None:  # noqa: ANN401 - four classes
    """The object of a resource; None where it is still to be created."""
    outputs = pulumi.Output.all(id=resource.id, metadata=resource.metadata, kind=resource.kind)
    known: Any = await outputs.future()
    if known is None or not _field(known["metadata"], "uid"):
        return None
    metadata = known["metadata"]
    kind = str(known["kind"]).removesuffix("Patch")
    namespace = str(_field(metadata, "namespace") or "")
    return RecordedObject(kind, namespace, str(_field(metadata, "name")), keys)


def _field(metadata: Any, key: str) -> Any:  # noqa: ANN401 - the class of an SDK, or a mapping
    return metadata.get(key) if isinstance(metadata, Mapping) else getattr(metadata, key, None)


def _missing(recorded: Iterable[RecordedObject], kubeconfig: str, context: str | None) -> Sequence[RecordedObject]:
    api, known = cluster_at(kubeconfig, context), [*recorded]
    return missing_from(known, {path: _listed(api, path) for path in {one.collection for one in known}})


def _listed(api: ClusterApi, path: str) -> dict[str, frozenset[str]]:
    """Name -> keys of the data of all objects of a collection."""
    try:
        listed = api.items(path)
    except ApiError as error:
        if error.status == _NOT_FOUND:
            # The kind itself is gone, and with it all of its objects.
            return {}
        raise
    data = {str(at(one, "metadata", "name")): one.get("data") for one in listed}
    return {name: frozenset(keys if isinstance(keys, dict) else ()) for name, keys in data.items()}
