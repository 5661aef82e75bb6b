"""The types of a stack file's sections, for components that take them: GpuPlatform all, others what they plan with.

What chart values and properties of clouds may hold is their makers' business: those alone are mappings of anything.
"""

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from gpu_pools.components.arguments.sharing import SharingArgs
from gpu_pools.components.arguments.stack import (
    AcknowledgementArgs,
    Cluster,
    DraDriverSectionArgs,
    FlavorArgs,
    NamedPool,
    NodeFeatureDiscoverySectionArgs,
    ObservabilitySectionArgs,
    OperatorSectionArgs,
    RegistrySectionArgs,
    VerificationSectionArgs,
)

if TYPE_CHECKING:
    SharingSection = dict[str, SharingArgs] | dict[str, dict[str, Any]]
    FlavorsSection = dict[str, FlavorArgs] | dict[str, dict[str, Any]]
    OperatorSection = OperatorSectionArgs | dict[str, Any]
    NodeFeatureDiscoverySection = NodeFeatureDiscoverySectionArgs | dict[str, Any]
    DraDriverSection = DraDriverSectionArgs | dict[str, Any]
    VerificationSection = VerificationSectionArgs | dict[str, Any]
    RegistrySection = RegistrySectionArgs | dict[str, Any]
    ObservabilitySection = ObservabilitySectionArgs | dict[str, Any]
    Acknowledged = list[AcknowledgementArgs] | list[dict[str, Any]]
    Pools = list[NamedPool] | list[dict[str, Any]]
else:
    SharingSection, FlavorsSection, OperatorSection = dict[str, SharingArgs], dict[str, FlavorArgs], OperatorSectionArgs
    NodeFeatureDiscoverySection, VerificationSection = NodeFeatureDiscoverySectionArgs, VerificationSectionArgs
    RegistrySection, ObservabilitySection = RegistrySectionArgs, ObservabilitySectionArgs
    DraDriverSection = DraDriverSectionArgs
    Acknowledged, Pools = list[AcknowledgementArgs], list[NamedPool]


class ConfigArgs(TypedDict):
    """Sections of a stack file by name, as far as they matter; docs/reference/stack.md describes them."""

    cluster: NotRequired[Cluster]
    """The platform."""
    sharing: NotRequired[SharingSection]
    """Sharing declarations by name."""
    pools: NotRequired[Pools]
    """The GPU pools."""
    gpu_models: NotRequired[dict[str, dict[str, Any]]]
    """GPU models that no table has, by name, in the words of a stack file."""
    flavors: NotRequired[FlavorsSection]
    """Magnum flavors by name."""
    operator: NotRequired[OperatorSection]
    """The GPU operator."""
    node_feature_discovery: NotRequired[NodeFeatureDiscoverySection]
    """Node Feature Discovery."""
    verification: NotRequired[VerificationSection]
    """Verification of the nodes, and the smoke tests."""
    registry: NotRequired[RegistrySection]
    """A registry of one's own."""
    observability: NotRequired[ObservabilitySection]
    """What is measured of the GPUs, and who reads it."""
    dra_driver: NotRequired[DraDriverSection]
    """NVIDIA's DRA driver, for pools with `allocation: dra`."""


if TYPE_CHECKING:
    Config = ConfigArgs | dict[str, Any]
else:
    Config = ConfigArgs
