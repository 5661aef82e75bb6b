"""What components say in a deploy's output: the one way there, so that nothing in it reaches a terminal as more than text.

The engine hands on what it is told, and the terminal is the user's. Texts of others are in most messages: names of a stack file,
answers of a cloud, reports of nodes.
"""

import pulumi

from gpu_pools.text import harmless


def info(message: str, resource: pulumi.Resource | None = None) -> None:
    """Tell something, at a resource where there is one."""
    pulumi.log.info(harmless.text(message), resource)


def warn(message: str, resource: pulumi.Resource | None = None) -> None:
    """Warn of something."""
    pulumi.log.warn(harmless.text(message), resource)


def error(message: str) -> None:
    """Tell why something has failed."""
    pulumi.log.error(harmless.text(message))
