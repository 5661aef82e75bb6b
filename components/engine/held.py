"""Refuses, in previews too, to update a pool that a stack only holds as it was imported (gpu_pools/stack/imported.py).

The engine still compares it with the stack file, so that drift and edits are seen. It must not send them: an import has copied
versions and power state as they were then, and with the first request Azure would be asked to go back to them.
"""

import pulumi

from gpu_pools.plan.adoption import HELD, changed
from gpu_pools.text.errors import InvalidStackError


def held_hook(name: str, what: str) -> pulumi.ResourceHook:
    """A hook for one pool.

    Args:
        name: of the pool's component.
        what: the cloud calls it: pool or node group.
    """

    def refuse(change: pulumi.ResourceHookArgs) -> None:
        raise InvalidStackError(changed(f"{what} {name}", change.old_inputs or {}, change.new_inputs or {}))

    return pulumi.ResourceHook(f"{name}{HELD}", refuse, pulumi.ResourceHookOptions(on_dry_run=True))
