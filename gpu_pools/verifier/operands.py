"""What the operator's own programs on a node go by: their labels, and how long mig-manager waits.

Imports nothing, as whoever changes a node and whoever judges it need the same.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

CONFIG_LABEL: Final = "nvidia.com/device-plugin.config"
MIG_CONFIG_LABEL: Final = "nvidia.com/mig.config"
MIG_STATE_LABEL: Final = "nvidia.com/mig.config.state"
#: Seconds. It waits for five kinds of pods, five minutes each (mig-parted v0.15.0, pkg/mig/reconfigure/reconfigure.go).
MIG_PENDING_SECONDS: Final = 25 * 60
