"""The platforms whose pools can be adopted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.adopting.aks.adopter import AksAdopter
from gpu_pools.adopting.existing.adopter import ExistingAdopter
from gpu_pools.adopting.magnum.adopter import MagnumAdopter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.adopting.adopter import Adopter

#: Platform -> how its pools are adopted, in the order of the help.
ADOPTERS: Final[Mapping[str, Adopter]] = {one.name: one for one in (AksAdopter(), MagnumAdopter(), ExistingAdopter())}
