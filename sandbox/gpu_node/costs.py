"""The play of what sharing costs: as many clients as shares, by pods that the device plugin gives them to, and by processes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sandbox.gpu_node import sharing_costs
from sandbox.gpu_node.stage import POD_SECONDS, Stage, time_slicing, until
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

_REPLICAS: Final = 8


class Costs(Stage):
    """Clients that are measured."""

    def run(self, folder: Path) -> None:
        """Measure: two documents of the bench in the folder."""
        self._declare(f"time-slicing {_REPLICAS}", time_slicing(_REPLICAS), _REPLICAS)
        sharing_costs.put_image(self._place)
        begun = time.monotonic()
        sharing_costs.make_job(self._api(), self._file)
        good = until(lambda: sharing_costs.running(self._api()) == _REPLICAS, POD_SECONDS)
        self._told(f"{_REPLICAS} pods of a bench", begun, "all run", f"{sharing_costs.running(self._api())} run", good=good)
        for name, kubeconfig in (("pods", self._folder / "kubeconfig"), ("processes", None)):
            begun = time.monotonic()
            try:
                observed = sharing_costs.together(sharing_costs.measured(folder / f"costs-{name}.json", kubeconfig))
            except SandboxError as error:
                observed = ""
                self._progress.note(error.message)
            step = f"{_REPLICAS} {name} together, of what one does alone"
            self._told(step, begun, "figures", observed or "nothing", good=bool(observed))
            self.clear()
