"""The provider as a folder that the engine starts: `pulumi package add ./components` (components/provider.py)."""

import os.path
import sys

# The folder itself comes off the path: in it, `platform` would be ours instead of Python's.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib may load `platform`

from gpu_pools.components.provider import main

main()
