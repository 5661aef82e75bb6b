"""The platforms that nodes with GPUs run on."""

from __future__ import annotations

from typing import Literal

#: AKS and Magnum make the cluster; an existing one is only used.
Platform = Literal["aks", "magnum", "existing"]
