"""``python -m gpu_pools plan``: exit codes, the JSON that machines read, the table that people read."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gpu_pools import __version__
from gpu_pools.cli.main import main
from gpu_pools.text.pages import SHIPPED
from tests.patience import scaled
from tests.tiers import these
from tests.unit.stacks import A100, GONE, TWO_A100, aks

ROOT = Path(__file__).parents[2]
STACK = aks(
    sharing={
        "notebooks": {"timeSlicing": {"replicas": 4}},
        "training": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}},
        "inference": {"mps": {"replicas": 10}},
    },
    pools=[
        {
            "name": "nb",
            "vmSize": TWO_A100,
            "nodes": {"min": 0, "max": 4},
            "sharing": "notebooks",
            "taints": ["sku=gpu:NoSchedule"],
        },
        {"name": "tr", "vmSize": A100, "count": 2, "sharing": "training"},
        {"name": "inf", "vmSize": A100, "count": 1, "sharing": "inference"},
    ],
)
POOL_KEYS = {
    "name",
    "platform",
    "gpuModel",
    "gpusPerNode",
    "nodes",
    "sharing",
    "configKey",
    "migConfigKey",
    "labels",
    "taints",
    "advertises",
    "nvml",
    "warnings",
}


@pytest.fixture
def stack(tmp_path: Path) -> str:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(STACK, encoding="utf-8")
    return str(path)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    path = tmp_path / "Pulumi.bad.yaml"
    path.write_text(aks({"sharing": "hole", "count": -1}), encoding="utf-8")
    return str(path)


def _json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    captured = capsys.readouterr()
    assert captured.err == ""
    document: dict[str, Any] = json.loads(captured.out)
    return document


def test_json_of_a_good_stack(stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", stack, "--json"]) == 0
    document = _json(capsys)
    assert set(document) == {"pools", "errors"}
    assert document["errors"] == []
    assert [pool["name"] for pool in document["pools"]] == ["nb", "tr", "inf"]
    for pool in document["pools"]:
        assert set(pool) >= POOL_KEYS
        assert pool["platform"] == "aks"
    nb, tr, inf = document["pools"]
    assert nb["gpuModel"] == "a100-80gb"
    assert nb["gpusPerNode"] == 2
    assert nb["nodes"] == {"min": 0, "max": 4}
    assert nb["sharing"] == {
        "name": "notebooks",
        "strategy": "timeSlicing",
        "replicas": 4,
        "renameByDefault": False,
        "failRequestsGreaterThanOne": True,
    }
    assert nb["labels"]["nvidia.com/device-plugin.config"] == nb["configKey"]
    assert nb["taints"] == ["sku=gpu:NoSchedule"]
    assert nb["advertises"] == {"nvidia.com/gpu": 8}
    assert nb["nvml"]["count"] == 2
    assert nb["warnings"]
    assert tr["sharing"] == {"name": "training", "strategy": "mig", "layout": {"2g.20gb": 2, "3g.40gb": 1}}
    assert tr["migConfigKey"] == tr["labels"]["nvidia.com/mig.config"]
    assert tr["advertises"] == {"nvidia.com/mig-2g.20gb": 2, "nvidia.com/mig-3g.40gb": 1}
    assert inf["nvml"]["mps"]["replicas"] == 10


def test_json_of_a_bad_stack(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", bad, "--json"]) == 2
    document = _json(capsys)
    assert document["pools"] == []
    assert [set(error) for error in document["errors"]] == [{"path", "message", "allowed", "remedy"}] * 2
    assert [error["path"] for error in document["errors"]] == ["gpu-pools:pools[0].count", "gpu-pools:pools[0].sharing"]


def test_json_tells_a_mig_layout_per_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.yaml"
    groups = [{"index": 0, "layout": {"1g.10gb": 7}}, {"index": [1], "layout": {}}]
    sharing = {"h": {"mig": {"gpus": groups, "timeSlicing": {"replicas": 2}}}}
    path.write_text(aks({"vmSize": TWO_A100}, sharing=sharing), encoding="utf-8")
    assert main(["plan", str(path), "--json"]) == 0
    assert _json(capsys)["pools"][0]["sharing"] == {
        "name": "h",
        "strategy": "mig",
        "gpus": [{"index": [0], "layout": {"1g.10gb": 7}}, {"index": [1], "layout": {}}],
        "timeSlicing": {"replicas": 2, "renameByDefault": False, "failRequestsGreaterThanOne": True},
    }


def test_the_table_for_people(stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", stack]) == 0
    captured = capsys.readouterr()
    pools, cluster, requests, last, ids = captured.out.split("\n\n")
    header, rule, nb, tr, inf = pools.splitlines()
    assert header.split("  ")[0] == "POOL"
    assert set(rule) == {"-", " "}
    assert [cell.strip() for cell in nb.split("  ") if cell.strip()][:5] == [
        "nb",
        "0-4",
        "2x a100-80gb",
        "time-slicing 4",
        "gpu 8",
    ]
    assert nb.endswith("sku=gpu:NoSchedule")
    assert "MIG 2x 2g.20gb + 3g.40gb" in tr
    assert "mig-2g.20gb 2, mig-3g.40gb 1" in tr
    assert "MPS 10" in inf
    driver, strategy = "driver and toolkit: operator (595.91.07)", "MIG strategy: mixed on MIG nodes, single on all others"
    assert cluster == f"platform aks; {driver}; {strategy}"
    assert [line.split() for line in requests.splitlines()[2:]] == [
        ["nb", "nvidia.com/gpu", "1", "requests.nvidia.com/gpu"],
        ["tr", "nvidia.com/mig-2g.20gb", "2", "requests.nvidia.com/mig-2g.20gb"],
        ["tr", "nvidia.com/mig-3g.40gb", "1", "requests.nvidia.com/mig-3g.40gb"],
        ["inf", "nvidia.com/gpu", "1", "requests.nvidia.com/gpu"],
    ]
    assert last
    assert all(line.startswith("warning: ") for line in last.splitlines())
    assert captured.err == ""
    assert "(docs/reference/rules.md#" in ids


def test_the_columns_of_the_table_line_up(stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", stack])
    lines = capsys.readouterr().out.splitlines()[:5]
    starts = [index for index, letter in enumerate(lines[1]) if letter == "-" and (index == 0 or lines[1][index - 1] == " ")]
    for line in lines:
        for start in starts[1:]:
            assert line[start - 2 : start] == "  "
            assert line[start] != " "


def test_a_bad_stack_is_told_on_stderr(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", bad]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("2 problems in the stack file; nothing was created or changed.\n")
    assert "Traceback" not in captured.err


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(tmp_path / "none.yaml"), "--json"]) == 2
    (error,) = _json(capsys)["errors"]
    assert error["path"] == str(tmp_path / "none.yaml")
    assert error["message"] == "there is no such file"


def test_planning_needs_no_more_of_the_cluster_than_its_platform(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(aks(cluster={"name": GONE, "location": GONE, "systemPool": GONE}), encoding="utf-8")
    assert main(["plan", str(path)]) == 0


@pytest.mark.parametrize("arguments", [[], ["plan"], ["plan", "a", "b"], ["explain", "x"], ["plan", "x", "--yaml"]], ids=str)
def test_a_wrong_command_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: gpu-pools")


def _run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpu_pools", *arguments], cwd=ROOT, text=True, check=False, timeout=scaled(30), **options
    )


def test_as_a_program(stack: str, bad: str) -> None:
    good = _run("plan", stack, "--json", capture_output=True)
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)["errors"] == []
    assert _run("plan", bad, capture_output=True).returncode == 2


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["table", "json"])
def test_a_reader_that_goes_away_is_no_error(stack: str, more: list[str]) -> None:
    """``python -m gpu_pools plan … | head -1`` prints no traceback."""
    program = subprocess.Popen(
        [sys.executable, "-m", "gpu_pools", "plan", stack, *more], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    program.stdout.close()
    with program.stderr:
        assert program.stderr.read() == b""
    assert program.wait(timeout=scaled(30)) == 141


# --- whatever the streams are -----------------------------------------------------------------------------------------------

FILE = "tests/unit/data/aks-time-slicing-map.yaml"
MIG_FILE = "tests/unit/data/mig-parted-a100-h100.yaml"
COMMANDS = [
    ("plan", "stacks/Pulumi.magnum-dev.yaml"),
    ("layouts", "a30-24gb"),
    ("change", "a30-24gb", "none", "1g.6gb:4"),
    ("check", MIG_FILE),
    ("import", FILE),
]


def _shell(script: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command under a shell that closes or redirects its streams; ``$@`` is the command."""
    return subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "gpu_pools", *arguments],
        cwd=ROOT,
        encoding="utf-8",
        check=False,
        timeout=scaled(60),
        capture_output=True,
        **options,
    )


@pytest.mark.parametrize("command", these([(one,) for one in COMMANDS], [(COMMANDS[0],)]), ids=lambda command: command[0])
def test_closed_streams_change_no_exit_code(command: tuple[str, ...]) -> None:
    whole = _shell('"$@"', *command)
    closed = _shell('"$@" >&- 2>&-', *command)
    assert (closed.returncode, closed.stderr) == (whole.returncode, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("command", these([(one,) for one in COMMANDS], [(COMMANDS[0],)]), ids=lambda command: command[0])
def test_output_that_cannot_be_written_is_exit_74(command: tuple[str, ...]) -> None:
    full = _shell('"$@" >/dev/full', *command)
    assert full.returncode == 74
    assert full.stderr.splitlines()[-1].startswith("the output cannot be written: ")


@pytest.mark.parametrize("command", ["check", "import"])
def test_letters_that_the_terminal_lacks_are_escaped(command: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text('version: v1\n"schl\u00fcssel": 1\n', encoding="utf-8")
    ran = _shell('PYTHONIOENCODING=ascii "$@"', command, str(path))
    assert "schl\\xfcssel" in ran.stdout
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("command", [COMMANDS[0], *COMMANDS[3:]], ids=lambda command: command[0])
def test_a_dash_is_the_standard_input(command: tuple[str, str]) -> None:
    name, path = command
    piped = _shell('"$@"', name, "-", input=(ROOT / path).read_text(encoding="utf-8"))
    named = _shell('"$@"', name, path)
    assert piped.returncode == named.returncode
    assert piped.stdout == named.stdout.replace(path, "-")


@pytest.mark.parametrize("command", ["plan", "check", "import"])
def test_a_closed_or_empty_standard_input_is_refused(command: str) -> None:
    for script in ('"$@" - <&-', '"$@" - </dev/null'):
        ran = _shell(script, command)
        assert ran.returncode == 2
        assert "-: " in ran.stderr
        assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("ends", ["\r\n", "\r"])
def test_line_ends_of_other_systems_and_a_byte_order_mark_change_nothing(ends: str) -> None:
    for name, path in (COMMANDS[0], *COMMANDS[3:]):
        text = "\ufeff" + (ROOT / path).read_text(encoding="utf-8").replace("\n", ends)
        assert _shell('"$@"', name, "-", input=text).stdout == _shell('"$@"', name, path).stdout.replace(path, "-")


def test_a_stack_file_is_told_apart_from_a_config() -> None:
    ran = _shell('"$@"', "check", "stacks/Pulumi.byo.yaml")
    assert ran.returncode == 2
    assert "is a stack file" in ran.stderr
    assert "python -m gpu_pools plan stacks/Pulumi.byo.yaml" in ran.stderr


KEYS = {
    "models": frozenset({"key", "architecture", "memoryMiB", "mig", "products"}),
    "sizes": frozenset({"name", "gpus", "gpuModel", "mig", "vcpus", "memoryGiB"}),
}


@pytest.mark.parametrize("command", KEYS)
def test_what_a_stack_file_can_name_is_listed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 0
    table = capsys.readouterr().out.splitlines()
    assert main([command, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)[command]
    assert len(table) == len(listed) + 2
    assert {frozenset(one) for one in listed} == {KEYS[command]}
    assert main([command, "A100"]) == 0
    assert 0 < len(capsys.readouterr().out.splitlines()) < len(table)
    assert main([command, "moon"]) == 2
    assert f'none of the {command} has "moon" in it' in capsys.readouterr().err


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert (caught.value.code, capsys.readouterr().out) == (0, f"gpu-pools {__version__}\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    commands = (
        "plan",
        "expect",
        "models",
        "sizes",
        "layouts",
        "change",
        "images",
        "check",
        "import",
        "changes",
        "evidence",
        "usage",
        "dashboards",
    )
    assert [one for one in (*commands, "offline", "max-more-gpus") if one not in script] == []


def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    words = "COMP_WORDS=(gpu-pools lay); COMP_CWORD=1"
    asked = f". {tmp_path}/script; {words}; _shtab_gpu_pools gpu-pools lay gpu-pools; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False, timeout=scaled(30))
    assert done.stdout == "layouts\n", done.stderr


def test_the_wheel_has_every_package() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    # pathlib does not follow the links to the two that are at the top level.
    above = {"gpu_pools": "", "components": "gpu_pools.", "policies": "gpu_pools."}
    found = [
        prefix + str(path.parent.relative_to(ROOT)).replace("/", ".")
        for root, prefix in above.items()
        for path in (ROOT / root).rglob("__init__.py")
    ]
    # Folders of data, which setuptools would warn of otherwise: charts, levels, and the pages that messages name.
    data = {"gpu_pools.stack.charts", "gpu_pools.policies.levels"}
    data |= {"gpu_pools.docs", *(f"gpu_pools.docs.{page.partition('/')[0]}" for page in SHIPPED if "/" in page)}
    assert sorted(told) == sorted([*found, *data])


def test_the_wheel_has_the_pages_that_messages_name() -> None:
    package_data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]
    named = {
        f"{package.removeprefix('gpu_pools.docs').strip('.')}/{page}"
        for package, pages in package_data.items()
        if package.startswith("gpu_pools.docs.")
        for page in pages
    }
    assert {"mps-signal.yaml", *named} == set(SHIPPED)
