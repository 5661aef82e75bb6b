"""The stack of the recorded previews, and the three changes of it."""

from __future__ import annotations

from typing import Final

BEFORE: Final = """\
config:
  azure-native:location: westeurope
  gpu-pools:cluster:
    platform: aks
    name: shop
    location: westeurope
    resourceGroup: shop-rg
    systemPool: {vmSize: Standard_D4s_v5, count: 1}
    tags: {environment: test}
  gpu-pools:sharing:
    notebooks: {timeSlicing: {replicas: 4}}
    slices: {mig: {layout: {1g.10gb: 7}}}
    whole: {exclusive: {}}
  gpu-pools:pools:
    - {name: notebooks, vmSize: Standard_NC24ads_A100_v4, count: 2, sharing: notebooks}
    - {name: slices, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: slices}
    - {name: train, vmSize: Standard_NC24ads_A100_v4, count: 2, sharing: whole}
"""
#: Name -> (text, what is written for it).
CHANGES: Final = {
    "replicas": ("replicas: 4", "replicas: 8"),
    "layout": ("{1g.10gb: 7}", "{3g.40gb: 1, 2g.20gb: 2}"),
    "vm-size": ("{name: train, vmSize: Standard_NC24ads_A100_v4", "{name: train, vmSize: Standard_NC48ads_A100_v4"),
    "region": ("location: westeurope\n    resourceGroup", "location: northeurope\n    resourceGroup"),
    "pool-gone": ("    - {name: slices, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: slices}\n", ""),
}


def after(change: str) -> str:
    """The stack file with a change."""
    text = BEFORE.replace(*CHANGES[change])
    assert text != BEFORE
    return text
