"""What a node advertises in its first seconds, born with its label: the default's resources, or those of its own key.

From device plugin v0.18.2 on config-manager takes the default first (NVIDIA/k8s-device-plugin#1645), and the plugin that has
started with that registers it, before the label's key reaches it: a pod that waits for a GPU may then get a whole one (W50).
Older ones wait for the node's label; they are not played in the plugin's pod (sandbox/machines/plugin_release.py). The real
programs run; what of it a kubelet reports to the API server depends on when it
looks, so the registrations are counted, which the kubelet's stand-in takes as the real one does.
"""

from __future__ import annotations

import re
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


@pytest.mark.parametrize("version", ["v0.19.0", "v0.20.0"])
def test_what_a_node_serves_first(version: str, tmp_path: Path) -> None:
    with running(tmp_path):
        here = Site(tmp_path)
        put(tmp_path, MachineGroup("system", "system", 1, Hardware(4, 16)))
        plugin = {**SPEC["devicePlugin"], **IMAGE, "version": version, "config": {"name": "sharing", "default": "exclusive"}}
        install(here.api, {**SPEC, "devicePlugin": plugin}, CONFIGS, LAYOUTS)
        labels = {**AKS, "nvidia.com/device-plugin.config": "ts4"}
        put(tmp_path, MachineGroup("gpu", "gpu", 1, A100, labels=labels, taints=[SKU], driver_preinstalled=True))
        here.until(lambda: here.offered() == {"gpu": "8"})
        log = (tmp_path / "machines" / "gpu0" / "plugin.log").read_text("utf-8")
    # What it runs with is printed at each start and each signal.
    served = [int(count) for count in re.findall(r'"replicas": (\d+)', log)]
    assert served == [4]
    assert log.count("Registered device plugin") == 2, log
    assert log.count("Received SIGHUP") == 1, log
