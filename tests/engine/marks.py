"""The marks of tests whose simulated nodes run NVIDIA's own programs and the verifier, of which `make test` has one kind each."""

from __future__ import annotations

from typing import Final

import pytest

from sandbox.cluster import node_tools

ON_NODES: Final = [
    pytest.mark.engine,
    pytest.mark.programs,
    pytest.mark.sweep,
    pytest.mark.skipif(node_tools.obstacle() is not None, reason=f"rules stand in here: {node_tools.obstacle()}"),
]
