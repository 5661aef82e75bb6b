"""Asks az for a cluster and its agent pools, read only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.adopting.documents import mapping, mappings
from gpu_pools.adopting.live import Client, ask_json

if TYPE_CHECKING:
    from collections.abc import Sequence

_AZ: Final = Client("https://learn.microsoft.com/cli/azure/install-azure-cli", "--cluster FILE and --pools FILE")


def ask_az(group: str, name: str, subscription: str | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(cluster, agent pools) as az shows them.

    Raises:
        NotAdoptableError: if az is missing, or does not show them.
    """
    of = ["--output", "json", *(["--subscription", subscription] if subscription else [])]
    shown: Sequence[str] = ["az", "aks", "show", "--resource-group", group, "--name", name, *of]
    listed: Sequence[str] = ["az", "aks", "nodepool", "list", "--resource-group", group, "--cluster-name", name, *of]
    return mapping(ask_json(shown, _AZ), "az", " ".join(shown)), mappings(ask_json(listed, _AZ), "az", " ".join(listed))
