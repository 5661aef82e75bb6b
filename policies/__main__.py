"""The policy pack: `pulumi preview --policy-pack policies`."""

import gc
import sys
from pathlib import Path

# As our program itself: nearly all that is loaded and shown lives until the end of a preview or deploy.
gc.disable()

# The engine runs this folder as a program of its own, whose modules are found from the folder above.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from policies.engine import serve
from policies.rules import RULES

serve(RULES)
