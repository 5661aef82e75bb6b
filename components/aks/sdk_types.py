"""Keeps the SDK from looking for Azure's resources under the types of older API versions.

azure-native gives each resource an alias for every API version of its type; an agent pool has 110. They find a resource that a
program has made by a versioned module of the SDK, such as `azure-native:containerservice/v20240101:AgentPool`. No component here
has ever used one, and the alias of a child holds within its component only. But the SDK works each alias out for each resource:
with 300 pools that was three fifths of the program's processor time.
"""

import copy
import re
from typing import Final

import pulumi

_OF_AN_API_VERSION: Final = re.compile(r"azure-native:\w+/v\d{8}\w*:\w+")


def without_older_types(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
    """Leave the SDK's aliases out; all others stay, also those that a user's own transformations add afterwards.

    Args:
        args: the resource as the SDK is about to register it.
    """
    options = copy.copy(args.opts)
    options.aliases = [alias for alias in args.opts.aliases or [] if not _is_of_an_api_version(alias)]
    return pulumi.ResourceTransformationResult(args.props, options)


def _is_of_an_api_version(alias: "pulumi.Input[str | pulumi.Alias]") -> bool:
    """Whether an alias says nothing but the type of an API version."""
    kind = alias.type_ if isinstance(alias, pulumi.Alias) else None
    return isinstance(kind, str) and _OF_AN_API_VERSION.fullmatch(kind) is not None
