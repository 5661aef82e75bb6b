"""Stand-ins for the charts gpu-operator before the one in sandbox/charts: that one, changed in what they differ.

What differs is data (sandbox/charts/gpu-operator-older.yaml): versions of operands, defaults, and what the schema of the
ClusterPolicy lacks. A value that the older chart does not know is without effect, as there: what the older schema lacks is
dropped by the API server. The templates stay those of v26.7.0. Held against those of the tags, the ClusterPolicies of one stack
were equal in all that is used here; not in vGPU, VFIO, Kata, confidential computing, GDS, GDRCopy and the operator's init
container, which the operator's stand-in does not play.
"""

from __future__ import annotations

import shutil
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME: Final = "gpu-operator"
_POLICIES: Final = "crds/nvidia.com_clusterpolicies.yaml"


def older_versions(stand_ins: Path) -> tuple[str, ...]:
    """The versions that can be made, the newest first."""
    return tuple(_raw(stand_ins))


def write_older(stand_ins: Path, version: str, folder: Path) -> Path:
    """Make the chart of an older version.

    Args:
        stand_ins: the folder of the stand-in charts.
        version: one of `older_versions`.
        folder: where a folder for it is made.
    """
    differs = _raw(stand_ins)[version]
    chart = folder / f"{NAME}-{version}"
    shutil.copytree(stand_ins / NAME, chart)
    for name in differs["files"]:
        (chart / name).unlink()
    _change(chart / "Chart.yaml", {"version": version, "appVersion": version})
    images = {f"{place}.version": image for place, image in differs["images"].items()}
    _change(chart / "values.yaml", images | differs["values"])
    crd = load_yaml((chart / _POLICIES).read_text(encoding="utf-8"))
    _older_schema(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"], differs["crd"])
    (chart / _POLICIES).write_text(yaml.safe_dump(crd, sort_keys=False), encoding="utf-8")
    return chart


def _change(file: Path, values: Mapping[str, Any]) -> None:
    content = load_yaml(file.read_text(encoding="utf-8"))
    for place, value in values.items():
        *above, last = place.split(".")
        within = content
        for part in above:
            within = within[part]
        within[last] = value
    file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def _older_schema(spec: dict[str, Any], differs: Mapping[str, Any]) -> None:
    for place in (*differs["lacks"], *differs.get("also", ())):
        *above, last = place.split(".")
        within = _schema(spec, above)
        del within["properties"][last]
        if last in within.get("required", ()):
            within["required"].remove(last)
    for place, more in differs["changes"].items():
        _schema(spec, place.split(".")).update(more)


def _schema(spec: dict[str, Any], parts: list[str]) -> dict[str, Any]:
    for part in parts:
        spec = spec["properties"][part]
    return spec


@lru_cache(maxsize=2)
def _raw(stand_ins: Path) -> dict[str, Any]:
    raw: dict[str, Any] = load_yaml((stand_ins / f"{NAME}-older.yaml").read_text(encoding="utf-8"))
    return raw
