"""How many examples Hypothesis draws: the usual number by day, a multiple of it at night (GPU_POOLS_EXAMPLES=20)."""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "GPU_POOLS_EXAMPLES"
TIMES: Final = int(os.environ.get(VARIABLE, "1"))


def examples(usual: int = 100) -> int:
    """The number for a test that draws as many as usual by day."""
    return usual * TIMES
