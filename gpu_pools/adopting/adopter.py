"""How the pools of one platform are adopted: what the command line asks, and what becomes of the answers.

A folder beside this module for each platform implements it, and gpu_pools/adopting/known.py lists them. They are not in
gpu_pools/platforms, because adopting tries its pools on the planner, which is above the platforms.
Each command line loads these classes for its options, so they load what they need only when they run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpu_pools.adopting.adopted import Adopted, NotAdoptableError
    from gpu_pools.adopting.inside import Inside

#: The name of the component around everything; __main__.py gives it.
PLATFORM: Final = "gpu"


@dataclass(frozen=True)
class Remains:
    """What nobody does any more once a stack has released a resource.

    Attributes:
        type: how the resource's type begins.
        sentence: what runs on, and what of it nobody renews.
        part: of its Pulumi name, where not all of the type are meant.
    """

    type: str
    sentence: str
    part: str = ""


class Adopter(ABC):
    """How the pools of one platform are adopted."""

    #: The value of ``platform`` in a stack file, and the name of the subcommand.
    name: ClassVar[str]
    #: What the subcommand adopts.
    says: ClassVar[str]
    #: The type token of the component of an existing cluster, which the import file has below the platform; empty: there is none.
    cluster_component: ClassVar[str] = ""
    #: What remains of the platform's resources after a release.
    remains: ClassVar[Sequence[Remains]] = ()

    @abstractmethod
    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that say where the cluster is read from."""

    @abstractmethod
    def adopt(self, options: argparse.Namespace, look: Callable[[], Inside], owner: str) -> tuple[Adopted, str]:
        """Read a cluster, and adopt what it has.

        Args:
            options: of the command line.
            look: reads what is in the cluster.
            owner: project and stack that take the pools over.

        Returns:
            What was adopted, and what it was read from.

        Raises:
            NotAdoptableError: if the options name no cluster, or it cannot be read or adopted.
        """

    def marks_left(self, resources: Sequence[Mapping[str, Any]]) -> Iterable[str]:  # noqa: ARG002
        """Yield what on released resources still names the stack.

        Args:
            resources: of the engine's state.
        """
        return ()


def unnamed_cluster(allowed: str) -> NotAdoptableError:
    """Return that the command line names no cluster; `allowed`: the options that would."""
    from gpu_pools.adopting.adopted import NotAdoptableError  # noqa: PLC0415 - see above
    from gpu_pools.text.errors import Problem  # noqa: PLC0415 - see above

    return NotAdoptableError([Problem("the command line", "names no cluster", allowed, "Say where it is read from.")])
