"""What others use: the wheel in an environment of their own, the components from YAML, TypeScript and Go, the policy pack alone.

The provider is the one of the installed wheel, started by the real engine. Clouds and cluster are the stand-ins, so most are
previews. The language hosts: YAML's is built (or pulumi's own), TypeScript and Go need none, since their programs run by
themselves; their SDKs are written by the engine's own generators (tests/packages/go/generate).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.cluster import control_plane as clusters
from sandbox.stack import stand_ins
from sandbox.stack.engine import Engine
from sandbox.stack.state import Sandbox, prepare
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built, find_tools
from tests.engine.pack_preview import Preview
from tests.policies.programs import BAD, GOOD
from tests.tiers import at_night
from tests.wheels import build_wheel, install_alone, install_beside_the_tests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

pytestmark = [pytest.mark.engine, pytest.mark.programs]

PROJECT = Path(__file__).resolve().parents[2]
PROGRAMS = PROJECT / "tests" / "packages"
LONGEST, LONGEST_BUILD = 300, 900


def _run(
    command: Sequence[str | Path], folder: Path, environment: dict[str, str] | None = None, longest: int = LONGEST
) -> tuple[int, str]:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=longest,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the wheel, and finds what it depends on in that of the tests."""
    return install_beside_the_tests(tmp_path_factory.mktemp("installed"), wheel)


@pytest.fixture(scope="module")
def around(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of an engine with stand-ins for the clouds, on whose PATH is the installed provider."""
    folder = tmp_path_factory.mktemp("clouds")
    file = folder / "Pulumi.test.yaml"
    file.write_text("config: {}\n")
    sandbox = Sandbox("test", folder / "test", file)
    prepare(sandbox)
    tools = find_tools(Progress(), only={"pulumi", "helm"})
    bundled = (tools.pulumi.parent / "pulumi-language-yaml").exists()
    hosts = [] if bundled else [find_built("pulumi-language-yaml", Progress())]
    engine = Engine(sandbox, tools, stand_ins.start(sandbox, tools, {}))
    environment = engine.environment()
    environment.pop("PYTHONPATH", None)
    try:
        yield {**environment, "PATH": os.pathsep.join([*map(str, hosts), str(installed / "bin"), environment["PATH"]])}
    finally:
        stand_ins.stop(sandbox)
        for cluster in sandbox.cluster_folders():
            clusters.erase(cluster)


_DIGEST = "from gpu_pools.verifier import archive; print(archive.__file__, archive.digest())"


def test_the_wheel_stands_alone(installed: Path, tmp_path: Path) -> None:
    python = installed / "bin" / "python"
    code, text = _run([python, "-m", "gpu_pools", "plan", PROJECT / "stacks" / "Pulumi.aks-dev.yaml"], tmp_path)
    assert code == 0, text
    code, text = _run([python, "-c", _DIGEST], tmp_path)
    assert code == 0, text
    file, digest = text.split()
    assert Path(file).is_relative_to(installed)
    # The program on the nodes must not depend on how the components were installed.
    assert digest == _run([sys.executable, "-c", _DIGEST], PROJECT)[1].split()[1]


@pytest.mark.sweep
def test_a_program_may_have_packages_of_the_same_names(installed: Path, tmp_path: Path) -> None:
    for name in ("components", "policies", "changes", "plan", "stack"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"own = {name!r}\n")
    program = (
        "import components, policies, changes, plan, stack; from gpu_pools.components import aks, platform; print(components.own)"
    )
    code, text = _run([installed / "bin" / "python", "-c", program], tmp_path)
    assert (code, text) == (0, "components\n")


@pytest.mark.sweep
def test_a_type_checker_sees_the_wheel_s_types(wheel: Path, tmp_path: Path) -> None:
    # Without Pulumi's own packages, which take a minute to check.
    python = install_alone(tmp_path / "venv", wheel) / "bin" / "python"
    shutil.copy(PROGRAMS / "typed.py", tmp_path)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        python,
        "--cache-dir",
        tmp_path / "cache",
        "typed.py",
    ]
    code, text = _run(command, tmp_path)
    errors = [line.split(": error: ")[0] for line in text.splitlines() if ": error: " in line]
    assert code == 1, text
    assert errors == [f"typed.py:{len((tmp_path / 'typed.py').read_text().splitlines())}"]


@pytest.fixture
def yaml_program(around: dict[str, str], tmp_path: Path) -> Path:
    shutil.copytree(PROGRAMS / "yaml", tmp_path / "program")
    code, text = _run(["pulumi", "stack", "select", "--create", "test", "--non-interactive"], tmp_path / "program", around)
    assert code == 0, text
    return tmp_path / "program"


_PREVIEW = ("pulumi", "preview", "--stack", "test", "--non-interactive", "--color", "never")


@pytest.mark.sweep
def test_a_yaml_program_uses_the_components(yaml_program: Path, around: dict[str, str]) -> None:
    code, text = _run(_PREVIEW, yaml_program, around)
    assert code == 0, text
    assert "azure-native:containerservice:AgentPool gpu-gpu-pool create" in text
    assert "kubernetes:helm.sh/v3:Release gpu-operator-release create" in text
    assert "nvidia.com/gpu: 4" in text


@pytest.mark.sweep
def test_what_is_wrong_in_a_yaml_program_is_told_by_its_place(yaml_program: Path, around: dict[str, str]) -> None:
    file = yaml_program / "Pulumi.yaml"
    file.write_text(file.read_text().replace("replicas: 4", "replicas: 1"))
    code, text = _run(_PREVIEW, yaml_program, around)
    assert code != 0, text
    assert "property sharing.chosen.timeSlicing.replicas " in text
    assert "at least 2" in text
    assert "Traceback" not in text
    assert "components/platform.py" not in text


@pytest.mark.sweep
def test_pools_and_sharing_are_objects_in_a_yaml_program(around: dict[str, str], tmp_path: Path) -> None:
    shutil.copytree(PROGRAMS / "yaml-pools", tmp_path / "program")
    _run(["pulumi", "stack", "select", "--create", "pools", "--non-interactive"], tmp_path / "program", around)
    preview = [*_PREVIEW]
    preview[preview.index("test")] = "pools"
    code, text = _run(preview, tmp_path / "program", around)
    assert code == 0, text
    # The second pool renames what the first advertises, in both.
    assert 'strategy: "mixed"' in text
    assert "nvidia.com/mig-1g.10gb: 7" in text
    assert "azure-native:containerservice:AgentPool firstNodes-pool create" in text


def _go(arguments: Sequence[str | Path], folder: Path) -> None:
    """Go, by its go.sum alone; the first build compiles the generators, which takes minutes.

    Raises:
        Skipped: where Go is missing, or modules cannot be had.
    """
    program = shutil.which("go")
    if program is None:
        pytest.skip("there is no Go on this machine")
    code, text = _run([program, *arguments], folder, {**os.environ, "GOFLAGS": "-mod=readonly"}, longest=LONGEST_BUILD)
    if code != 0 and re.search(r"dial tcp|no such host|i/o timeout|module lookup disabled", text):
        pytest.skip(f"Pulumi's modules for Go cannot be had here: {text.strip().splitlines()[-1]}")
    assert code == 0, text


@pytest.fixture(scope="module")
def golang(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the program in Go, with the SDKs of the schema in its folder sdk/."""
    folder = tmp_path_factory.mktemp("go") / "program"
    shutil.copytree(PROGRAMS / "go", folder)
    # go.mod names the SDK as a module; the generator leaves making it one to `pulumi package add`.
    (folder / "sdk" / "go" / "gpupools").mkdir(parents=True)
    shutil.copy(PROGRAMS / "go" / "sdk.mod", folder / "sdk" / "go" / "gpupools" / "go.mod")
    _go(["build", "-o", "generator", "./generate"], folder)
    code, text = _run([folder / "generator", PROJECT / "components" / "schema.json", folder / "sdk"], folder)
    assert code == 0, text
    return folder


@pytest.fixture(scope="module")
def go_program(golang: Path) -> Path:
    """The program, compiled with all of the SDK."""
    _go(["build", "-o", "compiled", "./program"], golang)
    return golang / "compiled"


@at_night("it takes six minutes")
@pytest.mark.sweep
def test_a_go_program_has_pools_and_sharing_as_objects(go_program: Path, around: dict[str, str], tmp_path: Path) -> None:
    code, text = _run([go_program, "preview", "4"], tmp_path, around)
    assert code == 0, text
    assert "azure-native:containerservice:AgentPool nodes-pool create" in text
    code, text = _run([go_program, "up", "4"], tmp_path, around)
    assert code == 0, text
    assert text.strip().splitlines()[-1] == '{"nvidia.com/gpu":4}'
    code, text = _run([go_program, "preview", "1"], tmp_path, around)
    assert code == 1, text
    assert "replicas" in text
    assert "the device plugin crashes on fewer than 2" in text
    assert "components/sharing.py" not in text
    code, text = _run([go_program, "destroy", "4"], tmp_path, around)
    assert code == 0, text


@pytest.fixture(scope="module")
def typescript(golang: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The TypeScript program, compiled with the SDK."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm on this machine")
    folder = tmp_path_factory.mktemp("typescript") / "program"
    shutil.copytree(PROGRAMS / "typescript", folder)
    shutil.copytree(golang / "sdk" / "nodejs", folder / "sdk")
    code, text = _run([npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder)
    if code != 0:
        pytest.skip(f"Pulumi's SDK for TypeScript cannot be installed here: {text.strip().splitlines()[-1]}")
    code, text = _run(["node", "node_modules/typescript/bin/tsc", "-p", "."], folder)
    assert code == 0, text
    return folder


@pytest.mark.sweep
@pytest.mark.parametrize(("instances", "code"), [("7", 0), ("8", 1)])
def test_a_typescript_program_uses_the_components(typescript: Path, around: dict[str, str], instances: str, code: int) -> None:
    ended, text = _run(["node", "index.js", instances], typescript, around)
    assert ended == code, text
    if code == 0:
        assert "nvidia.com/gpu: 7" in text
        assert "nvidia.com/gpu: 4" in text
        assert "azure-native:containerservice:AgentPool nodes-pool create" in text
    else:
        assert "property sharing.chosen.mig.layout " in text
        assert "components/platform.py" not in text


@pytest.fixture
def own_network(around: dict[str, str], tmp_path: Path) -> Callable[..., str]:
    """Runs the engine on the example of that name: a network and a cluster that are the program's own."""
    shutil.copytree(PROJECT / "examples" / "own-network", tmp_path / "own-network")

    def engine(*arguments: str) -> str:
        command = ["pulumi", *arguments, "--stack", "own", "--non-interactive"]
        code, text = _run(command, tmp_path / "own-network", around)
        assert code == 0, text
        return text

    engine("stack", "init")
    return engine


def _renamed(program: Path) -> None:
    """Operator and pools under other names, with aliases, as who moves them would write it."""
    text = program.read_text()
    for before, after in (
        ('GpuOperator("ml-operator", {"pools": pools}, inside(features))', 'GpuOperator("gpu", {"pools": pools}, moved())'),
        ('AksGpuNodePool(f"ml-{name}", arguments, after,', 'AksGpuNodePool(f"gpu-{name}", arguments, also(after, name),'),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    options = """
def moved():
    alias = pulumi.ResourceOptions(aliases=[pulumi.Alias(name="ml-operator")])
    return pulumi.ResourceOptions.merge(inside(features), alias)


def also(given, name):
    alias = pulumi.ResourceOptions(aliases=[pulumi.Alias(name=f"ml-{name}")], transforms=[TAGGED] if config.get("tagged") else [])
    return pulumi.ResourceOptions.merge(given, alias)


def TAGGED(args):
    if args.type_.endswith(":AgentPool"):
        args.props["tags"] = {"costs": "ml"}
    return pulumi.ResourceTransformResult(props=args.props, opts=args.opts)


features ="""
    program.write_text(text.replace("\nfeatures =", options))


@pytest.mark.sweep
def test_an_example_comes_up_stays_and_goes(own_network: Callable[..., str], tmp_path: Path) -> None:
    assert "create" in json.loads(own_network("preview", "--json"))["changeSummary"]
    own_network("up", "--yes", "--skip-preview")
    state = json.loads(own_network("stack", "export"))["deployment"]["resources"]
    pools = {one["inputs"]["agentPoolName"]: one["inputs"] for one in state if one["type"].endswith(":AgentPool")}
    (cluster,) = [one["inputs"] for one in state if one["type"].endswith(":ManagedCluster")]
    subnet = cluster["agentPoolProfiles"][0]["vnetSubnetID"]
    assert subnet.endswith("/subnets/nodes")
    assert {name: pool["vnetSubnetID"] for name, pool in pools.items()} == {"nb": subnet, "train": subnet}
    outputs = json.loads(own_network("stack", "output", "--json"))
    assert outputs["advertises"] == {"nb": {"nvidia.com/gpu": 4}, "train": {"nvidia.com/gpu": 2}}
    assert outputs["kubeconfig"] == "[secret]"
    assert set(json.loads(own_network("preview", "--json"))["changeSummary"]) == {"same", "read"}
    _renamed(tmp_path / "own-network" / "__main__.py")
    assert set(json.loads(own_network("preview", "--json"))["changeSummary"]) == {"same", "read"}
    own_network("config", "set", "tagged", "yes")
    transformed = json.loads(own_network("preview", "--json"))
    assert [one["urn"].rpartition("::")[2] for one in transformed["steps"] if one["op"] == "update"] == [
        "gpu-nb-pool",
        "gpu-train-pool",
    ]
    own_network("destroy", "--yes", "--skip-preview")
    assert "resources" not in json.loads(own_network("stack", "export"))["deployment"]


@pytest.fixture
def platform(around: dict[str, str], tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Runs the engine on a program with a whole platform behind a resource of its own."""
    shutil.copytree(PROGRAMS / "platform", tmp_path / "platform")

    def engine(*arguments: str) -> tuple[int, str]:
        command = ["pulumi", *arguments, "--stack", "kept", "--non-interactive", "--color", "never"]
        return _run(command, tmp_path / "platform", around)

    code, text = engine("stack", "init")
    assert code == 0, text
    return engine


def _made(engine: Callable[..., tuple[int, str]]) -> dict[str, dict[str, Any]]:
    """Name -> what the engine manages: no component, no provider, nothing that is only read."""
    code, text = engine("stack", "export")
    assert code == 0, text
    state = json.loads(text)["deployment"].get("resources", [])
    managed = [one for one in state if one["custom"] and not one.get("external") and ":providers:" not in one["type"]]
    return {one["urn"].rpartition("::")[2]: one for one in managed}


@at_night("it takes six minutes")
@pytest.mark.sweep
def test_a_platform_waits_for_what_it_depends_on_and_keeps_all_of_it_while_protected(
    platform: Callable[..., tuple[int, str]],
) -> None:
    def ok(*arguments: str) -> str:
        code, text = platform(*arguments)
        assert code == 0, text
        return text

    # What it depends on cannot be made, so nothing of it is.
    ok("config", "set", "location", "nowhere")
    code, text = platform("up", "--yes", "--skip-preview")
    assert code != 0, text
    assert _made(platform) == {}

    ok("config", "set", "location", "westeurope")
    ok("config", "set", "protected", "true")
    ok("up", "--yes", "--skip-preview")
    before = _made(platform)
    first = before.pop("first")
    assert {*before} >= {"gpu-cluster", "gpu-nb-pool", "gpu-train-pool", "gpu-operator-release", "gpu-nb-verification-verifier"}
    assert {name for name, one in before.items() if not one.get("protect")} == set()
    assert {name for name, one in before.items() if first["urn"] not in one["dependencies"]} == set()

    # Nothing goes, neither all of it nor a pool.
    for arguments in (("destroy",), ("config", "set", "without", "train"), ("up",)):
        if arguments[0] == "config":
            ok(*arguments)
            continue
        code, text = platform(*arguments, "--yes", "--skip-preview")
        assert code != 0, text
        assert "protect" in text
        assert set(_made(platform)) >= set(before)
    # What is gone leaves the state with a refresh.
    ok("refresh", "--yes", "--skip-preview")
    assert set(_made(platform)) >= set(before)

    # What is not declared any more stays protected; so first the protection goes, then the pool.
    ok("config", "set", "protected", "false")
    code, text = platform("up", "--yes", "--skip-preview")
    assert code != 0, text
    assert "gpu-train-pool" in _made(platform)
    ok("config", "rm", "without")
    ok("up", "--yes", "--skip-preview")
    assert {name for name, one in _made(platform).items() if one.get("protect")} == set()
    ok("destroy", "--yes", "--skip-preview")
    assert _made(platform) == {}


def test_the_pack_of_the_wheel_judges_programs_of_others(installed: Path, tmp_path: Path) -> None:
    (pack,) = installed.glob("lib/python*/site-packages/gpu_pools/policies")
    engine = Preview(tmp_path / "project", pack)
    stopped = engine.of(BAD["pool-taints-tolerated"][0])
    assert [(one.rule, one.level) for one in stopped.findings] == [("pool-taints-tolerated", "mandatory")]
    assert stopped.code != 0, stopped.text
    assert engine.of(GOOD["operator, pools and configs"]).code == 0
