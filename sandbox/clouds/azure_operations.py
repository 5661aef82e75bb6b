"""Long-running operations of Azure's Resource Manager: a request is answered at once, and how it goes on is asked later.

Stand-in: the work is the stand-in's own, on a thread. An answer has the shape that AKS gives to az (azure-cli, the recording
test_aks_nodepool_update_label_msi: the header `Azure-AsyncOperation`, its address, `InProgress` and `Succeeded`). `Failed` with
an `error` is how ARM describes such operations; an answer of AKS with it was not to be read.

Deliberately not modelled: cancelled operations, and `Retry-After`, which that recording does not have either.
"""

from __future__ import annotations

import threading
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sandbox.clouds.azure_errors import AzureError

if TYPE_CHECKING:
    from collections.abc import Callable


class Operations:
    """What is going on, and what has been; a stand-in that is started again knows of none."""

    def __init__(self) -> None:
        """Know of none."""
        self._known: dict[str, dict[str, Any]] = {}

    def begin(self, work: Callable[[], None]) -> str:
        """Have something done.

        Args:
            work: it; what it raises as AzureError is how the operation fails.

        Returns:
            The operation's id.
        """
        id_ = str(uuid.uuid4())
        self._known[id_] = {"name": id_, "status": "InProgress", "startTime": _now()}
        threading.Thread(target=self._run, args=(id_, work), name=f"azure-{id_}", daemon=True).start()
        return id_

    def show(self, id_: str) -> dict[str, Any] | None:
        """How far one is; None: there is none such."""
        return self._known.get(id_)

    def _run(self, id_: str, work: Callable[[], None]) -> None:
        over: dict[str, Any] = {"status": "Succeeded"}
        try:
            work()
        except AzureError as error:
            over = {"status": "Failed", "error": {"code": error.code, "message": error.message}}
        self._known[id_] = {**self._known[id_], **over, "endTime": _now()}


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
