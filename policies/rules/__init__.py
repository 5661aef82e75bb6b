"""All rules, by theme. Adding a rule is adding it to its module's ``RULES``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.policies.rules import config_maps, images, magnum, organisation, pools, programs, releases, workloads

if TYPE_CHECKING:
    from gpu_pools.policies.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    *config_maps.RULES,
    *pools.RULES,
    *magnum.RULES,
    *releases.RULES,
    *programs.RULES,
    *workloads.RULES,
    *images.RULES,
    *organisation.RULES,
)
