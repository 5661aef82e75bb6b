"""Resources of an exported engine state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def pulumi_name(resource: Mapping[str, Any]) -> str:
    """Return the Pulumi name of a resource, for people."""
    return str(resource.get("urn", "")).rpartition("::")[2] or "a resource"
