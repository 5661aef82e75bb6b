"""Which pool of a stack gets a real node (`make up NODES=real`), and which stacks can have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.plan.planning import plan_config
from sandbox.cluster.machine_groups import RealNodes
from sandbox.real_node import allowed
from sandbox.stack import real_nodes
from sandbox.stack.real_nodes import OWN, REAL, choose
from sandbox.stack.state import Sandbox
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

SHARING: dict[str, Any] = {
    "mig": {"mig": {"layout": {"1g.5gb": 7}}},
    "mps": {"mps": {"replicas": 4}},
    "sliced": {"timeSlicing": {"replicas": 4}},
}
#: Their MPS daemons read the label when they start: other programs than those of a real node.
OLD = {"values": {"devicePlugin": {"version": "v0.18.1"}}}


def chosen(folder: Path, names: tuple[str, ...], asked: str, **operator: Any) -> dict[str, RealNodes]:
    model = "NVIDIA A100-SXM4-40GB"
    pools = [
        {"name": name, "nodeSelector": {"pool": name}, "gpuModel": model, "gpusPerNode": 1, "sharing": name} for name in names
    ]
    config: dict[str, Any] = {
        "gpu-pools:cluster": {"platform": "existing", "context": "byo"},
        "gpu-pools:operator": operator,
        "gpu-pools:sharing": {name: SHARING[name] for name in names},
        "gpu-pools:pools": pools,
    }
    return choose(Sandbox("s", folder, folder / "Pulumi.s.yaml"), plan_config(config), asked)


@pytest.fixture(autouse=True)
def _possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine allows."""
    monkeypatch.setattr(allowed, "require", lambda: None)
    monkeypatch.setattr(real_nodes.machine_groups, "groups", lambda _folder: {})


@pytest.mark.parametrize(
    ("asked", "operator", "pool"),
    [(REAL, {}, "mps"), (OWN, {}, "sliced"), (REAL, OLD, "sliced")],
    ids=["simulated GPUs", "the machine's own, whose compute mode MPS would set", "an older device plugin"],
)
def test_the_first_pool_whose_programs_a_real_node_has_gets_it(
    tmp_path: Path, asked: str, operator: dict[str, Any], pool: str
) -> None:
    assert chosen(tmp_path, ("mig", "mps", "sliced"), asked, **operator) == {pool: RealNodes(1, asked == OWN)}


@pytest.mark.parametrize(
    ("names", "asked", "said"),
    [
        (("mig",), REAL, "NODES=real: this stack can have no real node: .* a pool without MIG whose driver"),
        (("mig", "mps"), OWN, "NODES=own: this stack can have no real node: .* a pool without MIG and MPS whose driver"),
    ],
)
def test_a_stack_without_such_a_pool_is_refused(tmp_path: Path, names: tuple[str, ...], asked: str, said: str) -> None:
    with pytest.raises(SandboxError, match=said):
        chosen(tmp_path, names, asked)
