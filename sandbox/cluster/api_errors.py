"""What can go wrong with a Kubernetes API server: it refuses, it does not answer, or it has no such kind."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from kubernetes.client import ApiException

_MESSAGE_LENGTH = 500


class ApiError(Exception):
    """The API server refused. The text is the server's own.

    Attributes:
        status: the HTTP status.
        reason: the machine-readable reason, such as "AlreadyExists" ("" when there is none).
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    @classmethod
    def of(cls, error: ApiException) -> Self:
        """What the library raised, as the server said it; the library's own text has tracebacks in it."""
        try:
            body = json.loads(error.body or "")
            return cls(error.status, str(body.get("reason") or ""), str(body["message"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            text = str(error.body or "").strip()[:_MESSAGE_LENGTH]
            return cls(error.status, "", text or f"HTTP status {error.status}")

    @property
    def missing(self) -> bool:
        """There is no such object or kind."""
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def outdated(self) -> bool:
        """Somebody else was faster; the next look sees the new state."""
        return self.status in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.GONE}


class UnreachableError(Exception):
    """There is no answer from the API server, or no way to ask."""


class UnknownKindError(Exception):
    """The API server has no such kind (its CRD is not installed yet, or not any more)."""
