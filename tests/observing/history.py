"""Samples of each minute that a real Prometheus then has as blocks, as if it had recorded them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox.observing.exporter import labels_text
from tests.observing.promtool import promtool

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class History:
    """Samples by series; `now`: a whole minute, in seconds since the epoch."""

    now: int
    lines: dict[str, list[str]] = field(default_factory=dict)

    def put(self, name: str, labels: dict[str, str], values: dict[int, float]) -> None:
        """Values by minutes before now."""
        # OpenMetrics has no space there.
        text = labels_text((("__name__", name), *labels.items())).replace(", ", ",")
        rows = (f"{text} {value} {self.now - ago * 60}" for ago, value in sorted(values.items(), reverse=True))
        self.lines.setdefault(name, []).extend(rows)

    def text(self) -> str:
        return "".join(f"# TYPE {name} gauge\n" + "\n".join(rows) + "\n" for name, rows in self.lines.items()) + "# EOF\n"


def blocks(made: History, folder: Path) -> None:
    """Write them where a Prometheus of that folder has its data."""
    (folder / "history").write_text(made.text())
    done = promtool("tsdb", "create-blocks-from", "openmetrics", folder / "history", folder / "data")
    assert done.returncode == 0, done.stderr
