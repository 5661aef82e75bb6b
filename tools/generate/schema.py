"""Writes components/schema.json: the package of the components for the other languages of Pulumi."""

from __future__ import annotations

import json


def schema_text() -> str:
    """components/schema.json, of the types as they are written."""
    from gpu_pools.components.provider import GpuPoolsProvider  # noqa: PLC0415 - once they are

    return json.dumps(json.loads(GpuPoolsProvider().schema or ""), indent=1) + "\n"
