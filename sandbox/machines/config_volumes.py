"""What a pod sees of the ConfigMaps that it mounts: what there was when the kubelet last synced the pod.

As a kubelet (k8s.io/kubernetes v1.36, pkg/kubelet: pod_workers.completeWork, volumemanager.WaitForAttachAndMount): a changed
ConfigMap reaches a volume when the pod is synced, which is every syncFrequency, stretched by up to a half at random, and at
once when the pod itself changes or one of its containers ends. A ConfigMap that is deleted leaves what was mounted. The files
change all at once: they are links through ``..data``, which is exchanged (pkg/volume/util/atomic_writer.go).

A kubelet syncs every minute; here it is two seconds. A change always comes right after a sync here, so that nothing works by
luck. Other kinds of volumes are not its matter.
"""

from __future__ import annotations

import itertools
import random
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sandbox.machines import objects
from sandbox.system.files import explained, make_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sandbox.machines.objects import Json

#: The kubelets' syncFrequency: really 60 s.
SYNC_SECONDS: Final = 2.0
#: The part of it by which the time between two syncs may be longer.
_JITTER: Final = 0.5
_DATA: Final = "..data"
_versions: Final = itertools.count()


@dataclass
class ConfigVolumes:
    """The ConfigMaps of one pod.

    Attributes:
        mounted: name -> the object as it was at the last sync.
    """

    mounted: dict[str, Json] = field(default_factory=dict)
    _pod: Json | None = None
    _due: float | None = None

    def follow(self, pod: Json, config_maps: Mapping[str, Json], now: float) -> float | None:
        """Sync where it is time.

        Args:
            pod: the pod; one that has changed is synced at once.
            config_maps: all there are, by namespace/name.
            now: monotonic seconds.

        Returns:
            Seconds until the next sync that brings something new; None where nothing is.
        """
        itself = {"spec": pod["spec"], "labels": objects.labels(pod), "annotations": objects.notes(pod)}
        found = _referenced(pod, config_maps)
        # A pod does not start before what it mounts is there, and a kubelet looks for that often.
        first = not found.keys() <= self.mounted.keys()
        if first or itself != self._pod or (self._due is not None and now >= self._due):
            self._pod = itself
            self.sync(pod, config_maps)
        if all(self.mounted.get(name) == config_map for name, config_map in found.items()):
            self._due = None
            return None
        if self._due is None:
            self._due = now + SYNC_SECONDS * random.uniform(1, 1 + _JITTER)  # noqa: S311 nothing secret
        return self._due - now

    def sync(self, pod: Json, config_maps: Mapping[str, Json]) -> None:
        """Sync now: something has happened to the pod."""
        self.mounted.update(_referenced(pod, config_maps))
        self._due = None


def write_volume(folder: Path, files: Mapping[str, str]) -> None:
    """Make a folder show the files of a ConfigMap's volume, as the kubelet's atomic writer does.

    Raises:
        SandboxError: when something cannot be written.
    """
    make_folder(folder)
    with explained(folder, "write"):
        before = (folder / _DATA).readlink() if (folder / _DATA).is_symlink() else None
        data = folder / f"..{next(_versions)}"
        if data.exists():
            shutil.rmtree(data)
        data.mkdir(mode=0o755)
        for name, text in files.items():
            (data / name).write_text(text, encoding="utf-8")
        new = folder / f"{_DATA}_tmp"
        new.unlink(missing_ok=True)
        new.symlink_to(data.name)
        new.replace(folder / _DATA)
        shown = {path.name for path in folder.iterdir() if not path.name.startswith("..")}
        for name in files.keys() - shown:
            (folder / name).symlink_to(f"{_DATA}/{name}")
        for name in shown - files.keys():
            (folder / name).unlink()
        if before is not None and str(before) != data.name:
            shutil.rmtree(folder / before, ignore_errors=True)


def _referenced(pod: Json, config_maps: Mapping[str, Json]) -> dict[str, Json]:
    """The ConfigMaps that are there of those that the pod's volumes name."""
    where = objects.namespace(pod)
    names = {str(source["name"]) for volume in pod["spec"].get("volumes") or [] for source in _sources(volume)}
    return {name: config_maps[f"{where}/{name}"] for name in sorted(names) if f"{where}/{name}" in config_maps}


def _sources(volume: Json) -> list[Json]:
    projected = (volume.get("projected") or {}).get("sources") or []
    return [source["configMap"] for source in (volume, *projected) if source.get("configMap")]
