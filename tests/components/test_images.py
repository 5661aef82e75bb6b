"""Every image that a stack's objects run: ours by digest, and each of them in the table of gpu_pools/images/placed.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.components.platform import GpuPlatform
from gpu_pools.images.placed import placed_images
from gpu_pools.plan.planning import plan_config
from gpu_pools.rendering.node_leaving import hook_objects

from .conftest import KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from .conftest import Recorder

_EXISTING: Final[dict[str, Any]] = {
    "cluster": {"platform": "existing", "context": "byo"},
    "sharing": {"whole": {"exclusive": {}}},
    "pools": [{"name": "a", "nodeSelector": {"p": "a"}, "gpuModel": "NVIDIA A10", "gpusPerNode": 1, "sharing": "whole"}],
}
_AKS: Final[dict[str, Any]] = {
    "cluster": {
        "platform": "aks",
        "name": "gpu",
        "location": "westeurope",
        "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1},
    },
    "sharing": {"whole": {"exclusive": {}}},
    "pools": [{"name": "a", "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "whole"}],
}
_D: Final = f"@sha256:{'a' * 64}"
_OWN: Final = {
    "nodeFeatureDiscovery": {"markerImage": f"localhost:5000/sh{_D}"},
    "verification": {"image": f"r.example/py{_D}", "smokeTest": True, "smokeTestImage": f"r.example/cuda{_D}"},
}
STACKS: Final[dict[str, dict[str, Any]]] = {
    "existing": _EXISTING,
    "existing, verified": {**_EXISTING, "verification": {"smokeTest": True}},
    "existing, by images of its own": {**_EXISTING, **_OWN},
    "aks": _AKS,
    "aks, verified": {**_AKS, "verification": {"smokeTest": True, "startupTaint": False}},
    "aks, by images of its own": {**_AKS, **_OWN},
}


def images(value: Any) -> Iterator[str]:
    """Of all containers, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in {"containers", "initContainers", "ephemeralContainers"} and isinstance(inner, list):
                yield from (one["image"] for one in inner)
            yield from images(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from images(inner)


def rendered(recorded: Recorder, config: Mapping[str, Any]) -> set[str]:
    objects: list[Any] = [one.inputs for one in recorded.resources if one.type.startswith("kubernetes:")]
    settings = plan_config({f"gpu-pools:{key}": value for key, value in config.items()}).settings
    return set(images([*objects, *hook_objects(settings)]))


@pytest.mark.parametrize("name", STACKS)
def test_what_runs_is_by_digest_and_in_the_table(
    run: Callable[..., Recorder], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    config: Any = STACKS[name]
    found = rendered(run(lambda: GpuPlatform("gpu", config)), config)
    told = placed_images(plan_config({f"gpu-pools:{key}": value for key, value in config.items()}).settings)
    assert found == {image.text for image in told}
    assert all(image.pinned for image in told)
    assert {image.given for image in told} == {"of its own" in name}
