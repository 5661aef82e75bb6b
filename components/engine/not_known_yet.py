"""An output that a preview cannot know, made by hand: of what a cloud says now that will say something else once it is changed.

The engine then takes whatever comes in the deploy, also where it is held to the plan of that preview. Pulumi's SDK has no
function for it: an `apply` may return such an output, though.
"""

import asyncio
from typing import TypeVar

import pulumi

_T = TypeVar("_T")


def not_known_yet() -> pulumi.Output[str]:
    """To be returned by what `apply` calls, in a preview."""
    return pulumi.Output(set(), _resolved(""), _resolved(False))  # noqa: FBT003


def _resolved(value: _T) -> "asyncio.Future[_T]":
    future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future
