"""The components as a provider, so that programs in any of Pulumi's languages can use them; the schema follows from their types.

Started by the engine: as `python components` where PulumiPlugin.yaml names this folder, and as `pulumi-resource-gpu-pools`,
which the wheel puts on PATH. All clouds' SDKs are loaded, since the schema has all components.

What differs on the way from another language `GpuPoolsProvider` sees to, so that components need not know who uses them:

- every number arrives as a float, and a traceback would bury the list of problems;
- what comes from another resource is an Output, also where it is known, as a declaration of sharing always is; a plan needs that
  plain, and is made before anything is registered. Texts stay Outputs: they are placed, and say what must be there before;
- the SDK maps names of mappings inside by the schema, loses keys that this does not know, and stops at the first that is missing.
  Components read both spellings, and tell all of it by its place.
"""

import asyncio
import inspect
import json
import sys
from typing import Any, Final

from pulumi import ComponentResource, InputPropertiesError, Inputs, Output, ResourceOptions
from pulumi.provider import ConstructResult
from pulumi.provider import main as serve
from pulumi.provider.experimental.analyzer import ComponentDefinition, TypeDefinition
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.server import ComponentInitError
from pulumi.runtime.sync_await import _sync_await

from gpu_pools import __version__
from gpu_pools.components.aks.cluster import AksCluster, AksGpuNodePool
from gpu_pools.components.aks.existing import ExistingAksCluster
from gpu_pools.components.existing.cluster import ExistingCluster
from gpu_pools.components.gpu_operator.dra_driver import DraDriver
from gpu_pools.components.gpu_operator.node_features import NodeFeatureDiscovery, PoolLabels
from gpu_pools.components.gpu_operator.operator import GpuOperator
from gpu_pools.components.gpu_operator.startup_taint import StartupTaint
from gpu_pools.components.magnum.cluster import MagnumCluster, MagnumGpuNodePool
from gpu_pools.components.magnum.existing import ExistingMagnumCluster
from gpu_pools.components.observability.observability import Observability
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.components.pools import AksPool, ExistingPool, MagnumPool
from gpu_pools.components.proof.smoke_test import SharingSmokeTest
from gpu_pools.components.proof.verification import Verification, Verifier
from gpu_pools.components.sharing import Exclusive, Mig, Mps, TimeSlicing
from gpu_pools.stack.settings import NAMESPACE
from gpu_pools.text import harmless
from gpu_pools.text.errors import InvalidStackError

COMPONENTS: Final[tuple[type[ComponentResource], ...]] = (
    *(Exclusive, TimeSlicing, Mps, Mig),
    *(AksPool, MagnumPool, ExistingPool),
    *(AksCluster, ExistingAksCluster, AksGpuNodePool, MagnumCluster, ExistingMagnumCluster, MagnumGpuNodePool, ExistingCluster),
    *(NodeFeatureDiscovery, PoolLabels, StartupTaint, GpuOperator, DraDriver),
    *(Verifier, Verification, SharingSmokeTest, Observability),
    GpuPlatform,
)
#: Texts of other resources that a plan looks into.
_PLAIN: Final = frozenset({"migStrategy"})


class GpuPoolsProvider(ComponentProvider):
    """Serves the components."""

    def __init__(self) -> None:
        super().__init__(list(COMPONENTS), NAMESPACE, version=__version__)
        schema = json.loads(self.schema or "")
        # Without it Go's generator (pkg/v3/codegen/go, v3.259) names a type of plain lists that it does not write.
        schema["language"]["go"]["generateExtraInputTypes"] = True
        self.schema = json.dumps(_without_margins(schema))

    def construct(self, name: str, resource_type: str, inputs: Inputs, options: ResourceOptions | None = None) -> ConstructResult:
        """Make a component.

        Raises:
            InputPropertiesError: with everything that is wrong with its inputs.
        """
        try:
            if _outputs_in(inputs):
                # Nothing is waited for: what arrives here has arrived.
                inputs = _sync_await(asyncio.ensure_future(plain(inputs)))
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

    def map_inputs(self, inputs: Inputs, component_def: ComponentDefinition) -> Inputs:
        """The arguments by their names in Python; what is inside stays as it is.

        Raises:
            InputPropertiesError: with all that is missing.
        """
        missing = [key for key, known in component_def.inputs.items() if not known.optional and inputs.get(key) is None]
        if missing:
            found: Any = [{"property_path": key, "reason": "is missing"} for key in missing]
            raise InputPropertiesError("nothing was created or changed", found)
        names = component_def.inputs_mapping
        return {names.get(key, key): value for key, value in inputs.items() if value is not None}

    def map_complex_output(self, instance_val: Any, type_def: TypeDefinition) -> Any:  # noqa: ANN401 - an output
        """Declarations are in the stack file's words, which are the schema's."""
        del type_def
        return instance_val


def _without_margins(schema: Any) -> Any:  # noqa: ANN401 - any part of it
    """The schema with descriptions as Python 3.13 and newer keep docstrings: without the margin of the code around them."""
    if isinstance(schema, list):
        return [_without_margins(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    text = schema.get("description")
    cleaned = {"description": inspect.cleandoc(text)} if isinstance(text, str) else {}
    return {**{key: _without_margins(part) for key, part in schema.items()}, **cleaned}


def _outputs_in(value: Any) -> bool:  # noqa: ANN401 - as `plain`
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, Output) or any(map(_outputs_in, inner))


async def plain(value: Any, key: str = "") -> Any:  # noqa: ANN401 - whatever comes over the wire
    """The value with the mappings and lists of Outputs that are known, at any depth.

    Args:
        value: what has come.
        key: its name.
    """
    if isinstance(value, Output):
        if await value.is_secret() or not await value.is_known():
            return value
        known = await value.future()
        return await plain(known) if isinstance(known, dict | list) or key in _PLAIN else value
    if isinstance(value, dict):
        return {name: await plain(inner, name) for name, inner in value.items()}
    return [await plain(inner) for inner in value] if isinstance(value, list) else value


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
