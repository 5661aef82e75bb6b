"""What a stack may configure of a rule, as JSON schema, and the levels that the project's environments use.

The engine checks configurations against the schemas before it runs a pack; `read_settings` checks them again, because a pack
must not pass by accident where somebody runs it without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.exceptions import SCHEMA

if TYPE_CHECKING:
    from policies.rule import Rule


def schema_of(rule: Rule) -> dict[str, Any]:
    """Properties of the rule's configuration: its limits, and exceptions."""
    return {**{limit.name: dict(limit.schema) for limit in rule.limits}, "exceptions": dict(SCHEMA)}
