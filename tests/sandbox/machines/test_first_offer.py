"""What a node advertises in its first seconds, born with its label: the default's resources, or those of its own key.

From device plugin v0.18.2 on config-manager takes the default first (NVIDIA/k8s-device-plugin#1645), and the plugin that has
started with that registers it, before the label's key reaches it: a pod that waits for a GPU may then get a whole one (W50).
Older ones wait for the node's label; they are not played in the plugin's pod (sandbox/machines/plugin_release.py). The real
programs run; what of it a kubelet reports to the API server depends on when it
looks, so the registrations are counted, which the kubelet's stand-in takes as the real one does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from sandbox.cluster import node_tools
from sandbox.cluster.machine_groups import Hardware, MachineGroup, put
from tests.sandbox.machines.site import Site, install, running
from tests.sandbox.machines.test_daemon import A100, AKS, LAYOUTS, SKU, SPEC
from tests.sandbox.machines.test_mps_daemon import CONFIGS, IMAGE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.programs,
    pytest.mark.sweep,
    pytest.mark.skipif(node_tools.obstacle() is not None, reason=f"rules stand in here: {node_tools.obstacle()}"),
]


@dataclass(frozen=True)
class Born:
    """A node.

    Attributes:
        version: of the device plugin's image.
        key: of its label.
        offers: resource -> count in the end.
        default_first: whether the plugin serves the default before.
    """

    version: str
    key: str
    offers: dict[str, str]
    default_first: bool

    def __str__(self) -> str:
        return f"{self.version}-{self.key}"


BORN = [
    Born("v0.19.0", "ts4", {"gpu": "8"}, default_first=True),
    Born("v0.20.0", "ts4", {"gpu": "8"}, default_first=True),
]


@pytest.mark.parametrize("born", BORN, ids=str)
def test_what_a_node_serves_first(born: Born, tmp_path: Path) -> None:
    with running(tmp_path):
        here = Site(tmp_path)
        put(tmp_path, MachineGroup("system", "system", 1, Hardware(4, 16)))
        plugin = {**SPEC["devicePlugin"], **IMAGE, "version": born.version, "config": {"name": "sharing", "default": "exclusive"}}
        install(here.api, {**SPEC, "devicePlugin": plugin}, CONFIGS, LAYOUTS)
        labels = {**AKS, "nvidia.com/device-plugin.config": born.key}
        put(tmp_path, MachineGroup("gpu", "gpu", 1, A100, labels=labels, taints=[SKU], driver_preinstalled=True))
        here.until(lambda: here.offered() == born.offers)
        log = (tmp_path / "machines" / "gpu0" / "plugin.log").read_text("utf-8")
    # What it runs with is printed at each start and each signal.
    served = [int(count) for count in re.findall(r'"replicas": (\d+)', log)]
    registered = log.count("Registered device plugin")
    assert served == [4]
    assert registered == (2 if born.default_first else 1), log
    assert log.count("Received SIGHUP") == (1 if born.default_first else 0), log
