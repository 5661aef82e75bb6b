"""The clusters in `clusters/`, and what adopting them gives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.adopting.adopter import PLATFORM
from gpu_pools.adopting.aks.agent_pools import adopt_aks
from gpu_pools.adopting.existing.nodes import adopt_existing
from gpu_pools.adopting.inside import look
from gpu_pools.adopting.magnum.node_groups import Gpus, MagnumCluster, adopt_magnum
from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from gpu_pools.adopting.adopted import Adopted

CLUSTERS: Final = Path(__file__).parent / "clusters"
CASES: Final[dict[str, Any]] = {
    path.stem: load_yaml(path.read_text(encoding="utf-8")) for path in sorted(CLUSTERS.glob("*.yaml"))
}
WITH_POOLS: Final = [name for name, case in CASES.items() if case["pools_expected"]]
#: For whoever has no pool of a stack's yet: what is adopted takes this file's place.
BEFORE: Final = """
config:
  gpu-pools:cluster: {platform: aks, existing: {resourceGroup: platform-rg, name: platform}}
  gpu-pools:sharing: {whole: {exclusive: {}}}
  gpu-pools:pools:
    - {name: none, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: whole}
"""
#: As the tests of components are called.
OWNER: Final = "gpu-pools/test"


def adopted(name: str) -> Adopted:
    """What comes out of one of the files."""
    case = CASES[name]
    inside = look(case["kubernetes"])
    if case["platform"] == "aks":
        return adopt_aks(case["cluster"], case["pools"], inside, OWNER, PLATFORM)
    if case["platform"] == "existing":
        return adopt_existing(inside, "")
    options = dict(zip(case["arguments"][::2], case["arguments"][1::2], strict=True))
    flavor, _, gpus = options.get("--gpus", "").partition("=")
    model, _, count = gpus.rpartition(":")
    there = MagnumCluster(case["cluster"], case["groups"], options["--driver"])
    return adopt_magnum(there, {flavor: Gpus(model, int(count))} if flavor else {}, inside, PLATFORM)
