"""The MIG strategy: one for the whole cluster, and resource names follow from it.

Under `single` every MIG instance is an ``nvidia.com/gpu``, which needs nodes of one profile; under `mixed` each profile has its
own name. So one pool that needs `mixed` renames the resources of all others, and with them what their pods must ask for: this
module derives the strategy, refuses a given one that does not fit, and says who is renamed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpus.expectation import advertised
from gpus.sharing import Mig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpus.charts import MigStrategy
    from gpus.errors import Problems
    from gpus.pools import Hardware, Pool
    from gpus.settings import Settings
    from gpus.sharing import Sharing


def derived_mig_strategy(settings: Settings) -> MigStrategy:
    """The given strategy; else `single` while every MIG declaration in use is uniform over its node, else `mixed`."""
    if settings.operator.mig_strategy:
        return settings.operator.mig_strategy
    return "single" if not any(_not_uniform(settings)) else "mixed"


def check_mig_strategy(settings: Settings, problems: Problems) -> None:
    """A problem for each pool that the given strategy does not fit."""
    if settings.operator.mig_strategy != "single":
        return
    for pool in _not_uniform(settings):
        problems.add(
            "gpu-pools:operator.migStrategy",
            f'"single" does not fit pool "{pool.name}": the layout of "{pool.sharing}" is not one profile on all GPUs',
            allowed="mixed, or leave it out",
            remedy="Use mixed; under single the device plugin exits and the node advertises nothing.",
        )


def other_strategy(hardware: Hardware, sharing: Sharing, strategy: MigStrategy) -> tuple[MigStrategy, Mapping[str, str]] | None:
    """(the other strategy, resource now -> resource then); None where it changes nothing or does not fit."""
    if not isinstance(sharing, Mig) or not sharing.uniform:
        return None
    other: MigStrategy = "mixed" if strategy == "single" else "single"
    now, then = advertised(hardware, sharing, strategy), advertised(hardware, sharing, other)
    return other, dict(zip(now, then, strict=True))


def strategy_warnings(sharing: Sharing, hardware: Hardware, settings: Settings) -> Iterator[str]:
    """That a pool's resources are not called nvidia.com/gpu only because of other pools."""
    if settings.operator.mig_strategy or derived_mig_strategy(settings) == "single":
        return
    other = other_strategy(hardware, sharing, "mixed")
    if other is not None:
        ((now, alone),) = other[1].items()
        causes = ", ".join(f'"{pool.name}"' for pool in _not_uniform(settings))
        yield f"advertises {now}, not {alone}: the MIG strategy holds for the whole cluster, and needs to be mixed for {causes}"


def _not_uniform(settings: Settings) -> Iterator[Pool]:
    for pool in settings.pools:
        sharing = settings.sharing.get(pool.sharing)
        if isinstance(sharing, Mig) and not sharing.uniform:
            yield pool
