"""Ratios of what people wait for: `python benchmarks/run.py [plan|mig|labels|preview|policies|up|scale [POOLS]]`.

Without an argument all but `scale` are measured.

Each figure is a ratio to a floor that is measured in the same run, pair by pair, so that a slow or busy machine does not
change it much. Absolute times are printed for orientation only.

- plan: planning 1,000 pools against merely parsing the same YAML file.
- mig: whether 10,000 random MIG layouts are legal, against a general constraint solver that is given the same task (a variable
  per instance, its starts as domain, no overlap, counts and compute slices as constraints); the listing of the largest model.
- labels: predicting the labels of nodes against the real gpu-feature-discovery that finds them out on simulated GPUs; both must
  agree. On Linux only, and it says so where it cannot run.
- preview: `pulumi preview` of our program against a bare program that registers the very same resources with literal inputs
  (recorded from our preview) through the same SDKs, with nothing planned or checked, at 3, 30 and 300 pools.
- policies: `pulumi preview` with the policy pack against the same without it, at 3, 30 and 300 pools.
- up: `make up` of aks-dev with nothing to change, against two floors: `pulumi up` alone of the same program and stack, and of
  the bare program, which registers what the state of that stack has.
- scale: processor time by part of `preview` and `up` with 300 pools, or as many as are given.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import yaml  # noqa: E402

from benchmarks.parts import measure  # noqa: E402
from gpu_pools.allocation.device_plugin import device_plugin_config  # noqa: E402
from gpu_pools.hardware.models import model, model_keys  # noqa: E402
from gpu_pools.mig import geometry, layouts  # noqa: E402
from gpu_pools.plan.expectation import gfd_labels  # noqa: E402
from gpu_pools.plan.planning import plan_config  # noqa: E402
from gpu_pools.stack.stack_file import read_stack_file  # noqa: E402
from gpu_pools.text.yaml_text import load_yaml  # noqa: E402
from sandbox.cli import commands  # noqa: E402
from sandbox.cluster.gpu_host import GpuHost, obstacle  # noqa: E402
from sandbox.nvml.library import find_library  # noqa: E402
from sandbox.stack import stand_ins  # noqa: E402
from sandbox.stack.engine import Engine  # noqa: E402
from sandbox.stack.state import find_sandbox, prepare  # noqa: E402
from sandbox.system.progress import Progress  # noqa: E402
from sandbox.toolchain.find import find_built, find_tools  # noqa: E402
from sandbox.toolchain.tools import NODE_PROGRAMS, RULES  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.parts import Measured
    from gpu_pools.hardware.models import GpuModel

PAIRS = 5
MOST_POOLS = 300
_STACK, _PROVIDERS = "pulumi:pulumi:Stack", "pulumi:providers:"
NODES = 40
SHARING = {
    "ts": {"timeSlicing": {"replicas": 4}},
    "mig": {"mig": {"layout": {"1g.10gb": 7}}},
    "mps": {"mps": {"replicas": 10}},
    "whole": {"exclusive": {}},
}

BARE = """
import json, re
import pulumi
import pulumi_kubernetes
from pulumi_azure_native import containerservice, resources
from pulumi_kubernetes.core.v1 import ConfigMap, Namespace
from pulumi_kubernetes.helm.v3 import Release

TYPED = {
    "kubernetes:core/v1:ConfigMap": ConfigMap,
    "kubernetes:core/v1:Namespace": Namespace,
    "kubernetes:helm.sh/v3:Release": Release,
    "azure-native:containerservice:AgentPool": containerservice.AgentPool,
    "azure-native:containerservice:ManagedCluster": containerservice.ManagedCluster,
    "azure-native:resources:ResourceGroup": resources.ResourceGroup,
}

def arguments(inputs):
    snake = {re.sub("([A-Z]+)", lambda m: "_" + m[1].lower(), key): value for key, value in inputs.items()}
    snake.pop("azure_api_version", None)  # the SDK gives it by itself
    return {"resource_name_" if key == "resource_name" else key: value for key, value in snake.items()}

def whole(value):
    if isinstance(value, dict) and "4dabf18193072939515e22adb298388d" in value:
        return pulumi.Output.secret(json.loads(value["plaintext"]))
    if isinstance(value, dict):
        return {key: whole(one) for key, one in value.items() if not key.startswith("__")}
    return [whole(one) for one in value] if isinstance(value, list) else value

made = {}
for entry in json.load(open("resources.json")):
    opts = pulumi.ResourceOptions(parent=made.get(entry["parent"]), provider=made.get(entry["provider"]))
    inputs = whole(entry["inputs"])
    if entry["type"].startswith("pulumi:providers:"):
        made[entry["urn"]] = pulumi.ProviderResource(entry["type"].rpartition(":")[2], entry["name"], inputs, opts)
    elif entry["type"] in TYPED:
        made[entry["urn"]] = TYPED[entry["type"]](entry["name"], **arguments(inputs), opts=opts)
    elif entry["custom"]:
        made[entry["urn"]] = pulumi.CustomResource(entry["type"], entry["name"], inputs, opts)
    else:
        made[entry["urn"]] = pulumi.ComponentResource(entry["type"], entry["name"], inputs, opts)
"""


def stack(pools: int) -> str:
    """A stack file of that many AKS pools, the four strategies in turn."""
    names = list(SHARING)
    config = {
        "gpu-pools:cluster": {
            "platform": "aks",
            "name": "bench",
            "location": "westeurope",
            "systemPool": {"vmSize": "Standard_D4s_v5", "count": 2},
        },
        "gpu-pools:sharing": SHARING,
        "gpu-pools:pools": [
            {
                "name": f"p{number}",
                "vmSize": "Standard_NC24ads_A100_v4",
                "nodes": {"min": 0, "max": 4},
                "sharing": names[number % len(names)],
                "labels": {"example.com/team": f"team-{number % 7}"},
                "taints": ["sku=gpu:NoSchedule"],
            }
            for number in range(pools)
        ],
    }
    return yaml.safe_dump({"config": config}, sort_keys=False)


def stack_for_nodes(pools: int) -> str:
    """A stack file of that many pools of a cluster that is there, of one node each, with verifiers; three strategies in turn.

    AKS has at most 100 node pools a cluster, so that many are deployed elsewhere. MPS is left out: no rule plays its daemon.
    """
    names = [name for name in SHARING if name != "mps"]
    config = {
        "gpu-pools:cluster": {"platform": "existing"},
        "gpu-pools:sharing": {name: SHARING[name] for name in names},
        "gpu-pools:operator": {"driver": "preinstalled"},
        "gpu-pools:verification": {},
        "gpu-pools:pools": [
            {
                "name": f"p{number}",
                "nodeSelector": {"pool": f"p{number}"},
                "gpuModel": "NVIDIA A100 80GB PCIe",
                "gpusPerNode": 1,
                "sharing": names[number % len(names)],
            }
            for number in range(pools)
        ],
    }
    return yaml.safe_dump({"config": config}, sort_keys=False)


def seconds(action: Callable[[], object]) -> float:
    """How long it took."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def processor_seconds(action: Callable[[], object]) -> float:
    """How long processors worked for the programs that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    action()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(name: str, ours: Callable[[], object], floor: Callable[[], object], aim: str) -> None:
    """Measure both in turn and print the median of the ratios."""
    ours(), floor()  # warm caches and byte code
    pairs = [(seconds(ours), seconds(floor)) for _ in range(PAIRS)]
    ratios = sorted(mine / bare for mine, bare in pairs)
    mine, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        f"{name:<28} ratio {statistics.median(ratios):5.2f} (min {ratios[0]:.2f}, max {ratios[-1]:.2f}; aim {aim})"
        f"   {mine:.2f} s against {bare:.2f} s",
        flush=True,
    )


def bench_plan(folder: Path) -> None:
    """Plan 1,000 pools against parsing them."""
    path = folder / "Pulumi.bench.yaml"
    path.write_text(stack(1000))
    text = path.read_text()
    compare("plan of 1,000 pools", lambda: plan_config(read_stack_file(path)), lambda: load_yaml(text), "<= 3")


def bench_mig() -> None:
    """Legality against a general solver, and the listing of the model with the most layouts."""
    cases = _random_layouts(10_000)
    ours = [geometry.place(gpu, layout) is not None for gpu, layout in cases]
    theirs = [_solver_places(gpu, layout) for gpu, layout in cases]
    assert ours == theirs, "the search and the solver disagree"
    pairs = [
        (
            seconds(lambda: [geometry.place(gpu, layout) for gpu, layout in cases]),
            seconds(lambda: [_solver_places(gpu, layout) for gpu, layout in cases]),
        )
        for _ in range(PAIRS)
    ]
    ratios = sorted(solver / mine for mine, solver in pairs)
    mine, solver = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        f"legality of 10,000 layouts   {statistics.median(ratios):.0f} times faster (min {ratios[0]:.0f}, max {ratios[-1]:.0f}; "
        f"aim 50), {sum(ours)} legal, all agree   {mine * 1000:.1f} ms against {solver * 1000:.0f} ms",
        flush=True,
    )
    largest = max((model(key) for key in model_keys() if model(key).profiles), key=lambda gpu: len(geometry.maximal_layouts(gpu)))
    geometry._legal.cache_clear()  # noqa: SLF001 - so that the walk is measured, not its memory
    walk = seconds(lambda: geometry.legal_layouts(largest))
    listing = seconds(lambda: json.dumps(layouts.document(largest, None)))
    print(f"{largest.key}: all layouts found in {walk * 1000:.1f} ms, listed in {listing * 1000:.1f} ms more", flush=True)


def _random_layouts(count: int) -> list[tuple[GpuModel, dict[str, int]]]:
    chance = random.Random(1)  # noqa: S311 - the same layouts in every run
    known = [model(key) for key in model_keys() if model(key).profiles]
    cases = []
    for _ in range(count):
        gpu = chance.choice(known)
        kinds = chance.sample(sorted(gpu.profiles or {}), k=chance.randint(1, 4))
        cases.append((gpu, {kind: chance.choice((1, 1, 1, 2, 2, 3, 4, 7)) for kind in kinds}))
    return cases


def _solver_places(gpu: GpuModel, layout: dict[str, int]) -> bool:
    from constraint import Problem  # noqa: PLC0415 - the other benchmarks run without it

    problem, kinds = Problem(), [gpu.profiles[name] for name in layout]
    for kind in kinds:
        problem.addVariable(kind.name, [layout[kind.name]])
        problem.addConstraint(lambda count, most=kind.max_instances: count <= most, [kind.name])
    slices = [kind.compute_slices for kind in kinds]
    problem.addConstraint(
        lambda *counts: (
            sum(count * each for count, each in zip(counts, slices))  # noqa: B905 - the solver's time counts
            <= gpu.compute_slices
        ),
        [kind.name for kind in kinds],
    )
    instances = [(kind.name, number) for kind in kinds for number in range(layout[kind.name])]
    for instance in instances:
        problem.addVariable(instance, list(gpu.profiles[instance[0]].starts))
    for index, one in enumerate(instances):
        for other in instances[:index]:
            sizes = gpu.profiles[one[0]].size, gpu.profiles[other[0]].size
            problem.addConstraint(lambda a, b, sizes=sizes: a + sizes[0] <= b or b + sizes[1] <= a, (one, other))
    return problem.getSolution() is not None


def bench_labels(folder: Path) -> None:
    """Labels predicted against labels found out."""
    refused = obstacle()
    if refused is not None:
        print(f"labels of nodes: NOT MEASURED, since the real program cannot be run here: {refused}", flush=True)
        return
    from tests.sandbox.real.feature_discovery import discover  # noqa: PLC0415 - needs what only tests need
    from tests.sandbox.real.test_labels import CASES  # noqa: PLC0415

    cases = CASES[:: len(CASES) // NODES][:NODES]
    program = find_built("device-plugin-v0.19", Progress()) / "gpu-feature-discovery"

    def predict() -> list[dict[str, str]]:
        return [gfd_labels(case.hardware, case.sharing, case.strategy) for case in cases]

    predict()  # warm caches and byte code
    pairs = []
    with GpuHost(folder / "node", find_library(Progress()), cases[0].machine()) as host:
        for _ in range(PAIRS):
            mine, theirs = seconds(predict), 0.0
            for case, predicted in zip(cases, predict(), strict=True):
                host.show(case.machine())
                text, found = device_plugin_config(case.sharing, case.strategy)[1], {}
                theirs += seconds(lambda: found.update(discover(host, program, text)[1]))  # noqa: B023 - called at once
                assert predicted.items() <= found.items(), f"{case}: the labels differ"
            pairs.append((mine, theirs))
    ratios = sorted(real / mine for mine, real in pairs)
    mine, real = (statistics.median(column) / NODES for column in zip(*pairs, strict=True))
    print(
        f"labels of {NODES} nodes           {statistics.median(ratios):.0f} times faster "
        f"(min {ratios[0]:.0f}, max {ratios[-1]:.0f}), "
        f"all agree   {mine * 1e6:.0f} µs against {real * 1000:.1f} ms a node",
        flush=True,
    )


@contextmanager
def previews(folder: Path, pools: int) -> Iterator[tuple[Engine, Callable[..., None]]]:
    """The engine of a stack of that many pools, and what previews it: ``run(folder of the program, *arguments)``."""
    name = f"bench{pools}"
    (folder / f"Pulumi.{name}.yaml").write_text(stack(pools))
    os.environ |= {"GPU_POOLS_SANDBOX_DIR": str(folder / "state"), "GPU_POOLS_STACKS_DIR": str(folder)}
    sandbox, tools = find_sandbox(name), find_tools(Progress(), only={"pulumi", "helm"})
    prepare(sandbox)
    engine = Engine(sandbox, tools, stand_ins.start(sandbox, tools, {}))
    command = [str(tools.pulumi), "preview", "--non-interactive", "--stack", name, "--config-file", str(sandbox.config_file)]

    def run(cwd: Path, *arguments: str) -> None:
        done = subprocess.run(
            [*command, *arguments], cwd=cwd, env=engine.environment(), check=False, capture_output=True, text=True
        )
        if done.returncode != 0:
            sys.exit(f"{cwd}: the preview failed:\n{done.stdout}{done.stderr}")

    try:
        engine.select_stack()
        yield engine, run
    finally:
        stand_ins.stop(sandbox)


def bench_preview(folder: Path, pools: int) -> None:
    """Preview our program against the bare one."""
    with previews(folder, pools) as (engine, run):
        recorded = json.loads(engine.output("preview", "--json"))
        states = (step.get("newState") or {} for step in recorded["steps"])
        # Their provider's kubeconfig is not known in a preview.
        bare = _write_bare(folder / f"bare{pools}", (one for one in states if not one.get("type", "").startswith(_PROVIDERS)))
        compare(f"preview of {pools} pools", lambda: run(ROOT), lambda: run(bare), "<= 1.15")


def bench_policies(folder: Path, pools: int) -> None:
    """Preview our program with the pack against without."""
    pack = ("--policy-pack", str(ROOT / "policies" / "pack"))
    with previews(folder, pools) as (_, run):
        compare(f"policies on {pools} pools", lambda: run(ROOT, *pack), lambda: run(ROOT), "<= 1.2")
        # Others who use the machine make the clock lie; what all processes of a preview computed is less touched by them.
        with_pack, without = (processor_seconds(action) for action in (lambda: run(ROOT, *pack), lambda: run(ROOT)))
        print(f"{'':<28} in processor time {with_pack / without:.2f}   {with_pack:.2f} s against {without:.2f} s", flush=True)


def _write_bare(folder: Path, resources: Iterable[dict[str, Any]]) -> Path:
    """A program that registers what ours has registered, as a preview or a state has it."""
    folder.mkdir()
    entries = [
        {
            "urn": one["urn"],
            "parent": one.get("parent", ""),
            "provider": one.get("provider", "").rpartition("::")[0],
            "type": one["type"],
            "name": one["urn"].rpartition("::")[2],
            "custom": one.get("custom", False),
            "inputs": one.get("inputs", {}),
        }
        for one in resources
        if one.get("type", _STACK) != _STACK
        and not one["urn"].rpartition("::")[2].startswith("default_")
        and not one.get("external")
    ]
    (folder / "resources.json").write_text(json.dumps(entries))
    (folder / "__main__.py").write_text(BARE)
    shutil.copy(ROOT / "Pulumi.yaml", folder)
    (folder / "venv").symlink_to(ROOT / "venv")
    (folder / "stacks").mkdir()
    return folder


def bench_up(folder: Path) -> None:
    """`make up` with nothing to change, against `pulumi up` of the same program, and of one that only registers."""
    os.environ["GPU_POOLS_SANDBOX_DIR"] = str(folder / "state")
    os.environ.pop("GPU_POOLS_STACKS_DIR", None)
    sandbox = find_sandbox("aks-dev")
    try:
        print(f"make up of aks-dev, programs built: {seconds(_make_up):.1f} s from nothing (aim < 15 min)", flush=True)
        engine = Engine(sandbox, find_tools(Progress(), only={"pulumi", "helm"}), stand_ins.attached(sandbox))
        bare = _write_bare(folder / "bare", engine.exported(show_secrets=True)["resources"])
        # Of the same state, but a copy: the bare program knows nothing of hooks and orders, and would write that down.
        folder_of_copy = folder / "copy" / "aks-dev"
        shutil.copytree(sandbox.folder, folder_of_copy, ignore=shutil.ignore_patterns("clusters", "cloud", "logs"))
        copied = replace(engine, sandbox=replace(sandbox, folder=folder_of_copy))
        for name, floor in (
            ("pulumi up alone", lambda: _up_alone(engine, ROOT)),
            ("pulumi up of a bare program", lambda: _up_alone(copied, bare)),
        ):
            compare(f"make up, unchanged / {name}", _make_up, floor, "make up <= 5 s")
            mine, least = processor_seconds(_make_up), processor_seconds(floor)
            print(f"{'':<28} in processor time {mine / least:.2f}   {mine:.2f} s against {least:.2f} s", flush=True)
    finally:
        commands.throw_away("aks-dev", Progress())


def _make_up() -> None:
    """Run `make up` of aks-dev as a user does; its green table or a failure is what it ends with."""
    done = subprocess.run(
        ["make", "--no-print-directory", "up", "STACK=aks-dev"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(f"make up failed:\n{done.stdout}{done.stderr}")


def _up_alone(engine: Engine, program: Path) -> None:
    """Run a program by `pulumi up` alone; what would change something fails."""
    engine.output("up", "--yes", "--skip-preview", "--expect-no-changes", "--suppress-permalink=true", cwd=program)


def bench_scale(folder: Path, pools: int) -> None:
    """Processor time by part of a preview, with and without the policy pack, and of `up`."""
    with previews(folder, pools) as (engine, _):
        command = [str(engine.tools.pulumi), "preview", "--non-interactive", "--stack", engine.sandbox.stack]
        command += ["--config-file", str(engine.sandbox.config_file)]
        pack = ["--policy-pack", str(ROOT / "policies" / "pack")]
        for name, arguments in (("preview", command), ("preview with the policy pack", [*command, *pack])):
            measured = measure(arguments, cwd=ROOT, environment=engine.environment(), servers_of=engine.sandbox.folder)
            _show_parts(f"{name} of {pools} pools on AKS", measured)
    name = f"nodes{pools}"
    (folder / f"Pulumi.{name}.yaml").write_text(stack_for_nodes(pools))
    environment = {**os.environ, NODE_PROGRAMS: RULES}
    try:
        for what in ("from nothing", "unchanged"):
            command = [sys.executable, "-m", "sandbox", "up", name]
            measured = measure(command, cwd=ROOT, environment=environment, servers_of=folder)
            _show_parts(f"up of {pools} pools of a cluster that is there, {what}", measured)
    finally:
        commands.throw_away(name, Progress())


def _show_parts(what: str, measured: Measured) -> None:
    total = sum(measured.parts.values()) + measured.unread
    print(f"{what}: {total:.1f} s of processor time, {measured.seconds:.0f} s by the clock\n{measured.table()}", flush=True)


def main(what: str, pools: int) -> None:
    """Run the benchmarks whose name starts with `what`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "plan".startswith(what):
            bench_plan(folder)
        if "mig".startswith(what):
            bench_mig()
        if "labels".startswith(what):
            bench_labels(folder)
        if "preview".startswith(what):
            for count in (3, 30, 300):
                bench_preview(folder, count)
        if "policies".startswith(what):
            for count in (3, 30, 300):
                bench_policies(folder, count)
        if "up".startswith(what):
            bench_up(folder)
        if what and "scale".startswith(what):
            bench_scale(folder, pools)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "", int(sys.argv[2]) if len(sys.argv) > 2 else MOST_POOLS)
