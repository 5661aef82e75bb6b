"""That the SDK's aliases for the types of older API versions are left out, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from gpu_pools.components.aks.sdk_types import without_older_types
from gpu_pools.components.platform import GpuPlatform

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Recorder

SIZES = {"system": "Standard_D4s_v5", "gpu": "Standard_NC24ads_A100_v4"}
CONFIG: Any = {
    "cluster": {
        "platform": "aks",
        "name": "c",
        "location": "westeurope",
        "checkCloud": False,
        "systemPool": {"vmSize": SIZES["system"], "count": 1},
    },
    "sharing": {"slices": {"timeSlicing": {"replicas": 4}}},
    "pools": [{"name": "serving", "vmSize": SIZES["gpu"], "count": 1, "sharing": "slices"}],
}


@pytest.mark.parametrize("kind", ["AgentPool", "ManagedCluster", "ResourceGroup"])
def test_the_engine_is_not_asked_for_older_types(run: Callable[..., Recorder], kind: str) -> None:
    """An agent pool has 110 of them: they took three fifths of a large program's processor time."""
    recorded = run(lambda: GpuPlatform("gpu", CONFIG))
    made = recorded.of(kind)
    assert made
    for one in made:
        assert [alias.spec.type for alias in recorded.options(one.name).aliases if alias.spec.type] == []


def test_all_others_stay() -> None:
    older = pulumi.Alias(type_="azure-native:containerservice/v20240202preview:AgentPool")
    others: list[Any] = [
        pulumi.Alias(name="before"),
        pulumi.Alias(type_="example:index:Pool"),
        pulumi.Alias(type_="azure-native:containerservice:AgentPool"),
        "urn:pulumi:dev::p::azure-native:containerservice/v20240101:AgentPool::nb",
    ]
    given = pulumi.ResourceOptions(aliases=[older, *others], protect=True)
    args: Any = pulumi.ResourceTransformationArgs(None, "t", "nb", {"a": 1}, given)  # type: ignore[arg-type]
    result = without_older_types(args)
    assert (result.opts.aliases, result.opts.protect, result.props) == (others, True, {"a": 1})
    assert given.aliases == [older, *others]
