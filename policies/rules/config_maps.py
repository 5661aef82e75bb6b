"""ConfigMaps that people write for the device plugin and for mig-manager, beside or instead of ours.

What is inside the files is judged by gpu_pools/existing, the same checks as ``python -m gpu_pools check``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import yaml

from gpu_pools.existing.findings import Findings
from gpu_pools.existing.mig_parted_check import check_disabled_key, check_mig_parted
from gpu_pools.existing.plugin_check import check_plugin_config
from gpu_pools.existing.plugin_schema import plugin_schema
from gpu_pools.existing.run_context import RunContext
from gpu_pools.existing.yaml_tree import parse_documents
from gpu_pools.policies import kinds
from gpu_pools.policies.rule import Found, Limit, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpu_pools.policies.reading import Field
    from gpu_pools.policies.rule import Case

#: The MIG strategy of the cluster is not a matter of one file: `mig-strategy-fits` compares the two.
_OPEN: Final = RunContext("operator", "")
#: What stops: the program refuses it, or drops it, or lets something else win.
_STOPS: Final = ("crash", "ignored", "overridden")


def _judge_configs(case: Case, kind: str, check: Callable[[object, Findings], None]) -> Iterator[Found]:
    def judge(place: Field) -> Iterator[Found]:
        for found, text in _only(place, kind):
            yield from _findings(found, text, case.limits.get("devicePlugin"), check)

    yield from case.each([place for _, place in case.inputs.at("data").items()], judge)


def _only(place: Field, kind: str) -> Iterator[tuple[Field, str]]:
    text = place.text()
    if kinds.kind_of(text) == kind:
        yield place, text


def _findings(place: Field, text: str, version: str | None, check: Callable[[object, Findings], None]) -> Iterator[Found]:
    try:
        trees = parse_documents(text)
    except yaml.YAMLError as error:
        yield Found(place.path, f"not YAML: {getattr(error, 'problem', None) or 'it cannot be parsed'}")
        return
    findings = Findings({}, (version or plugin_schema().versions[-1],))
    check(trees[0].value if trees else None, findings)
    for one in findings.sorted():
        if one.severity in _STOPS:
            yield Found(f"{place.path}, {one.path}", f"{one.message}; {one.really}; allowed: {one.allowed}; {one.remedy}")


def _plugin(case: Case) -> Iterator[Found]:
    return _judge_configs(case, "plugin", lambda value, findings: check_plugin_config(value, (), findings, _OPEN))


def _check_parted(value: object, findings: Findings) -> None:
    check_mig_parted(value, (), findings, RunContext("operator"))
    check_disabled_key(value, (), findings)


def _parted(case: Case) -> Iterator[Found]:
    return _judge_configs(case, "mig-parted", _check_parted)


def _owned(case: Case) -> Iterator[Found]:
    place = case.inputs.at("metadata", "name")
    if place.text() == "default-mig-parted-config":
        yield Found(place.path, f'"{place.text()}" is the name of the operator\'s own ConfigMap')


def _namespace(case: Case) -> Iterator[Found]:
    name = case.inputs.at("metadata", "name").text()
    place = case.inputs.at("metadata", "namespace")
    for resource, inputs in kinds.releases(case, kinds.OPERATOR_CHART):
        values = inputs.at("values")
        named = [values.at(operand, "config", "name").text() for operand in ("devicePlugin", "migManager")]
        wanted = inputs.at("namespace").text()
        if name and name in named and (place.text() or "default") != wanted:
            yield Found(place.path, f'"{place.text() or "default"}", but {resource.name} reads {name} in "{wanted}"')


RULES: Final = (
    Rule(
        name="device-plugin-config",
        title="A config of the device plugin means what it says",
        incidents=("D06", "D07", "D08", "D09", "D10", "D11", "D12"),
        types=kinds.CONFIG_MAPS,
        judge=_plugin,
        why="the plugin drops what it does not know without a word, and refuses at start what it cannot serve",
        repair="Mend the config as said, or declare the sharing in the stack file, which renders it.",
        limits=(Limit("devicePlugin", {"type": "string", "enum": list(plugin_schema().versions)}),),
    ),
    Rule(
        name="mig-parted-config",
        title="A config of mig-manager can be applied to the GPUs that it names",
        incidents=("D13", "D15", "D16"),
        types=kinds.CONFIG_MAPS,
        judge=_parted,
        why="mig-manager reports success for profiles that a GPU lacks, and fails half-way on layouts that do not fit",
        repair="Mend the layout as said; `python -m gpu_pools layouts MODEL` lists the possible ones.",
    ),
    Rule(
        name="mig-parted-map-is-yours",
        title="The operator's own mig-parted ConfigMap is not managed by anybody else",
        incidents=("D16",),
        types=kinds.CONFIG_MAPS,
        judge=_owned,
        why="the operator writes its own content back, and the next node is partitioned by that",
        repair="Give your ConfigMap another name, and name it in migManager.config.name.",
    ),
    Rule(
        name="config-map-in-operator-namespace",
        title="The operator's ConfigMaps lie in the operator's namespace",
        incidents=("D05",),
        types=kinds.CONFIG_MAPS,
        judge=_namespace,
        why="the device plugin waits for a ConfigMap that it cannot see, or shares nothing",
        repair="Put the ConfigMap into the namespace of the release.",
        whole=True,
    ),
)
