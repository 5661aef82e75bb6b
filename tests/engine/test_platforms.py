"""Each platform once, as a user goes through it: brought up, verified, changed, taken away; some faults on the way.

AKS is the bring-up and the change of `make test`. The other platforms and all special cases, which are in the other files of this
folder, are left to `make test-all`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from sandbox.cluster import node_tools
from tests.engine.courses import found_and_repaired, run
from tests.engine.faults import FAULTS
from tests.engine.fleet import Fleet
from tests.tiers import these

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs]

_SHARED: Final = """
  gpu-pools:verification: {deadlineSeconds: 240, intervalSeconds: 10}
  gpu-pools:sharing:
    four: {timeSlicing: {replicas: 4}}
    served: {mps: {replicas: 4}}
    parts: {mig: {layout: {2g.10gb: 2, 3g.20gb: 1}}}
"""
STACKS: Final = {
    "aks": f"""
config:
  azure-native:location: westeurope
  gpu-pools:cluster:
    platform: aks
    name: small
    location: westeurope
    systemPool: {{vmSize: Standard_D4s_v5, count: 1}}
{_SHARED}
  gpu-pools:operator: {{driver: preinstalled}}
  gpu-pools:pools:
    - {{name: sliced, vmSize: Standard_NC4as_T4_v3, count: 1, sharing: four, taints: ["sku=gpu:NoSchedule"]}}
    - {{name: served, vmSize: Standard_NC4as_T4_v3, count: 1, sharing: served}}
""",
    "magnum": f"""
config:
  gpu-pools:cluster:
    platform: magnum
    name: small
    driver: heat
    template: {{image: fedora-coreos-42, externalNetwork: public, flavor: m2.large}}
    keypair: gpu-admin
  gpu-pools:flavors: {{g2: {{gpuModel: a100-40gb, gpusPerNode: 1}}}}
{_SHARED}
  gpu-pools:pools:
    - {{name: sliced, flavor: g2, count: 1, sharing: four}}
    - {{name: parts, flavor: g2, count: 1, sharing: parts}}
""",
    "existing": f"""
config:
  gpu-pools:cluster: {{platform: existing, context: byo}}
{_SHARED}
  gpu-pools:pools:
    - {{name: sliced, nodeSelector: {{example.com/pool: a}}, gpuModel: a10-24gb, gpusPerNode: 1, sharing: four}}
    - {{name: parts, nodeSelector: {{example.com/pool: b}}, gpuModel: a100-40gb, gpusPerNode: 1, sharing: parts}}
""",
}
#: Of each kind one: a label, and what an MPS daemon was started with; then the GPUs.
SOME: Final = ("sharing off although declared", "MPS with another split", "MPS declared, compute mode default")
SHARES: Final = "nvidia.com/gpu"


@pytest.mark.parametrize("platform", these(STACKS, ["aks"]))
def test_a_platform_is_brought_up_changed_and_taken_away(platform: str, sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(STACKS[platform], platform)
    trial.up().ok()
    assert trial.holds()
    assert _shares(trial) == "4"
    if platform == "aks":
        _check_faults(trial)

    nodes = [node["metadata"]["uid"] for node in trial.nodes()]
    trial.edit(lambda config: config["gpu-pools:sharing"]["four"]["timeSlicing"].update(replicas=8))
    trial.up().ok()
    assert trial.holds()
    assert _shares(trial) == "8"
    assert [node["metadata"]["uid"] for node in trial.nodes()] == nodes
    assert trial.run("verify", trial.stack).code == (0 if node_tools.obstacle() is None else 2)
    trial.engine("preview", "--expect-no-changes").ok()

    trial.down().ok()
    assert not trial.folder.exists()
    assert trial.processes() == {}


def _shares(trial: Trial) -> str:
    (node,) = trial.nodes("sliced")
    return str(node["status"]["allocatable"][SHARES])


def _check_faults(trial: Trial) -> None:
    if node_tools.obstacle() is not None:
        return  # rules stand in for the programs on the nodes, the verifier among them
    for course in run(Fleet(trial), {name: FAULTS[name] for name in SOME}).values():
        found_and_repaired(course)
