"""Options of child resources: one helper, so that every component treats its children alike.

A component's own options are never merged into its children: the merge would overwrite their parent and copy aliases. What
the engine passes down by itself (providers, protect, transforms) needs no help. Two are handed on here: `deleted_with`,
which is not passed down, and `depends_on`, which delays the children of a component but is not recorded with them, so that
deletions would not keep to it. What a component does not say of a child stays unsaid: `protect=False` would undo the
`protect=True` that a user gave the component, or its parent; `unless_false` makes None of it.
"""

from collections.abc import Sequence
from typing import TypedDict, Unpack

import pulumi


class Extras(TypedDict, total=False):
    """Options that a component gives a child on top of its parent."""

    depends_on: Sequence[pulumi.Resource]
    aliases: Sequence[pulumi.Alias]
    protect: bool | None
    ignore_changes: list[str]
    replace_on_changes: list[str]
    delete_before_replace: bool
    deleted_with: pulumi.Resource | None
    provider: pulumi.ProviderResource
    custom_timeouts: pulumi.CustomTimeouts
    hooks: pulumi.ResourceHookBinding | None
    transformations: list[pulumi.ResourceTransformation]


def unless_false(flag: bool) -> bool | None:  # noqa: FBT001 - the value of an option, not a switch
    """A flag that a declaration sets, or leaves to whoever uses the component."""
    return flag or None


def child_options(
    parent: pulumi.Resource, given: pulumi.ResourceOptions | None = None, **extras: Unpack[Extras]
) -> pulumi.ResourceOptions:
    """Options of a child.

    Args:
        parent: the component.
        given: the component's own options.
        extras: what this child needs besides.
    """
    options = pulumi.ResourceOptions(parent=parent, **extras)
    if given is None:
        return options
    handed_on = pulumi.ResourceOptions(depends_on=given.depends_on, deleted_with=given.deleted_with)
    return pulumi.ResourceOptions.merge(handed_on, options)


class OnceNamed(TypedDict):
    """Options of a child whose Pulumi name was fixed before it came to end in its Kubernetes name."""

    aliases: Sequence[pulumi.Alias]
    delete_before_replace: bool


def once_named(name: str) -> OnceNamed:
    """Have a stack of an earlier version keep what it has under a fixed Pulumi name.

    What is also changed by the very deploy that renames is replaced, for the last time; the old one goes first then, so that
    none is left waiting for its deletion when that deploy fails.

    Args:
        name: the fixed one.
    """
    return {"aliases": [pulumi.Alias(name=name)], "delete_before_replace": True}
