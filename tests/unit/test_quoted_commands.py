"""Commands that the project's texts quote: whoever copies one is understood by the program.

All texts of the product are read off its source. A command of ours is parsed by the real parser, and a target is looked up in
the Makefile. Of the programs of others it is known which flags a command takes and which it needs. In a remedy a command must be
whole; elsewhere it may be a mere name. In backticks all of it is checked; without them only its flags, since words may follow.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import re
import shlex
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from gpu_pools.cli.main import _parser
from gpu_pools.verifier.causes import CAUSES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
#: Stands for what is put into a text.
_VALUE: Final = "VALUE"
_PROGRAMS: Final = (
    "python -m gpu_pools",
    "gpu-pools",
    "pulumi",
    "kubectl",
    "make",
    "az",
    "openstack",
    "helm",
    "docker",
    "skopeo",
)
#: Keywords and modules whose texts are remedies.
_REMEDIES: Final = frozenset({"remedy", "action"})
_ALL_REMEDIES: Final = frozenset({"gpu_pools/observing/alerts.py"})


@dataclass(frozen=True)
class Known:
    """A command of another program.

    Attributes:
        flags: that it takes, of those that texts may quote.
        needs: flags that it refuses to run without.
        words: how many arguments it needs besides.
    """

    flags: str = ""
    needs: str = ""
    words: int = 0


_STACK: Final = "--stack --yes"
#: Pulumi v3.259.0, `pulumi COMMAND --help`.
_PULUMI: Final = {
    "up": Known(f"{_STACK} --refresh --target --diff"),
    "preview": Known(f"{_STACK} --json --diff --refresh"),
    "refresh": Known(f"{_STACK} --json --preview-only --target"),
    "destroy": Known(_STACK),
    "import": Known(f"{_STACK} --file --generate-code", "--file"),
    "config set": Known("--stack --secret --path --plaintext", words=1),
    "stack init": Known("--stack"),
    "stack ls": Known("--all --json"),
    "stack output": Known("--stack --json"),
    "stack export": Known("--stack --file"),
    "stack import": Known("--stack --file"),
    "state delete": Known(f"{_STACK} --all --force"),
    "whoami": Known("--verbose"),
}
_CLUSTER_WIDE: Final = "-n --namespace -l --selector -o --output"
#: kubectl's reference (kubernetes.io/docs/reference/kubectl/generated) of Kubernetes v1.36.
_KUBECTL: Final = {
    "annotate": Known("--overwrite -n --namespace", words=3),
    "apply": Known("-f --filename -n --namespace", "-f"),
    "delete": Known("-n --namespace", words=2),
    "describe": Known(_CLUSTER_WIDE, words=1),
    "get": Known(f"{_CLUSTER_WIDE} -A --all-namespaces -L --label-columns", words=1),
    "label": Known("--overwrite -n --namespace", words=3),
    "logs": Known("-n --namespace -l --selector -c --container --all-containers"),
    "port-forward": Known("-n --namespace", words=2),
}
_GROUP: Final = "-g --resource-group -n --name"
_READ: Final = "--query -o --output"
#: Azure CLI's reference (learn.microsoft.com/cli/azure).
_AZ: Final = {
    "login": Known(),
    "account list-locations": Known(_READ),
    "account set": Known("-s --subscription", "--subscription"),
    "acr list": Known(_READ),
    "ad group show": Known(f"-g --group {_READ}", "--group"),
    "aks command invoke": Known(_GROUP),
    "aks get-versions": Known(f"-l --location {_READ}", "--location"),
    "aks nodepool list": Known(f"-g --resource-group --cluster-name {_READ}", "--resource-group --cluster-name"),
    "aks nodepool show": Known(f"{_GROUP} --cluster-name {_READ}", "--name"),
    "aks show": Known(f"{_GROUP} {_READ}"),
    "aks start": Known(_GROUP, "--resource-group --name"),
    "aks update": Known(f"{_GROUP} --enable-azure-monitor-metrics --azure-monitor-workspace-resource-id"),
    "aks update-credentials": Known(f"{_GROUP} --reset-service-principal"),
    "capacity reservation group list": Known(_READ),
    "feature register": Known("--namespace -n --name", "--namespace --name"),
    "identity list": Known(_READ),
    "monitor account list": Known(_READ),
    "monitor action-group list": Known(_READ),
    "monitor log-analytics workspace list": Known(_READ),
    "network vnet subnet list": Known(f"-g --resource-group --vnet-name {_READ}", "--resource-group --vnet-name"),
    "resource list": Known(f"--resource-type {_READ}"),
    "vm host group list": Known(_READ),
    "vm list-skus": Known(f"-l --location -r --resource-type {_READ}"),
}
#: python-openstackclient, and python-magnumclient's osc/v1.
_OPENSTACK: Final = {
    "coe cluster config": Known(words=1),
    "coe cluster list": Known("-f --format"),
    "coe cluster resize": Known("--nodegroup", words=2),
    "coe cluster show": Known("-f --format", words=1),
    "coe nodegroup list": Known("-f --format", words=1),
    "coe nodegroup show": Known("-f --format", words=2),
    "coe nodegroup update": Known("--min-nodes --max-nodes", words=2),
    "coe quotas show": Known("--project-id --resource", "--project-id --resource"),
    "image set": Known("--property", words=1),
    "limits show": Known("--absolute"),
}
_OTHERS: Final = {
    "pulumi": _PULUMI,
    "kubectl": _KUBECTL,
    "az": _AZ,
    "openstack": _OPENSTACK,
    #: helm.sh/docs/helm, v3.
    "helm": {
        "get values": Known("-n --namespace -a --all -o --output", words=1),
        "list": Known("-A --all-namespaces -a --all -n --namespace"),
        "show values": Known("--version", words=1),
        "uninstall": Known("-n --namespace", words=1),
    },
    #: docs.docker.com/reference/cli/docker/buildx/imagetools/inspect
    "docker": {"buildx imagetools inspect": Known(words=1)},
    #: github.com/containers/skopeo, docs/skopeo-inspect.1.md
    "skopeo": {"inspect": Known(words=1)},
}


@dataclass(frozen=True)
class Quoted:
    """A command in a text.

    Attributes:
        file: where the text is.
        command: as it is quoted.
        whole: whether backticks say where it ends.
        remedy: whether the text says what to do.
    """

    file: str
    command: str
    whole: bool
    remedy: bool


def _texts(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """(text, whether it is a remedy) of each string that is no docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    skipped = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    remedies = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg in _REMEDIES
        for inner in ast.walk(node.value)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else _VALUE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            text = node.value
        else:
            continue
        yield text, id(node) in remedies


def _commands(text: str) -> Iterator[tuple[str, bool]]:
    """(command, whether it is whole) of each in a text."""
    programs = "|".join(map(re.escape, _PROGRAMS))
    for span in re.findall(rf"`((?:{programs}) [^`]*)`", text):
        yield from ((command.strip(), True) for command in span.split("&&"))
    bare = re.sub(r"`[^`]*`", "", text)
    yield from (
        (found, False)
        for found in re.findall(rf"(?<![\w/`-])((?:{programs}) [a-z][^\n;:,()]*?)(?=[;:,()\n]|\.(?:\s|$|VALUE)|$)", bare)
    )


@lru_cache(maxsize=1)
def quoted() -> tuple[Quoted, ...]:
    """Every command that the product's texts quote."""
    found = []
    # Parsing every file would take most of the time that collecting all tests takes.
    named = re.compile(rf"\b(?:{'|'.join(map(re.escape, _PROGRAMS))}) [a-z-]")
    for folder in ("gpu_pools", "policies", "components"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            file, source = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
            if not named.search(source):
                continue
            for text, remedy in _texts(ast.parse(source)):
                found += [Quoted(file, command, whole, remedy or file in _ALL_REMEDIES) for command, whole in _commands(text)]
    told = (ROOT / "tests/golden/problems.txt").read_text(encoding="utf-8")
    found += [Quoted("problems.txt", command, whole, remedy=True) for command, whole in _commands(told)]
    causes = [text for cause in CAUSES.values() for text in (cause.text, cause.remedy)]
    found += [Quoted("causes.json", command, whole, remedy=True) for text in causes for command, whole in _commands(text)]
    return tuple(dict.fromkeys(found))


def _of(*programs: str) -> list[Quoted]:
    return [one for one in quoted() if one.command.startswith(tuple(f"{program} " for program in programs))]


def _ours(one: Quoted) -> list[str]:
    # What its output is piped into is a command of another program.
    return shlex.split(re.sub(r"^(python -m gpu_pools|gpu-pools) ", "", one.command.partition(" | ")[0]))


def _fault_of_ours(arguments: list[str], *, whole: bool) -> str:
    """What our own parser says against a command line; where it is a mere name, nothing need follow."""
    parser = _parser()
    names = next(action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    if arguments[0] not in names:
        return f"no command {arguments[0]}"
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            parser.parse_args(arguments)
    except SystemExit as end:
        unfinished = "the following arguments are required" in said.getvalue() and not whole
        return said.getvalue() if end.code and not unfinished else ""
    return ""


#: Sentences that begin like a command of ours without being one, by file.
_NOT_OURS: Final = frozenset({"gpu-pools in it", "gpu-pools preview of VALUE -->", "gpu-pools adopt from VALUE"})


def _fault_of_one_of_ours(one: Quoted) -> str:
    arguments = _ours(one) if one.whole else _ours(one)[:1]
    return _fault_of_ours(arguments, whole=one.whole and one.remedy)


# The commands are no parameters: to find them takes two seconds, which every process would spend that collects the tests.
def test_our_own_parser_takes_each_command_of_ours() -> None:
    ours = [one for one in _of("python -m gpu_pools", "gpu-pools") if one.command not in _NOT_OURS]
    assert {one: fault for one in ours if (fault := _fault_of_one_of_ours(one))} == {}


def test_the_makefile_has_each_target() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    ours = [one for one in _of("make") if one.whole or "=" in one.command]
    assert [one for one in ours if one.command.split()[1] not in targets] == []


def _fault(program: str, one: Quoted) -> str:
    """What is wrong with a command of another program; empty: nothing, or it is a sentence about the program."""
    words = one.command.removeprefix(f"{program} ").split()
    named = [name for name in _OTHERS[program] if words[: len(name.split())] == name.split()]
    if not named:
        return "no such command" if one.whole and words[0] != "--stack" and words[-1] != _VALUE else ""
    name = max(named, key=len)
    known, rest = _OTHERS[program][name], words[len(name.split()) :]
    given = [word.partition("=")[0] for word in rest if re.match(r"-{1,2}[a-z]", word, re.IGNORECASE)]
    wrong = [flag for flag in given if flag not in known.flags.split()]
    if wrong:
        return f"no flag {', '.join(wrong)}"
    if not one.whole or not one.remedy or not rest:
        return ""
    missing = [flag for flag in known.needs.split() if flag not in given]
    plain = [word for word in rest if not word.startswith("-")]
    return f"needs {', '.join(missing)}" if missing else "" if len(plain) >= known.words else f"needs {known.words} arguments"


@pytest.mark.parametrize("program", _OTHERS)
def test_each_command_of_another_program_has_flags_that_it_takes(program: str) -> None:
    assert {one: fault for one in _of(program) if (fault := _fault(program, one))} == {}


@pytest.mark.parametrize(
    ("program", "command", "fault"),
    [
        ("az", 'az network vnet subnet list --query "[].id"', "needs --resource-group, --vnet-name"),
        ("az", "az aks reboot --name X", "no such command"),
        ("pulumi", "pulumi refresh --dry-run", "no flag --dry-run"),
        ("kubectl", "kubectl label node", "needs 3 arguments"),
    ],
)
def test_a_command_that_does_not_work_is_found(program: str, command: str, fault: str) -> None:
    assert _fault(program, Quoted("x", command, whole=True, remedy=True)) == fault


@pytest.mark.parametrize(
    "arguments", [["reparation", "A", "B"], ["repair", "STACK"], ["drift", "STACK", "--forever"]], ids=lambda given: given[0]
)
def test_a_command_of_ours_that_does_not_work_is_found(arguments: list[str]) -> None:
    assert _fault_of_ours(arguments, whole=True)


def test_commands_are_found_in_texts() -> None:
    assert len(_of("kubectl")) > 20
    assert len(_of("python -m gpu_pools", "gpu-pools")) > 30
    assert len(_of("make")) > 1
    assert {one.command for one in quoted() if one.remedy and one.whole} >= {"gpu-pools repair NODE --stack STACK"}
    assert [*_commands("Run `az acr list && az login`; kubectl get nodes -L X. Then az says so.")] == [
        ("az acr list", True),
        ("az login", True),
        ("kubectl get nodes -L X", False),
        ("az says so", False),
    ]
