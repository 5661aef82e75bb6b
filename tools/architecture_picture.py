"""Draws docs/pictures/architecture.svg: the packages of gpu_pools, and which of them use which.

`python -m tools.architecture_picture` writes it. grimp reads the imports off the source, as it does for import-linter. An arrow
that follows from two others is left out. Colours follow the reader's setting, light or dark.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = ROOT / "docs" / "pictures" / "architecture.svg"
_PACKAGE: Final = "gpu_pools"
_WIDTH: Final = 980
_BOX_HEIGHT: Final = 34
_ROW_HEIGHT: Final = 72
_LETTER: Final = 8.2
_PADDING: Final = 22
_MARGIN: Final = 16.0
_GAP: Final = 24.0
_BEND: Final = 2.0
_SWEEPS: Final = 30
#: What the colour of a row says, by the packages in it.
_KINDS: Final = {
    "pulumi": {"components", "policies"},
    "command": {"cli", "drift", "repairing", "changes", "evidence", "bench", "adopting", "usage", "dashboards"},
    "plan": {"proof", "existing", "observing", "plan", "rendering", "images", "platforms", "allocation", "stack", "sharing"},
    "base": {"reading", "mig", "hardware", "kubernetes_api", "text"},
    "node": {"verifier"},
}
_STYLE: Final = """
svg { background: #ffffff; }
text { font: 600 14px ui-sans-serif, system-ui, sans-serif; fill: #1f2933; }
.legend { font-weight: 400; font-size: 13px; }
path { fill: none; stroke: #8a97a6; stroke-width: 1.3; }
.head { fill: #8a97a6; stroke: none; }
.pulumi { fill: #e6dcfb; } .command { fill: #d9e8fb; } .plan { fill: #daf2e0; } .base { fill: #eceff2; } .node { fill: #fde7c7; }
rect { stroke: #5b6b7b; }
@media (prefers-color-scheme: dark) {
svg { background: #0f151b; }
text { fill: #e6edf3; }
path { stroke: #7b8a99; }
.head { fill: #7b8a99; }
.pulumi { fill: #43346b; } .command { fill: #1f4468; } .plan { fill: #1f5130; } .base { fill: #2d3742; } .node { fill: #6b4a17; }
rect { stroke: #93a1af; }
}
"""
_LEGEND: Final = (
    ("pulumi", "what Pulumi's engine runs"),
    ("command", "commands"),
    ("plan", "from declarations to a plan"),
    ("base", "tables and tools for all"),
    ("node", "runs on the nodes"),
)

Edges = dict[str, set[str]]


@dataclass(frozen=True)
class Box:
    """Where a package is drawn, in pixels.

    Attributes:
        name: the package, without `gpu_pools.`.
        left: the left side.
        top: the upper side.
        width: how wide it is.
    """

    name: str
    left: float
    top: float
    width: float

    @property
    def middle(self) -> float:
        """Half way between its sides."""
        return self.left + self.width / 2


def read_edges(packages: set[str]) -> Edges:
    """Which package imports which, without the arrows that follow from others."""
    graph = grimp.build_graph(_PACKAGE, cache_dir=None)
    uses: Edges = {package: set() for package in packages}
    for module in graph.modules:
        source = _package_of(module)
        if source in packages:
            targets = {_package_of(one) for one in graph.find_modules_directly_imported_by(module)}
            uses[source] |= (targets & packages) - {source}
    reach: Edges = {}
    for package in packages:
        _reached(package, uses, reach)
    return {
        package: {target for target in targets if not any(target in reach[other] for other in targets - {target})}
        for package, targets in uses.items()
    }


def _package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def _reached(package: str, uses: Edges, reach: Edges) -> set[str]:
    if package not in reach:
        reach[package] = set()
        for target in uses[package]:
            reach[package] |= {target} | _reached(target, uses, reach)
    return reach[package]


def find_rows(edges: Edges) -> list[list[str]]:
    """The packages by how far they are above those that use nothing, from the top: fewer rows than the contract has layers."""
    depth: dict[str, int] = {}

    def deep(package: str) -> int:
        if package not in depth:
            depth[package] = 1 + max((deep(target) for target in edges[package]), default=-1)
        return depth[package]

    rows: list[list[str]] = [[] for _ in range(1 + max(map(deep, edges)))]
    for package in sorted(edges):
        rows[len(rows) - 1 - depth[package]].append(package)
    return rows


def find_paths(rows: list[list[str]], edges: Edges) -> tuple[list[list[str]], list[list[str]]]:
    """Arrows as paths with a bend in each row that they cross, and the rows with these bends in them.

    A bend has a place of its own in its row, so that no arrow runs through a box.
    """
    row_of = {name: number for number, row in enumerate(rows) for name in row}
    wide = [list(row) for row in rows]
    paths = []
    for source in sorted(edges):
        for target in sorted(edges[source]):
            bends = [f"{source}>{target}@{number}" for number in range(row_of[source] + 1, row_of[target])]
            for number, bend in enumerate(bends, row_of[source] + 1):
                wide[number].append(bend)
            paths.append([source, *bends, target])
    return wide, paths


def place(rows: list[list[str]], paths: list[list[str]]) -> dict[str, Box]:
    """Where each package and each bend is drawn: near to what its arrows lead to."""
    links = [link for path in paths for link in pairwise(path)]
    rows = order(rows, links)
    near: dict[str, list[str]] = {name: [] for row in rows for name in row}
    for upper, lower in links:
        near[upper].append(lower)
        near[lower].append(upper)
    boxes = _spread(rows, dict.fromkeys(near, _WIDTH / 2))
    for _ in range(_SWEEPS):
        boxes = _spread(rows, {name: sum(boxes[one].middle for one in others) / len(others) for name, others in near.items()})
    return boxes


def order(rows: list[list[str]], links: list[tuple[str, str]]) -> list[list[str]]:
    """The rows in an order of few crossings: each row after its neighbours above, then below, and the best of all tries."""
    best = rows = [sorted(row) for row in rows]
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        places = {name: float(number) for row in rows for number, name in enumerate(row)}
        for row in rows if down else reversed(rows):
            near = {name: [places[a if down else b] for a, b in links if (b if down else a) == name] for name in row}
            mean = {name: sum(at) / len(at) if at else places[name] for name, at in near.items()}
            row.sort(key=lambda name: (mean[name], name))
            places |= {name: float(number) for number, name in enumerate(row)}
        if crossings(rows, links) < crossings(best, links):
            best = [list(row) for row in rows]
        rows = [list(row) for row in rows]
    return best


def crossings(rows: list[list[str]], links: list[tuple[str, str]]) -> int:
    """How often arrows cross between rows."""
    places = {name: (number, at) for number, row in enumerate(rows) for at, name in enumerate(row)}
    ends = [(places[upper], places[lower]) for upper, lower in links]
    return sum(
        one[0] == other[0] and (one[1] - other[1]) * (one_end[1] - other_end[1]) < 0
        for number, (one, one_end) in enumerate(ends)
        for other, other_end in ends[:number]
    )


def _spread(rows: list[list[str]], wanted: dict[str, float]) -> dict[str, Box]:
    boxes = {}
    for number, row in enumerate(rows):
        widths = [_BEND if "@" in name else len(name) * _LETTER + _PADDING for name in row]
        for name, left, width in zip(row, _lefts(row, widths, wanted), widths, strict=True):
            boxes[name] = Box(name, round(left, 1), 24 + number * _ROW_HEIGHT, round(width, 1))
    return boxes


def _lefts(row: list[str], widths: list[float], wanted: dict[str, float]) -> list[float]:
    """Left sides in the row's order: as wanted where there is room, else pushed apart to both sides."""
    right = [wanted[name] - width / 2 for name, width in zip(row, widths, strict=True)]
    left = list(right)
    for number in range(1, len(row)):
        right[number] = max(right[number], right[number - 1] + widths[number - 1] + _GAP)
    for number in reversed(range(len(row) - 1)):
        left[number] = min(left[number], left[number + 1] - widths[number] - _GAP)
    both = [(one + other) / 2 for one, other in zip(left, right, strict=True)]
    for number in range(len(row)):
        least = _MARGIN if number == 0 else both[number - 1] + widths[number - 1] + _GAP
        both[number] = max(both[number], least)
    most = _WIDTH - _MARGIN
    for number in reversed(range(len(row))):
        both[number] = min(both[number], most - widths[number])
        most = both[number] - _GAP
    return both


def draw(edges: Edges) -> str:
    """The picture as SVG."""
    rows, paths = find_paths(find_rows(edges), edges)
    boxes = place(rows, paths)
    height = 24 + len(rows) * _ROW_HEIGHT + 12
    arrows = "\n".join(_arrow([boxes[name] for name in path]) for path in paths)
    drawn = "\n".join(_box(boxes[name]) for name in sorted(edges))
    title = "The packages of gpu_pools; an arrow goes from a package to one that it uses"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n{arrows}\n{drawn}\n{_legend(height)}\n</svg>\n"
    )


def _arrow(path: list[Box]) -> str:
    """A line through the bends, straight through the height of a row and curved between rows, with a head."""
    *before, target = path
    line = f"M{before[0].middle:.1f} {before[0].top + _BOX_HEIGHT:.1f}"
    for one, other in pairwise(path):
        start, end = one.top + _BOX_HEIGHT, other.top - (6 if other is target else 0)
        half = (start + end) / 2
        line += f"C{one.middle:.1f} {half:.1f} {other.middle:.1f} {half:.1f} {other.middle:.1f} {end:.1f}"
        if other is not target:
            line += f"V{other.top + _BOX_HEIGHT:.1f}"
    x, y = target.middle, target.top
    return f'<path d="{line}"/><path class="head" d="M{x - 4:.1f} {y - 7:.1f}L{x + 4:.1f} {y - 7:.1f}L{x:.1f} {y:.1f}Z"/>'


def _box(box: Box) -> str:
    kind = next(kind for kind, names in _KINDS.items() if box.name in names)
    return (
        f'<rect class="{kind}" x="{box.left}" y="{box.top}" width="{box.width}" height="{_BOX_HEIGHT}" rx="6"/>'
        f'<text x="{box.middle:.1f}" y="{box.top + 22}" text-anchor="middle">{escape(box.name)}</text>'
    )


def _legend(height: int) -> str:
    shown = []
    left = 20.0
    for kind, text in _LEGEND:
        shown.append(
            f'<rect class="{kind}" x="{left:.0f}" y="{height - 30}" width="14" height="14" rx="3"/>'
            f'<text class="legend" x="{left + 20:.0f}" y="{height - 18}">{escape(text)}</text>'
        )
        left += 48 + len(text) * 6.8
    return "\n".join(shown)


def picture() -> str:
    """The picture of the packages as they are."""
    return draw(read_edges({name for kind in _KINDS.values() for name in kind}))


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
