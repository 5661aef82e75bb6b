"""By what a stack knows its own pools in a cluster that it did not make: a tag in Azure, a label in Magnum, with this value."""

import pulumi


def stack_owner() -> str:
    """Project and stack, as `project/stack`."""
    return f"{pulumi.get_project()}/{pulumi.get_stack()}"
