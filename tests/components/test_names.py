"""A Pulumi name stands for one name in the cluster or the cloud, whatever is declared.

Where a fixed Pulumi name has a name below that changes with what is declared, a deploy that fails leaves the old object waiting
for its deletion, and going back wants its name again: `already exists`, at every deploy from then on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.components.platform import GpuPlatform

from .conftest import KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]

SHARING: dict[str, Any] = {
    "whole": {"exclusive": {}},
    "four": {"timeSlicing": {"replicas": 4}},
    "eight": {"timeSlicing": {"replicas": 8, "renameByDefault": True}},
    "served": {"mps": {"replicas": 4}},
    "halves": {"mig": {"layout": {"3g.40gb": 2}}},
    "mixed": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}},
}
PLATFORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "existing": (
        {"platform": "existing", "context": "byo"},
        {"nodeSelector": {"p": "a"}, "gpuModel": "a100-80gb", "gpusPerNode": 1, "taints": ["a=b:NoSchedule"]},
    ),
    "aks": (
        {"platform": "aks", "name": "small", "location": "westeurope", "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1}},
        {"vmSize": "Standard_NC24ads_A100_v4", "count": 1},
    ),
}
#: What a release or a pool is called is not said in metadata.
NAMES = ("name", "agentPoolName", "resourceName")


@pytest.mark.parametrize("platform", sorted(PLATFORMS))
def test_a_pulumi_name_has_one_name_below_it(run: Run, platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    known: dict[tuple[str, str], Any] = {}
    cluster, pool = PLATFORMS[platform]
    for number, sharing in enumerate(SHARING):
        one = {**pool, "name": "a", "sharing": sharing, "labels": {"example.com/team": f"t{number}"}}
        verification = {"smokeTest": True, "deadlineSeconds": 60 + number}
        stack: Any = {"cluster": cluster, "sharing": SHARING, "pools": [one], "verification": verification}
        for made in run(partial(GpuPlatform, "gpu", stack)).resources:
            name = (made.inputs.get("metadata") or {}).get("name") or [made.inputs.get(key) for key in NAMES]
            assert known.setdefault((made.type, made.name), name) == name, f"{made.type} {made.name}"
    assert len([name for kind, name in known if kind.endswith(":Job")]) >= len(SHARING)
