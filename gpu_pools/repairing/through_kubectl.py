"""A client of the Kubernetes API that asks through kubectl, as the person at the terminal: kubectl knows each way to log in.

It has the shape of the verifier's own client (gpu_pools/verifier/api.py), so what drains a node there drains it here. Each
request is one kubectl. Of a refusal kubectl tells the reason in words, from which the status follows, and not its details.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.shared_text import plain
from gpu_pools.text import programs
from gpu_pools.verifier.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Who wrote it, as the object tells afterwards.
MANAGER: Final = "gpu-pools-repair"
_REQUEST_SECONDS: Final = 20
#: Of one kubectl, a log-in by another program included.
_SECONDS: Final = 120
_NODES: Final = "/api/v1/nodes/"
#: As kubectl begins (k8s.io/kubectl, pkg/cmd/util/helpers.go, StandardErrorMessage); the rest is the server's.
_REFUSED: Final = re.compile(r"Error from server(?: \((\w+)\))?: (.*)", re.DOTALL)
#: A reason of the API (k8s.io/apimachinery, meta/v1, StatusReason) -> its HTTP status.
_STATUS: Final = {
    "BadRequest": 400,
    "Unauthorized": 401,
    "Forbidden": 403,
    "NotFound": 404,
    "AlreadyExists": 409,
    "Conflict": 409,
    "Invalid": 422,
    "TooManyRequests": 429,
    "InternalError": 500,
}


@dataclass(frozen=True)
class ThroughKubectl:
    """How kubectl is called.

    Attributes:
        kubeconfig: None for its own default.
        context: None for the current one.
    """

    kubeconfig: Path | None
    context: str | None

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """One object or list.

        Raises:
            ApiError: where it does not come.
            EvidenceError: where kubectl cannot be run.
        """
        return self._asked("GET", path, ["get", "--raw", f"{path}?{urlencode(query)}" if query else path])

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change a node by a strategic merge patch; returns what it is then.

        Raises:
            ApiError: where that is refused, or no answer comes.
            EvidenceError: where kubectl cannot be run.
            ValueError: it is not a node, of which alone kubectl is asked here.
        """
        if not path.startswith(_NODES):
            message = f"{path} is not a node"
            raise ValueError(message)
        what = ["patch", "node", path.removeprefix(_NODES), "--type=strategic", f"--patch={json.dumps(body)}"]
        return self._asked("PATCH", path, [*what, f"--field-manager={MANAGER}", "--output=json"])

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask for what a subresource or a review does; returns the answer.

        Raises:
            ApiError: where that is refused, or no answer comes.
            EvidenceError: where kubectl cannot be run.
        """
        return self._asked("POST", path, ["create", "--raw", path, "--filename=-"], body)

    def delete(self, path: str, uid: str) -> dict[str, Any]:
        """Delete an object if it is still the one with that uid.

        Raises:
            ApiError: where that is refused, or no answer comes.
            EvidenceError: where kubectl cannot be run.
        """
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        return self._asked("DELETE", path, ["delete", "--raw", path, "--filename=-"], body)

    def _asked(self, method: str, path: str, arguments: Sequence[str], body: dict[str, Any] | None = None) -> dict[str, Any]:
        command = ["kubectl", *arguments, f"--request-timeout={_REQUEST_SECONDS}s"]
        command += [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig else []
        command += [f"--context={self.context}"] if self.context else []
        given = b"" if body is None else json.dumps(body).encode()
        try:
            done = programs.run(command, _SECONDS, given)
        except programs.AbsentError:
            raise EvidenceError("There is no kubectl on PATH.", "Install it, or put it on PATH.") from None
        except programs.SilentError as error:
            raise ApiError(f"{method} {path}", None, str(error)) from None
        if done.code != 0:
            raise _refusal(f"{method} {path}", done)
        try:
            answer = json.loads(done.text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ApiError(f"{method} {path}", None, "the answer is not an object")
        return answer


def _refusal(request: str, done: programs.Said) -> ApiError:
    refused = _REFUSED.search(done.errors)
    if refused is None:
        return ApiError(request, None, plain(done.errors) or f"kubectl ended with {done.code}")
    reason, message = refused.groups()
    return ApiError(request, _STATUS.get(reason or "", None), plain(message))
