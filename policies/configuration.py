"""What a stack may configure of a rule, as JSON schema, and the levels that the project's environments use.

The engine checks configurations against the schemas before it runs a pack; `read_settings` checks them again, because a pack
must not pass by accident where somebody runs it without.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.policies.exceptions import SCHEMA
from gpu_pools.text.pages import name_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpu_pools.policies.rule import Rule

_ALL: Final = "all"


def unknown_rules(configured: Iterable[str], names: Sequence[str]) -> Iterator[str]:
    """What is wrong with each name that a configuration of the pack has and the pack lacks.

    Args:
        configured: the names; ``all`` is the engine's own word.
        names: of the rules.
    """
    for name in sorted(set(configured) - {*names, _ALL}):
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        page = name_page("reference/policies.md")
        meant = f"did you mean {' or '.join(f'`{one}`' for one in near)}?" if near else f"{page} lists them."
        yield f"the policy configuration sets `{name}`, and there is no such rule: {meant}"


def schema_of(rule: Rule) -> dict[str, Any]:
    """Properties of the rule's configuration: its limits, and exceptions."""
    return {**{limit.name: dict(limit.schema) for limit in rule.limits}, "exceptions": dict(SCHEMA)}
