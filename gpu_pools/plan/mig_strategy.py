"""The MIG strategy: one for the whole cluster, and resource names follow from it.

Under `single` every MIG instance is an ``nvidia.com/gpu``, which needs nodes of one profile; under `mixed` each profile has its
own name. So one pool that needs `mixed` renames the resources of all others, and with them what their pods must ask for: this
module derives the strategy, refuses a given one that does not fit, and says who is renamed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.plan.expectation import advertised

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_pools.hardware.node import Hardware
    from gpu_pools.sharing.mode import Sharing
    from gpu_pools.stack.charts import MigStrategy
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

_MOST_CAUSES: Final = 5


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
    if not sharing.uniform_profile:
        return None
    other: MigStrategy = "mixed" if strategy == "single" else "single"
    now, then = advertised(hardware, sharing, strategy), advertised(hardware, sharing, other)
    return other, dict(zip(now, then, strict=True))


def causes_of_mixed(settings: Settings) -> tuple[str, ...]:
    """The pools that need `mixed`, by name; none where the strategy is given."""
    return () if settings.operator.mig_strategy else tuple(pool.name for pool in _not_uniform(settings))


def strategy_warnings(sharing: Sharing, hardware: Hardware, causes: Sequence[str]) -> Iterator[str]:
    """That a pool's resources are not called nvidia.com/gpu only because of other pools, which are the `causes`."""
    other = other_strategy(hardware, sharing, "mixed") if causes else None
    if other is not None:
        ((now, alone),) = other[1].items()
        named = ", ".join(f'"{name}"' for name in causes[:_MOST_CAUSES]) + (", …" if len(causes) > _MOST_CAUSES else "")
        yield f"advertises {now}, not {alone}: the MIG strategy holds for the whole cluster, and needs to be mixed for {named}"


def _not_uniform(settings: Settings) -> Iterator[Pool]:
    for pool, sharing in settings.shared_pools():
        if sharing.partitioned and not sharing.uniform_profile:
            yield pool
