"""The components keep what their schema promises; test_provider.py has the schema."""

from __future__ import annotations

import importlib
import inspect
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi
import pytest

import gpu_pools.components
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.components.pools import AksPool, ExistingPool, MagnumPool
from gpu_pools.components.sharing import Exclusive, Mig, Mps, TimeSlicing
from gpu_pools.stack.stack_file import read_stack_file

from .conftest import KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]

COMPONENTS = Path(__file__).parents[2] / "components"
#: Attributes that the SDK gives a component: its URN, and what it was registered with (Verification).
OF_THE_SDK = {"urn", "pool"}
DECLARED: dict[str, Any] = {
    "exclusive": {},
    "timeSlicing": {"replicas": 2},
    "mps": {"replicas": 2},
    "mig": {"layout": {"1g.10gb": 7}},
}
HARDWARE: Any = {"gpuModel": "a100-80gb", "gpusPerNode": 1}
POOLS: dict[Any, Any] = {
    AksPool: {"vm_size": "Standard_NC24ads_A100_v4", "count": 1},
    MagnumPool: {"flavor": "g1", "count": 1, "magnum_driver": "heat", "hardware": HARDWARE},
    ExistingPool: {"node_selector": {"gpu": "a"}, **HARDWARE},
}
STRATEGIES: dict[str, Any] = {"exclusive": Exclusive, "timeSlicing": TimeSlicing, "mps": Mps, "mig": Mig}


def classes() -> list[type[pulumi.ComponentResource]]:
    """Every public component."""
    found = []
    for path in sorted(COMPONENTS.rglob("[a-z]*.py")):
        parts = path.relative_to(COMPONENTS).with_suffix("").parts
        module = importlib.import_module(".".join(("gpu_pools.components", *parts)))
        for _, entry in inspect.getmembers(module, inspect.isclass):
            own = entry.__module__ == module.__name__ and issubclass(entry, pulumi.ComponentResource)
            if own and entry.__name__ not in {"SharingDeclaration", "PoolDeclaration"}:
                found.append(entry)
    return found


@pytest.fixture
def registered(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kubelogin: Path
) -> dict[str, list[tuple[pulumi.ComponentResource, Any]]]:
    """What every component registers that the stacks of the project make, and the declarations: class -> (component, outputs)."""
    del kubelogin
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    found: dict[str, list[tuple[pulumi.ComponentResource, Any]]] = defaultdict(list)
    plain = pulumi.ComponentResource.register_outputs

    def register(component: pulumi.ComponentResource, outputs: Any) -> None:
        found[type(component).__name__].append((component, outputs))
        plain(component, outputs)

    monkeypatch.setattr(pulumi.ComponentResource, "register_outputs", register)
    for stack in ("aks-dev", "aks-existing", "magnum-dev", "magnum-existing", "byo", "byo-dra"):
        config = read_stack_file(COMPONENTS.parent / "stacks" / f"Pulumi.{stack}.yaml")
        sections: Any = {key.removeprefix("gpu-pools:"): value for key, value in config.items() if key.startswith("gpu-pools:")}
        sections["verification"] = {"smokeTest": True, "startupTaint": stack == "byo"}
        sections |= {"observability": {}} if stack == "byo" else {}
        sections["cluster"] |= {"context": "byo"} if stack == "byo-dra" else {}
        run(partial(GpuPlatform, "gpu", sections))
    run(lambda: [kind(key, DECLARED[key]) for key, kind in STRATEGIES.items()])
    run(lambda: [kind("a", {"name": "a", "sharing": {"exclusive": {}}, **args}) for kind, args in POOLS.items()])
    return found


def test_every_public_output_of_every_component_is_registered(registered: dict[str, Any]) -> None:
    # The engine's own stands above them.
    assert set(registered) - {"Stack"} == {component.__name__ for component in classes()}
    for kind in classes():
        annotated = [entry for cls in kind.__mro__ for entry in inspect.get_annotations(cls).items()]
        declared = {name for name, type_ in annotated if "pulumi.Output" in str(type_) or "output.Output" in str(type_)}
        assert declared, kind
        for component, outputs in registered[kind.__name__]:
            own = vars(component).items()
            public = {
                name
                for name, value in own
                if isinstance(value, pulumi.Output) and name not in OF_THE_SDK and not name.startswith("_")
            }
            assert public == declared == set(outputs), kind
            assert {name: outputs[name] is getattr(component, name) for name in declared} == dict.fromkeys(declared, True), kind


def test_every_component_is_a_public_name_of_the_package() -> None:
    assert {component.__name__ for component in classes()} == set(gpu_pools.components.__all__)
    assert [getattr(gpu_pools.components, name).__name__ for name in gpu_pools.components.__all__] == gpu_pools.components.__all__
    assert dir(gpu_pools.components) == sorted(gpu_pools.components.__all__)
    with pytest.raises(AttributeError, match="no attribute 'GpuPlattform'"):
        _ = gpu_pools.components.GpuPlattform  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", sorted(COMPONENTS.rglob("*.py")), ids=lambda path: str(path.relative_to(COMPONENTS)))
def test_annotations_are_not_postponed(path: Path) -> None:
    assert "\nfrom __future__ import annotations" not in path.read_text()
