"""The API server by the official client, which knows the ways to log in; in the words of the verifier's own client.

So what the core does to nodes through any such client (gpu_pools/verifier/api.py) hooks can do with a stack's kubeconfig.
"""

import json
from typing import TYPE_CHECKING, Any, Final, cast

from gpu_pools.verifier.api import ApiError

from ._ask_first import SECONDS

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_MERGE: Final = "application/strategic-merge-patch+json"
_JSON: Final = "application/json"
_MESSAGE_LENGTH: Final = 300
_OK, _MORE_THAN_OK = 200, 300


class ClusterApi:
    """Asks for objects, and changes them; each method may raise ApiError."""

    def __init__(self, client: "ApiClient") -> None:
        self._client = client

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """One object or list."""
        return self._answer("GET", path, query)

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change an object."""
        return self._answer("PATCH", path, {}, body, _MERGE)

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Make an object, or ask for what a subresource does."""
        return self._answer("POST", path, {}, body)

    def delete(self, path: str, uid: str) -> dict[str, Any]:
        """Delete an object if it is still the one with that uid."""
        return self._answer("DELETE", path, {}, {"preconditions": {"uid": uid}})

    def _answer(
        self, method: str, path: str, query: dict[str, str], body: dict[str, Any] | None = None, content: str = _JSON
    ) -> dict[str, Any]:
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - comes with the client

        headers = {"Accept": _JSON, "Content-Type": content}
        asked = self._client.param_serialize(
            method, path, query_params=list(query.items()), header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        try:
            answer = self._client.call_api(*asked, _request_timeout=SECONDS)
            text: bytes = answer.read()  # type: ignore[no-untyped-call]
        except (HTTPError, OSError) as error:
            raise ApiError(f"{method} {path}", None, type(error).__name__) from None
        if not _OK <= answer.status < _MORE_THAN_OK:
            raise ApiError(f"{method} {path}", answer.status, _said(text, answer.reason))
        return cast("dict[str, Any]", json.loads(text))


def _said(text: bytes, reason: object) -> str:
    """The server's own words."""
    try:
        return str(json.loads(text)["message"])[:_MESSAGE_LENGTH]
    except (ValueError, KeyError, TypeError):
        return str(reason)[:_MESSAGE_LENGTH]
