"""The real promtool: rules are checked, and tested with series, by Prometheus' own code."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.observing.objects import prometheus_rule_spec
from sandbox.observing.exporter import labels_text, scrape
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built
from tests.patience import scaled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from gpu_pools.plan.planned import Plan
    from sandbox.observing.exporter import Node

STEP: Final = 60
Labels = tuple[tuple[str, str], ...]


@dataclass
class Case:
    """One course of a fleet, and what queries must answer.

    Attributes:
        name: for messages.
        times: the fleet at each step of a minute: (how many steps, its nodes, other series).
        expected: (seconds, expression, labels -> value).
    """

    name: str
    times: Sequence[tuple[int, Iterable[Node], Mapping[str, float]]]
    expected: list[tuple[int, str, Mapping[Labels, float]]] = field(default_factory=list)

    @property
    def seconds(self) -> int:
        """The last step."""
        return (sum(steps for steps, _, _ in self.times) - 1) * STEP

    def document(self) -> dict[str, Any]:
        """As promtool reads it."""
        return {
            "name": self.name,
            "interval": f"{STEP}s",
            "input_series": [{"series": name, "values": values} for name, values in _series(self.times).items()],
            "promql_expr_test": [
                {
                    "expr": expression,
                    "eval_time": f"{seconds}s",
                    "exp_samples": [{"labels": labels_text(labels), "value": value} for labels, value in answers.items()],
                }
                for seconds, expression, answers in self.expected
            ],
        }


def _series(times: Sequence[tuple[int, Iterable[Node], Mapping[str, float]]]) -> dict[str, str]:
    """Series -> its values as promtool writes them; a row that vanishes ends with a mark, as after a scrape without it."""
    steps = []
    for count, nodes, others in times:
        rows: dict[str, float] = {}
        for node in nodes:
            for name, labels, value in scrape(node):
                text = labels_text((("__name__", name), *labels))
                if text in rows:
                    message = f"the exporter would answer 500: {text} twice"
                    raise AssertionError(message)
                rows[text] = value
        steps.append((count, rows | dict(others)))
    return {name: " ".join(_values(name, steps)) for name in dict.fromkeys(name for _, rows in steps for name in rows)}


def _values(name: str, steps: Sequence[tuple[int, Mapping[str, float]]]) -> Iterable[str]:
    there = False
    for count, rows in steps:
        left = count
        if name not in rows:
            if there:
                yield "stale"
                left -= 1
            if left:
                yield f"_x{left}"
        else:
            yield f"{rows[name]!r}x{count - 1}" if count > 1 else repr(rows[name])
        there = name in rows


def promtool(*arguments: str | Path, read: str = "") -> subprocess.CompletedProcess[str]:
    program = find_built("promtool", Progress()) / "promtool"
    return subprocess.run([program, *arguments], input=read, capture_output=True, text=True, check=False, timeout=scaled(300))


def rules_file(plan: Plan, folder: Path) -> Path:
    path = folder / "rules.yaml"
    path.write_text(json.dumps(prometheus_rule_spec(plan)), encoding="utf-8")
    return path


def run(plan: Plan, cases: Sequence[Case], folder: Path) -> subprocess.CompletedProcess[str]:
    """Hold the plan's rules against the cases."""
    document = {
        "rule_files": [rules_file(plan, folder).name],
        "evaluation_interval": f"{STEP}s",
        "fuzzy_compare": True,
        "tests": [case.document() for case in cases],
    }
    path = folder / "test.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    return promtool("test", "rules", path)


def hold(plan: Plan, cases: Sequence[Case], folder: Path) -> None:
    assert cases
    assert all(case.expected for case in cases)
    done = run(plan, cases, folder)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
