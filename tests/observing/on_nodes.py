"""Exporters of a cluster's simulated nodes as the sandbox has them, of which a test can have some not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.observing.on_nodes import Truth
from sandbox.observing.pod_network import Pods

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.cluster.api import Api
    from sandbox.observing.exporter import Node


class Exporters(Truth):
    """What pods answer to a scrape.

    Attributes:
        silent: nodes whose exporter does not answer.
        pods: who is at which address.
    """

    def __init__(self, cluster: Path, api: Api, window: float) -> None:
        super().__init__(cluster, api, window)
        self.silent: set[str] = set()
        self.pods = Pods(api, self)

    def of(self, node: str, address: str = "") -> Node:
        if node in self.silent:
            raise ConnectionRefusedError(node)
        return super().of(node, address)
