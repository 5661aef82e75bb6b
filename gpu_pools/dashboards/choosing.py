"""What is chosen above a dashboard, as in Grafana: one dashboard, a pool, a node, a GPU; and what there is to choose from.

What can be chosen is what the dashboards' own JSON says, `label_values(SERIES, LABEL)`: each choice is narrowed by those before
it. Pools are those of the plan, which may have no node yet. Of each one or all can be chosen; Grafana lets several be.

A value of others stands in a query as a regular expression in a string: it is escaped for both.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.observing.dashboards import dashboards

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_pools.observing.prometheus import Prometheus
    from gpu_pools.observing.times import Window
    from gpu_pools.plan.planned import Plan

_ALL: Final = ".*"
_VARIABLE: Final = re.compile(r"\$(pool|node|gpu)\b")
_VALUES: Final = re.compile(r"label_values\((.+), (\w+)\)")
_SPECIAL: Final = re.compile(r"[\\.+*?()|\[\]{}^$]")
#: The most values of a choice.
_MOST: Final = 2000


@dataclass(frozen=True)
class Choice:
    """What is chosen; an empty text: all."""

    board: str = ""
    pool: str = ""
    node: str = ""
    gpu: str = ""

    def of(self, name: str) -> str:
        """What is chosen of a variable: `pool`, `node` or `gpu`."""
        return {"pool": self.pool, "node": self.node, "gpu": self.gpu}[name]


def matchers(plan: Plan, choice: Choice) -> Mapping[str, str]:
    """Variable -> the regular expression that stands for what is chosen, as it stands in a string of a query."""
    pools = "|".join(_exactly(pool.name) for pool in plan.pools)
    return {
        "pool": _exactly(choice.pool) if choice.pool else pools,
        "node": _exactly(choice.node) if choice.node else _ALL,
        "gpu": _exactly(choice.gpu) if choice.gpu else _ALL,
    }


def filled(written: str, chosen: Mapping[str, str]) -> str:
    """A query with what is chosen in the place of its variables."""
    return _VARIABLE.sub(lambda found: chosen[found[1]], written)


def variables(plan: Plan, board: str) -> Mapping[str, str]:
    """Variable -> `label_values(…)` of each choice that a dashboard has, in its order."""
    listed = dashboards(plan)[board]["templating"]["list"]
    return {one["name"]: one["definition"] for one in listed if one["type"] == "query"}


def values(prometheus: Prometheus, plan: Plan, window: Window, choice: Choice) -> Mapping[str, Sequence[str]]:
    """Variable -> what there was to choose from in a time, in the order of the alphabet.

    Raises:
        CannotAskError: where Prometheus cannot be asked.
    """
    chosen = matchers(plan, choice)
    found: dict[str, Sequence[str]] = {}
    for name, definition in variables(plan, choice.board).items():
        if name == "pool":
            found[name] = [pool.name for pool in plan.pools]
            continue
        series, label = _named(definition)
        rows = prometheus.ask_range(f"group by ({label}) ({filled(series, chosen)})", window, limit=_MOST)
        found[name] = sorted({row.labels[label] for row in rows if label in row.labels})
    return found


def _named(definition: str) -> tuple[str, str]:
    """The series and the label whose values are meant."""
    match = _VALUES.fullmatch(definition)
    assert match is not None, definition  # noqa: S101 - dashboards.py has written it
    return match[1], match[2]


def _exactly(value: str) -> str:
    """A regular expression for one value, inside a string of PromQL: its escapes are those of Go, which are JSON's."""
    return json.dumps(_SPECIAL.sub(lambda found: f"\\{found[0]}", value), ensure_ascii=False)[1:-1]
