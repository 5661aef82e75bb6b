"""The components as a provider, so that programs in any of Pulumi's languages can use them; the schema follows from their types.

Started by the engine: as `python components` where PulumiPlugin.yaml names this folder, and as `pulumi-resource-gpu-pools`,
which the wheel puts on PATH. All clouds' SDKs are loaded, since the schema has all components.

Two things differ on the way from another language: every number arrives as a float, and a traceback would bury the list of
problems. `GpuPoolsProvider` sees to both, so that components need not know who uses them.
"""

import sys
from typing import Any, Final

from pulumi import ComponentResource, InputPropertiesError, Inputs, ResourceOptions
from pulumi.provider import ConstructResult
from pulumi.provider import main as serve
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.server import ComponentInitError

from gpu_pools import __version__
from gpu_pools.stack.settings import NAMESPACE
from gpu_pools.text import harmless
from gpu_pools.text.errors import InvalidStackError

from .aks import AksCluster, AksGpuNodePool
from .existing import ExistingCluster
from .existing_aks import ExistingAksCluster
from .existing_magnum import ExistingMagnumCluster
from .gpu_operator import GpuOperator
from .magnum import MagnumCluster, MagnumGpuNodePool
from .node_features import NodeFeatureDiscovery, PoolLabels
from .platform import GpuPlatform
from .sharing import Exclusive, Mig, Mps, TimeSlicing
from .smoke_test import SharingSmokeTest
from .startup_taint import StartupTaint
from .verification import Verification, Verifier

COMPONENTS: Final[tuple[type[ComponentResource], ...]] = (
    *(Exclusive, TimeSlicing, Mps, Mig),
    *(AksCluster, ExistingAksCluster, AksGpuNodePool, MagnumCluster, ExistingMagnumCluster, MagnumGpuNodePool, ExistingCluster),
    *(NodeFeatureDiscovery, PoolLabels, StartupTaint, GpuOperator),
    *(Verifier, Verification, SharingSmokeTest),
    GpuPlatform,
)


class GpuPoolsProvider(ComponentProvider):
    """Serves the components."""

    def __init__(self) -> None:
        super().__init__(list(COMPONENTS), NAMESPACE, version=__version__)

    def construct(self, name: str, resource_type: str, inputs: Inputs, options: ResourceOptions | None = None) -> ConstructResult:
        """Make a component.

        Raises:
            InputPropertiesError: with everything that is wrong with its inputs.
        """
        try:
            return super().construct(name, resource_type, whole_numbers(inputs), options)
        except ComponentInitError as error:
            if not isinstance(error.inner, InvalidStackError):
                raise
            found: Any = [
                {
                    "property_path": harmless.line(one.path.partition(").")[2] or one.path),
                    "reason": harmless.line(f"{one.message}; allowed: {one.allowed}; {one.remedy}"),
                }
                for one in error.inner.problems
            ]
            raise InputPropertiesError("nothing was created or changed", found) from None


def whole_numbers(value: Any) -> Any:  # noqa: ANN401 - whatever comes over the wire
    """The value with 4 instead of 4.0, at any depth: the wire knows floats only."""
    if isinstance(value, dict):
        return {key: whole_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [whole_numbers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def main() -> None:
    """Serve until the engine ends it; the first line of the standard output is the port."""
    serve(GpuPoolsProvider(), sys.argv[1:])
