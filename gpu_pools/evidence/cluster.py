"""Reads nodes and expectations of a cluster through kubectl, which knows every way to log in.

Two lists, whatever the size of the fleet: all nodes (kubectl pages them by 500), and the ConfigMaps of the verifiers' namespace.
A list that does not come is told in kubectl's own words and kept as such: who judges says what that means.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.shared_text import plain
from gpu_pools.evidence.verdicts import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_REQUEST_SECONDS: Final = 60
#: Of one list with all its pages, an exec plugin's log-in included.
_LIST_SECONDS: Final = 600
#: Of a few objects that a deploy waits for.
_SHORT_SECONDS: Final = 20
#: How client-go begins to tell of a log-in program that is missing or has failed.
_LOG_IN: Final = "getting credentials: exec:"
_REMEDY: Final = "Install kubectl (https://kubernetes.io/docs/tasks/tools), or put it on PATH."


class _UnlistedError(Exception):
    """A list that did not come; the text says why."""


@dataclass(frozen=True)
class Kubectl:
    """How to call it.

    Attributes:
        kubeconfig: None for kubectl's own default.
        context: None for the current one.
    """

    kubeconfig: Path | None
    context: str | None

    def look(self, namespace: str) -> Snapshot:
        """What the cluster says now.

        Raises:
            EvidenceError: where there is no kubectl.
        """
        try:
            nodes: Sequence[Mapping[str, Any]] | str = self._list("nodes")
        except _UnlistedError as error:
            # The other list would fail alike, and take as long.
            return Snapshot(dt.datetime.now(dt.UTC), f"the nodes cannot be read: {error}", {})
        time = dt.datetime.now(dt.UTC)
        try:
            found = self._list("configmaps", "--namespace", namespace)
        except _UnlistedError as error:
            return Snapshot(time, nodes, f"the expectations cannot be read: {error}")
        return Snapshot(time, nodes, config_maps_of(found))

    def pods(self) -> list[Mapping[str, Any]]:
        """All pods of the cluster.

        Raises:
            EvidenceError: where they cannot be read.
        """
        try:
            return self._list("pods", "--all-namespaces")
        except _UnlistedError as error:
            message = f"the pods cannot be read: {error}"
            raise EvidenceError(message, "Try it with the stack's kubeconfig: kubectl get pods --all-namespaces") from None

    def verifiers(self, namespace: str) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
        """(ConfigMaps, DaemonSets) of a namespace.

        Raises:
            EvidenceError: where they cannot be read soon.
        """
        try:
            found = self._list("configmaps,daemonsets.apps", "--namespace", namespace, seconds=_SHORT_SECONDS)
        except _UnlistedError as error:
            raise EvidenceError(str(error), _REMEDY) from None
        of_kind = {kind: [one for one in found if one.get("kind") == kind] for kind in ("ConfigMap", "DaemonSet")}
        return of_kind["ConfigMap"], of_kind["DaemonSet"]

    def _list(self, *what: str, seconds: int = _LIST_SECONDS) -> list[Mapping[str, Any]]:
        command = ["kubectl", "get", *what, "--output", "json", f"--request-timeout={min(_REQUEST_SECONDS, seconds)}s"]
        command += [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig else []
        command += [f"--context={self.context}"] if self.context else []
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=seconds, stdin=subprocess.DEVNULL)
        except FileNotFoundError:
            raise EvidenceError("There is no kubectl on PATH.", _REMEDY) from None
        except OSError as error:
            message = f"kubectl cannot be run: {error}"
            raise EvidenceError(message, _REMEDY) from None
        except subprocess.TimeoutExpired:
            message = f"kubectl was not done after {seconds} s"
            raise _UnlistedError(message) from None
        if done.returncode != 0:
            raise _UnlistedError(_reason(done.stderr) or f"kubectl ended with {done.returncode}")
        return items_of(done.stdout)


def items_of(text: bytes) -> list[Mapping[str, Any]]:
    """The objects of a list as kubectl prints it."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    items = found.get("items") if isinstance(found, Mapping) else None
    if not isinstance(items, list):
        raise _UnlistedError("kubectl printed no list")
    return [item for item in items if isinstance(item, Mapping)]


def config_maps_of(items: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, str]]:
    """Name -> data, with what is binary in base64."""
    return {
        str(item["metadata"].get("name")): {**_texts(item.get("data")), **_texts(item.get("binaryData"))}
        for item in items
        if isinstance(item.get("metadata"), Mapping)
    }


def _texts(data: object) -> dict[str, str]:
    found = data.items() if isinstance(data, Mapping) else ()
    return {str(key): text for key, text in found if isinstance(text, str)}


def _reason(said: bytes) -> str:
    """What counts: kubectl repeats itself before it gives up. Of a log-in that failed it says how plugins work, at last."""
    lines = said.decode(errors="replace").strip().splitlines()
    login = next((line for line in reversed(lines) if _LOG_IN in line), None)
    if login is None:
        return plain(lines[-1]) if lines else ""
    own = next((f" ({line})" for line in lines if line.startswith("Error: ")), "")
    remedy = "; install kubelogin, or log in (az login; in a pipeline AAD_LOGIN_METHOD)" if "kubelogin" in login else ""
    return plain(f"{login}{own}{remedy}")
