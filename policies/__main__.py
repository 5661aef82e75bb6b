"""The policy pack: `pulumi preview --policy-pack policies`."""

import gc
import sys
from pathlib import Path

# As our program itself: nearly all that is loaded and shown lives until the end of a preview or deploy.
gc.disable()

# The engine runs this folder as a program of its own. In a checkout gpu_pools is beside it; in the wheel it is the folder above.
above = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(above if (above / "gpu_pools").is_dir() else above.parent))

from gpu_pools.policies.engine import serve
from gpu_pools.policies.rules import RULES

serve(RULES)
