"""Why a cluster did not answer, or refused: in words, with a remedy, and with nothing secret in them."""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import urlsplit

from gpu_pools.text import harmless
from gpu_pools.verifier.api import MALFORMED, ApiError

_LONGEST: Final = 300
_UNAUTHORIZED, _FORBIDDEN = 401, 403
_VERBS: Final = {"PATCH": "patch", "POST": "create", "DELETE": "delete"}


class ClusterError(ApiError):
    """The cluster did not give what was asked for.

    Args:
        request: method and path.
        status: the HTTP status; None where there was no answer.
        message: what went wrong, cut to one short line.
        remedy: what the user can do about it.
    """

    def __init__(self, request: str, status: int | None, message: str, remedy: str) -> None:
        super().__init__(request, status, short(message))
        self.remedy = remedy

    @property
    def explained(self) -> str:
        """The message and the remedy."""
        return f"{self.message.rstrip('.')}. {self.remedy}"


def short(text: object) -> str:
    """A text of somebody else as one line that a terminal can show."""
    shown = harmless.line(" ".join(str(text).split()))
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def refusal(method: str, path: str, status: int, answer: bytes, reason: str | None) -> ClusterError:
    """The error for an answer that is a refusal.

    Args:
        method: of the request.
        path: of the request.
        status: the HTTP status.
        answer: what came: a Status object, as a rule.
        reason: HTTP's own word for the status.
    """
    message = _message_of(answer) or reason or "refused"
    if status == _UNAUTHORIZED:
        message = f"the API server does not accept the credentials: {message}"
        remedy = "Log in again, or use a kubeconfig whose credentials are valid."
    elif status == _FORBIDDEN:
        remedy = f"Ask the cluster's administrator for the right to {needed_right(method, path)}."
    else:
        remedy = f"The API server refused {method} {short(path)} with HTTP status {status}: see its logs if that persists."
    return ClusterError(f"{method} {path}", status, message, remedy)


def _message_of(answer: bytes) -> str:
    """The server's own words."""
    try:
        return str(json.loads(answer)["message"])
    except MALFORMED:
        return ""


def needed_right(method: str, path: str) -> str:
    """The right that a request needs, as RBAC names it, e.g. ``list configmaps in the namespace gpu-operator``."""
    first, *parts = path.strip("/").split("/")
    parts = parts[1 if first == "api" else 2 :]
    where = ""
    if parts[:1] == ["namespaces"] and len(parts) > 2:  # noqa: PLR2004 - namespaces/NAME/RESOURCE
        where, parts = f" in the namespace {parts[1]}", parts[2:]
    if not parts:
        return f"read {path}"
    resource, *name = parts
    verb = _VERBS.get(method) or ("get" if name else "list")
    return "/".join([f"{verb} {resource}", *name[1:]]) + where


def unreachable(request: str, server: str, error: Exception) -> ClusterError:
    """The error for a request to which no answer came.

    Args:
        request: method and path.
        server: the address in the kubeconfig.
        error: what the client has raised.
    """
    cause = getattr(error, "reason", None) or error
    text = str(cause)
    parts = urlsplit(server)
    # Not the whole address: it may hold a password.
    where = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
    if "SSL" in type(cause).__name__ or "SSLError" in text:
        message = f"no secure connection to {where}: {text.rpartition(': ')[2]}"
        remedy = "Check the certificate authority and the client certificate in the kubeconfig, and whether they have expired."
    else:
        message = f"{where} cannot be reached: {text.rpartition(': ')[2]}"
        remedy = "Check the server's address in the kubeconfig, and the network, VPN or proxy on the way to it."
    return ClusterError(request, None, message, remedy)


def late(request: str, seconds: float) -> ClusterError:
    """The error for a request that took too long, the log-in included."""
    remedy = "Check the network to the API server, and whether the log-in program of the kubeconfig waits for input."
    return ClusterError(request, None, f"no whole answer within {seconds:g} s", remedy)
