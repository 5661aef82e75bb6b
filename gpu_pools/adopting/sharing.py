"""How a pool shares its GPUs now, as declarations: from its labels and the operator's ConfigMaps.

What a config means is read by gpu_pools/existing; which of several declarations of one MIG config fits a GPU, the planner says
(`candidates` are tried in their order by gpu_pools/adopting/pools.py). Where no config can be read, what gpu-feature-discovery's
labels show of the nodes counts, and that is said, as is what cannot be read at all: nodes that are partitioned or shared by
somebody's hand must not become whole GPUs without a word.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.adopting.adopted import Unsaid
from gpu_pools.adopting.labelled import Labelled, labelled
from gpu_pools.existing.documents import UnreadableFileError
from gpu_pools.existing.imported import import_texts
from gpu_pools.existing.kinds import MIG_FILE
from gpu_pools.stack.kubernetes_names import DEVICE_PLUGIN_CONFIG_LABEL, MIG_CONFIG_LABEL, OPERATOR_NAMESPACE
from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.adopting.inside import Inside
    from gpu_pools.hardware.models import GpuModel

#: Its name in a stack file -> the declaration.
Named = tuple[str, "Mapping[str, Any]"]
WHOLE: Final[Named] = ("whole", {"exclusive": {}})
#: mig-parted's own name for GPUs without MIG (default-mig-parted-config of the operator).
_DISABLED: Final = ("all-disabled", "")


@dataclass(frozen=True)
class Shared:
    """How a pool shares.

    Attributes:
        candidates: declarations, the likeliest first; the last is always exclusive use.
        unsaid: what was found and is not in them.
    """

    candidates: tuple[Named, ...]
    unsaid: tuple[Unsaid, ...]

    @property
    def layout(self) -> Mapping[str, int]:
        """MIG instances of each GPU, where all have the same by the likeliest declaration; else nothing."""
        mig = self.candidates[0][1].get("mig")
        return mig.get("layout", {}) if mig else {}


def shared_as(pool: str, labels: Mapping[str, str], inside: Inside) -> Shared:
    """From a pool's labels and what is in the cluster.

    Args:
        pool: its name, for messages.
        labels: of the pool, or of its nodes.
        inside: the cluster.
    """
    unsaid: list[Unsaid] = []
    texts: dict[str, str] = {}
    plugin = _plugin_config(pool, labels, inside, unsaid)
    mig = _mig_config(pool, labels, inside, unsaid)
    if plugin:
        # As a ConfigMap, so that its key names the declaration.
        head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}}
        texts[f"config {plugin[0]}"] = json.dumps({**head, "data": {plugin[0]: plugin[1]}})
    if mig:
        texts[f"MIG config {mig[0]}"] = mig[1]
    found: list[Named] = []
    shown: list[Named] = []
    seen = labelled(labels)
    if isinstance(seen, Labelled) and not mig and (seen.instances or not plugin):
        shown, said = _by_labels(pool, seen)
        unsaid += said
    try:
        imported = import_texts(texts) if texts else None
    except UnreadableFileError as error:
        unsaid.append(Unsaid(f"pool {pool}", f"its config cannot be read: {error.problem.message}"))
        imported = None
    if imported:
        declared: list[Named] = [(one.name, one.sharing) for one in imported.declarations]
        with_mig = [one for one in declared if "mig" in one[1]]
        # A layout with time-slicing comes out beside the layout alone, after it.
        joined = [one for one in with_mig if "timeSlicing" in one[1]["mig"]]
        found = (
            [*joined, *(one for one in with_mig if one not in joined)]
            if mig
            else [one for one in declared if one not in with_mig]
        )
        unsaid += [
            Unsaid(f"pool {pool}: {one.file}", f"{one.path}: {one.why}")
            for one in imported.lost
            if _counts(one.path, with_mig=bool(mig))
        ]
    return Shared((*shown, *found, WHOLE), tuple(dict.fromkeys(unsaid)))


def gpus_of(pool: str, labels: Mapping[str, str], inside: Inside) -> tuple[GpuModel, str, int] | None:
    """(model, product as the tables write it or nothing, GPUs of the node); None: the labels do not tell.

    Args:
        pool: its name, for messages.
        labels: of a node.
        inside: the cluster, whose configs tell how many MIG instances a GPU has.
    """
    seen = labelled(labels)
    if isinstance(seen, str):
        return None
    gpus = seen.gpus(shared_as(pool, labels, inside).layout)
    return (seen.model, seen.product, gpus) if gpus else None


def _plugin_config(pool: str, labels: Mapping[str, str], inside: Inside, unsaid: list[Unsaid]) -> tuple[str, str] | None:
    """(key, text) of the device plugin's config that holds on the pool's nodes."""
    name, default, data = inside.config_of("devicePlugin")
    key = labels.get(DEVICE_PLUGIN_CONFIG_LABEL) or default
    return _entry(pool, "device plugin", key, name, data, inside, unsaid)


def _mig_config(pool: str, labels: Mapping[str, str], inside: Inside, unsaid: list[Unsaid]) -> tuple[str, str] | None:
    """(key, text) of the layout that mig-manager has been asked for; None: no MIG."""
    name, default, data = inside.config_of("migManager")
    key = labels.get(MIG_CONFIG_LABEL) or default
    if key in _DISABLED:
        return None
    name = name or "default-mig-parted-config"
    data = data or inside.config_maps.get((OPERATOR_NAMESPACE, name), {})
    whole = _entry(pool, "MIG", MIG_FILE if data else key, name, data, inside, unsaid)
    if whole is None:
        return None
    try:
        document = load_yaml(whole[1])
        entries = document["mig-configs"][key]
    except (yaml.YAMLError, KeyError, TypeError):
        unsaid.append(Unsaid(f"pool {pool}", f"its label asks for the MIG config {key}, which {name} does not have"))
        return None
    return key, json.dumps({"version": "v1", "mig-configs": {key: entries}})


def _entry(
    pool: str, what: str, key: str, name: str, data: Mapping[str, str], inside: Inside, unsaid: list[Unsaid]
) -> tuple[str, str] | None:
    if not key:
        return None
    if key in data:
        return key, data[key]
    where = f"the ConfigMap {name} does not have" if data else "no ConfigMap was read that has"
    remedy = "" if inside.looked else "; give what is in the cluster, with --kubernetes or --context"
    instead = "it is taken to share as its nodes' labels show, or to use whole GPUs"
    unsaid.append(Unsaid(f"pool {pool}", f"it is to have the {what} config {key}, which {where}; {instead}{remedy}"))
    return None


def _by_labels(pool: str, seen: Labelled) -> tuple[list[Named], list[Unsaid]]:
    """What the nodes show, where no config that was read says it."""
    if seen.instances:
        if not seen.layout or seen.replicas > 1:
            shared = f", each shared by {seen.replicas}" if seen.replicas > 1 else ""
            why = f"no config was read, and its nodes show {seen.told}{shared}: what each GPU has is not known"
            return [], [Unsaid(f"pool {pool}", f"{why}; it is taken to use whole GPUs. Write its sharing by hand")]
        full = "" if not seen.single else ", since as many fit on a GPU"
        layout = ", ".join(f"{number}x {profile}" for profile, number in seen.layout.items())
        why = f"no config was read; its nodes show {seen.told}, which is taken as {layout} on each of {seen.gpus({})} GPUs{full}"
        name = "-".join(["mig", *(re.sub(r"[^a-z0-9.]", "-", profile) for profile in seen.layout)])
        return [(name, {"mig": {"layout": seen.layout}})], [Unsaid(f"pool {pool}", why)]
    if seen.replicas == 1:
        return [], []
    way = "mps" if seen.mps else "timeSlicing"
    declared = {"replicas": seen.replicas, **({"renameByDefault": True} if seen.renamed else {})}
    why = f"no config was read; its nodes show {seen.replicas} replicas, which is taken as {way} of each GPU"
    return [(f"{'mps' if seen.mps else 'time-slicing'}-{seen.replicas}", {way: declared})], [Unsaid(f"pool {pool}", why)]


def _counts(path: str, *, with_mig: bool) -> bool:
    """Whether a loss is one of this pool: not the frame that was put around its config, nor what its layout has instead."""
    return not path.startswith(("metadata", "version")) and not (with_mig and "device-filter" in path)
