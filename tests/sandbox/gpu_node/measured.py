"""Writes the tables of docs/on-an-h200.md: ``python -m tests.sandbox.gpu_node.measured``; a test holds the page to them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = ROOT / "docs" / "on-an-h200.md"
FOLDER: Final = ROOT / "docs" / "measured" / "h200-gpu-node"
#: Of a machine with two GPUs.
TWO: Final = FOLDER.parent / "h100-x2-gpu-node"
#: Of a pool that changes node by node.
ROLLOUT: Final = FOLDER.parent / "h100-rollout-gpu-node"
_STEP: Final = re.compile(r"^• (.+?): (.+) \(ok, ([\d.]+) s\)$", re.MULTILINE)


def terminal(name: str) -> str:
    """What a recording shows."""
    lines = (FOLDER / name).read_text("utf-8").splitlines()[1:]
    return "".join(json.loads(line)[2] for line in lines).replace("\r\n", "\n")


def first_play() -> dict[str, tuple[str, str]]:
    """Step -> what was observed, and its seconds, in the first play, as its recording has them; all were as they should be."""
    text = terminal("terminal-first.cast")
    assert "NOT as it should be" not in text
    found = {}
    for line in _STEP.finditer(text):
        # A name may have a colon of its own.
        name, observed, seconds = line.groups()
        while (more := observed.partition(": "))[0] in ("pods that computed", "put right"):
            name, observed = f"{name}: {more[0]}", more[2]
        found[name] = (observed, seconds)
    return found


def table() -> str:
    """A row a step: what was observed, and the seconds of both plays."""
    second = {step["name"]: step for step in json.loads((FOLDER / "result.json").read_text("utf-8"))["steps"]}
    assert all(step["good"] for step in second.values())
    first = first_play()
    # In the order of the first, which had all of them but its last.
    rows = ["| step | seen | seconds, first play | second |", "|---|---|---|---|"]
    for name in [*first, *(name for name in second if name not in first)]:
        step = second.get(name)
        observed = step["observed"] if step else first[name][0]
        seconds = f"{step['seconds']:.1f}" if step else "-"
        rows.append(f"| {name} | {observed} | {first.get(name, ('', '-'))[1]} | {seconds} |")
    return "\n".join(rows)


def table_of(folder: Path) -> str:
    """The same of a machine that was played once."""
    result = json.loads((folder / "result.json").read_text("utf-8"))
    assert result["holds"]
    rows = [f"| {step['name']} | {step['observed']} | {step['seconds']:.1f} |" for step in result["steps"]]
    return "\n".join(["| step | seen | seconds |", "|---|---|---|", *rows])


def written(page: str) -> str:
    """The page with its tables as the plays had them."""
    for name, made in (("steps", table()), ("two", table_of(TWO)), ("rollout", table_of(ROLLOUT))):
        begin, end = f"<!-- {name} -->\n", "\n<!-- end -->"
        before, found, rest = page.partition(begin)
        assert found
        page = f"{before}{begin}{made}{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), encoding="utf-8")
