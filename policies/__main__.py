"""The policy pack: `pulumi preview --policy-pack policies`."""

import gc
import sys
from pathlib import Path

# As our program itself: nearly all that is loaded and shown lives until the end of a preview or deploy.
gc.disable()

# The engine runs this folder as a program of its own. Its modules are found from the folder above, and gpu_pools there, too; in
# the wheel this folder is a part of it.
above = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(above), *([str(above.parent)] if above.name == "gpu_pools" else [])]

from policies.engine import serve
from policies.rules import RULES

serve(RULES)
