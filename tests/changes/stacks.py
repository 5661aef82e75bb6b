"""The stack of the recorded previews, and the three changes of it."""

from __future__ import annotations

import json
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
  gpu-pools:verification: {}
  gpu-pools:pools:
    - {name: notebooks, vmSize: Standard_NC24ads_A100_v4, count: 2, sharing: notebooks}
    - {name: slices, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: slices}
    - {name: train, vmSize: Standard_NC24ads_A100_v4, count: 2, sharing: whole}
"""
#: What a team might pay; made up, as are the pods.
PRICES: Final = """\
currency: EUR
perHour: {Standard_NC24ads_A100_v4: 4, Standard_NC48ads_A100_v4: 8}
"""
#: Running pods that ask for something: namespace, name, resource, the pool that it wants to run on.
PODS: Final = (
    ("lab", "embeddings-0", "nvidia.com/gpu", "slices"),
    ("lab", "notebook-7c9f", "nvidia.com/gpu", "notebooks"),
    ("ml", "finetune-kb2x8", "nvidia.com/gpu", "train"),
)
#: Name -> (text, what is written for it).
CHANGES: Final = {
    "replicas": ("replicas: 4", "replicas: 8"),
    "layout": ("{1g.10gb: 7}", "{3g.40gb: 1, 2g.20gb: 2}"),
    "vm-size": ("{name: train, vmSize: Standard_NC24ads_A100_v4", "{name: train, vmSize: Standard_NC48ads_A100_v4"),
    "region": ("location: westeurope\n    resourceGroup", "location: northeurope\n    resourceGroup"),
    "pool-gone": ("    - {name: slices, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: slices}\n", ""),
}


def pods() -> str:
    """The running pods, as kubectl lists them."""
    items = [
        {
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"nodeSelector": {"gpu-pools/pool": pool}, "containers": [{"resources": {"limits": {resource: "1"}}}]},
            "status": {"phase": "Running"},
        }
        for namespace, name, resource, pool in PODS
    ]
    return json.dumps({"items": items})


def after(change: str) -> str:
    """The stack file with a change."""
    text = BEFORE.replace(*CHANGES[change])
    assert text != BEFORE
    return text
