"""What gpu-feature-discovery's labels of a node tell of its GPUs: the model, how many there are, and how they are shared now.

Under MIG's strategy `single` the labels tell of instances as if they were GPUs: `nvidia.com/gpu.count` is the number of instances
of the node, and the product ends in their profile. How many GPUs hold them no label says. A config that was read says it; without
one the GPUs are taken to be full, and that is told (gpu_pools/adopting/sharing.py). Under `mixed` the count is one of GPUs, and
the labels `nvidia.com/mig-<profile>.count` are for the whole node.

Sources: NVIDIA/k8s-device-plugin 1b826acc (internal/lm/mig-strategy.go, resource.go); what nodes have shown is in
tests/adopting/clusters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.models import find_model
from gpu_pools.mig.geometry import known_profiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.models import GpuModel

#: As NVML names the product, with what sharing adds to it.
PRODUCT: Final = "nvidia.com/gpu.product"
COUNT: Final = "nvidia.com/gpu.count"
_REPLICAS: Final = "nvidia.com/gpu.replicas"
_STRATEGY: Final = "nvidia.com/gpu.sharing-strategy"
_VGPU: Final = "nvidia.com/vgpu.present"
_SHARED: Final = "-SHARED"
#: Under `single`, where instances of a node are not all alike, or a GPU has none.
_INVALID: Final = "-MIG-INVALID"
_SINGLE: Final = re.compile(r"-MIG-([0-9]+g\.[0-9]+gb[-.a-z]*)$")
_MIXED: Final = re.compile(r"nvidia\.com/mig-([0-9]+g\.[0-9]+gb[-.a-z]*)\.count")


@dataclass(frozen=True)
class Labelled:
    """The GPUs of a node.

    Attributes:
        model: of all of them.
        product: as the tables write it; empty where the label has the model's key.
        count: of `nvidia.com/gpu.count`: GPUs, or MIG instances where `single`.
        instances: MIG instances of the node, by profile.
        single: whether instances are labelled as GPUs.
        replicas: of each GPU or instance; 1: it is not shared.
        mps: whether MPS shares it.
        renamed: whether the shared resource has a name of its own.
    """

    model: GpuModel
    product: str
    count: int
    instances: Mapping[str, int] = field(default_factory=dict)
    single: bool = False
    replicas: int = 1
    mps: bool = False
    renamed: bool = False

    def gpus(self, layout: Mapping[str, int]) -> int | None:
        """How many GPUs the node has; None: that cannot be told.

        Args:
            layout: MIG instances of one GPU, as a config says it; empty: no config was read, and the GPUs are taken to be full.
        """
        if not self.single:
            return self.count
        ((profile, instances),) = self.instances.items()
        each = layout.get(profile) or self._most(profile)
        return instances // each if each and instances % each == 0 else None

    @property
    def layout(self) -> dict[str, int]:
        """MIG instances of one GPU, where all have the same and, under `single`, are full; empty: that cannot be told."""
        if self.single:
            ((profile, instances),) = self.instances.items()
            most = self._most(profile)
            return {profile: most} if most and instances % most == 0 else {}
        if not self.count or any(number % self.count for number in self.instances.values()):
            return {}
        return {profile: number // self.count for profile, number in self.instances.items()}

    @property
    def told(self) -> str:
        """The instances in words, e.g. ``7 MIG instances of 1g.5gb``."""
        return ", ".join(f"{number} MIG instances of {profile}" for profile, number in sorted(self.instances.items()))

    def _most(self, profile: str) -> int:
        known = known_profiles(self.model).get(profile)
        return known.max_instances if known else 0


def labelled(labels: Mapping[str, str]) -> Labelled | str:
    """What the labels of a node tell; else why they do not tell which GPUs it has."""
    product, count = labels.get(PRODUCT, ""), labels.get(COUNT, "")
    if labels.get(_VGPU) == "true":
        return f"their GPUs are virtual ones ({product or 'no product is labelled'}), which no table has"
    if product.endswith(_INVALID):
        return f"their product is {product}: not all their MIG instances are alike, which strategy single cannot label"
    found = find_model(product)
    if found is None or not count.isdigit():
        return f"their product is {product or 'told by no label'}, {count or '?'} of it"
    model, name = found
    replicas = int(labels[_REPLICAS]) if labels.get(_REPLICAS, "").isdigit() else 1
    profile = _SINGLE.search(product.removesuffix(_SHARED))
    instances = {_own(model, profile[1]): int(count)} if profile else _mixed(model, labels)
    return Labelled(
        model,
        name or "",
        int(count),
        instances,
        single=bool(profile),
        replicas=max(replicas, 1),
        mps=labels.get(_STRATEGY) == "mps",
        renamed=replicas > 1 and not product.endswith(_SHARED),
    )


def _mixed(model: GpuModel, labels: Mapping[str, str]) -> dict[str, int]:
    found = ((_MIXED.fullmatch(key), value) for key, value in labels.items())
    return {_own(model, match[1]): int(value) for match, value in found if match and value.isdigit() and int(value)}


def _own(model: GpuModel, labelled_name: str) -> str:
    """The profile as the tables name it: in labels a plus sign is left out, in resource names it is a dot."""
    plain = re.sub(r"[^0-9a-z.]", "", labelled_name)
    names = {re.sub(r"\+", sign, name): name for name in known_profiles(model) for sign in ("", ".")}
    return model.own_name(names.get(plain, labelled_name))
