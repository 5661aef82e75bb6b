"""What a deploy says of its reports: the stack output `verification`, which gpu_pools/proof/verifier_reports.py makes.

Reading is strict: whoever reads reports by a document that is half understood could take the wrong ones for a proof. What the
output means for a node is decided in gpu_pools/evidence/verdicts.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_pools.evidence.errors import EvidenceError

OUTPUT: Final = "verification"
_SHOWN: Final = 80
#: Where the outputs name no remedy, as those of older versions.
_DECLARE: Final = "Add the section gpu-pools:verification to the stack file, and deploy it."


@dataclass(frozen=True)
class Pool:
    """One pool.

    Attributes:
        name: the pool's.
        declared: its sharing in words.
        min_nodes: how many nodes it has at least.
        node_selector: the labels of its nodes.
        pod_selector: of its verifiers, for people.
        config_map: holds what a node must be.
        sha256: of the text there.
    """

    name: str
    declared: str
    min_nodes: int
    node_selector: Mapping[str, str]
    pod_selector: str
    config_map: str
    sha256: str


@dataclass(frozen=True)
class Declared:
    """The whole output.

    Attributes:
        condition: the verifiers' condition of a node.
        annotation: their annotation.
        namespace: theirs, with the ConfigMaps.
        key: of these ConfigMaps.
        context: of the kubeconfig; None for its current one.
        digest: of the program that reports.
        program: the ConfigMap that holds it.
        program_key: the key there.
        program_sha256: of the file there.
        interval_seconds: between two reports.
        pools: by name.
    """

    condition: str
    annotation: str
    namespace: str
    key: str
    context: str | None
    digest: str
    program: str
    program_key: str
    program_sha256: str
    interval_seconds: float
    pools: tuple[Pool, ...]


def declared(outputs: object) -> Declared:
    """What all outputs of a stack say of its reports.

    Args:
        outputs: as `pulumi stack output --json` prints them.

    Raises:
        EvidenceError: where they say nothing, or that nothing is verified.
    """
    if not isinstance(outputs, Mapping):
        message = f"The stack's outputs are {_shown(outputs)}, not a mapping."
        raise EvidenceError(message, "Give what `pulumi stack output --json` prints.")
    if OUTPUT not in outputs:
        message = f"The stack has no output `{OUTPUT}`: no deploy of it has come far enough, or it was one of an older version."
        raise EvidenceError(message, "Deploy it: pulumi up.")
    found = outputs[OUTPUT]
    if isinstance(found, Mapping) and found.get("enabled") is False:
        message = f"Nothing is verified: {found.get('why') or 'the stack says so'}."
        remedy = found.get("remedy")
        raise EvidenceError(message, remedy if isinstance(remedy, str) and remedy else _DECLARE)
    problems: list[str] = []
    parsed = _declared(_Section(found, OUTPUT, problems))
    if problems:
        message = f"The stack's output `{OUTPUT}` cannot be used:\n" + "\n".join(f"- {problem}" for problem in problems)
        raise EvidenceError(message, "Deploy the stack with this version of the program: pulumi up.")
    return parsed


def _declared(section: _Section) -> Declared:
    pools, program = section.part("pools"), section.part("program")
    return Declared(
        condition=section.text("condition"),
        annotation=section.text("annotation"),
        namespace=section.text("namespace"),
        key=section.text("expectationKey"),
        context=section.text("context") if section.value.get("context") is not None else None,
        digest=program.text("digest"),
        program=program.text("configMap"),
        program_key=program.text("key"),
        program_sha256=program.text("sha256"),
        interval_seconds=section.number("intervalSeconds"),
        pools=tuple(_pool(name, pools.part(name)) for name in sorted(pools.value)),
    )


def _pool(name: str, section: _Section) -> Pool:
    selector = section.part("nodeSelector")
    if not selector.value:
        # It would choose every node.
        selector.refuse("", selector.value, "at least one label")
    return Pool(
        name=name,
        declared=section.text("declared"),
        min_nodes=int(section.number("minNodes")),
        node_selector={key: selector.text(key, maybe_empty=True) for key in selector.value},
        pod_selector=section.text("podSelector"),
        config_map=section.text("expectation"),
        sha256=section.text("sha256"),
    )


class _Section:
    """A mapping of the output, with its path; collects what is wrong in it."""

    def __init__(self, value: object, path: str, problems: list[str]) -> None:
        self.value: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
        self._path = path
        self._problems = problems
        if not isinstance(value, Mapping):
            self.refuse("", value, "a mapping")

    def part(self, key: str) -> _Section:
        """The mapping below a key."""
        return _Section(self.value.get(key), f"{self._path}.{key}", self._problems)

    def text(self, key: str, *, maybe_empty: bool = False) -> str:
        """A text; a problem, and none, where it is something else."""
        value = self.value.get(key)
        if isinstance(value, str) and (value or maybe_empty):
            return value
        self.refuse(key, value, "text")
        return ""

    def number(self, key: str) -> float:
        """A number from 0 on."""
        value = self.value.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
            return value
        self.refuse(key, value, "a number from 0 on")
        return 0

    def refuse(self, key: str, value: object, allowed: str) -> None:
        """Add a problem."""
        path = f"{self._path}.{key}" if key else self._path
        self._problems.append(f"{path} is {_shown(value)}, not {allowed}")


def _shown(value: object) -> str:
    return "missing" if value is None else f"{value!r:.{_SHOWN}}"
