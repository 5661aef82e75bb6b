"""Fills a new Keystone, by its API: the sandbox's user, project and login, Magnum's service user, the catalogue of services.

Stacks log in with an application credential of that user, as they should in a real cloud; his password only makes it.
May be run again at any time: what is there is kept, an address that has changed is corrected.
"""

from __future__ import annotations

import json
import secrets
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping

REGION: Final = "RegionOne"
DOMAIN: Final = "default"
USER: Final = "sandbox"
"""The name of the user that stacks log in as, and of his project."""
ADMIN: Final = "admin"
"""Keystone's administrator and his project, as keystone-manage names them."""
SERVICE_USER: Final = "magnum"
SERVICE_PROJECT: Final = "service"
_CREDENTIAL: Final = "gpu-pools"
_ROLE: Final = "member"
#: Clients look for the first, services among themselves for the second.
_INTERFACES: Final = ("public", "internal")
_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Passwords:
    """The passwords of one sandbox, made up for it.

    Attributes:
        admin: Keystone's administrator.
        magnum: Magnum's service user.
        user: whoever deploys.
    """

    admin: str = field(repr=False)
    magnum: str = field(repr=False)
    user: str = field(repr=False)


@dataclass(frozen=True)
class Credential:
    """An application credential: logs in as its user, for one project, with the roles that it was made with."""

    id: str
    secret: str = field(repr=False)


def fill(url: str, passwords: Passwords, services: Mapping[str, tuple[str, str]]) -> None:
    """Make what is missing.

    Args:
        url: Keystone's address, ending in /v3.
        passwords: those of the users.
        services: type -> (name, address) of everything in the catalogue.

    Raises:
        SandboxError: Keystone refuses or does not answer.
    """
    keystone = _Keystone(url, ADMIN, passwords.admin)
    roles = {role["name"]: role["id"] for role in keystone.get("roles")}
    for user, password, project, names in (
        (SERVICE_USER, passwords.magnum, SERVICE_PROJECT, ("admin", "service")),
        (USER, passwords.user, USER, (_ROLE,)),
    ):
        project_id = keystone.ensure("project", {"name": project, "domain_id": DOMAIN})["id"]
        body = {"name": user, "domain_id": DOMAIN, "password": password, "default_project_id": project_id}
        user_id = keystone.ensure("user", body)["id"]
        for name in names:
            keystone.put(f"projects/{project_id}/users/{user_id}/roles/{roles[name]}")
    keystone.ensure("region", {"id": REGION}, key="id")
    _fill_catalogue(keystone, services)


def application_credential(url: str, password: str, known: Credential | None) -> Credential:
    """The application credential of the sandbox's user, made by himself as Keystone demands; who knows its secret keeps it.

    Args:
        url: Keystone's address, ending in /v3.
        password: the user's.
        known: what was made before, if anything.

    Raises:
        SandboxError: Keystone refuses or does not answer.
    """
    keystone = _Keystone(url, USER, password)
    path = f"users/{keystone.user}/application_credentials"
    for one in keystone.get(path, "application_credentials"):
        if known and one["id"] == known.id:
            return known
        if one["name"] == _CREDENTIAL:
            keystone.delete(f"{path}/{one['id']}")
    secret = secrets.token_urlsafe(32)
    body = {"name": _CREDENTIAL, "secret": secret, "roles": [{"name": _ROLE}]}
    made = keystone.post(path, {"application_credential": body})["application_credential"]
    return Credential(made["id"], secret)


def _fill_catalogue(keystone: _Keystone, services: Mapping[str, tuple[str, str]]) -> None:
    endpoints = {(endpoint["service_id"], endpoint["interface"]): endpoint for endpoint in keystone.get("endpoints")}
    for type_, (name, address) in services.items():
        service = keystone.ensure("service", {"type": type_, "name": name}, key="type")
        for interface in _INTERFACES:
            endpoint = endpoints.get((service["id"], interface))
            if endpoint is None:
                body = {"service_id": service["id"], "interface": interface, "url": address, "region_id": REGION}
                keystone.post("endpoints", {"endpoint": body})
            elif endpoint["url"] != address:
                keystone.patch(f"endpoints/{endpoint['id']}", {"endpoint": {"url": address}})


class _Keystone:
    """Keystone's API as somebody whose project has his name.

    Attributes:
        user: his id.
    """

    def __init__(self, url: str, name: str, password: str) -> None:
        self._url = url
        self._token = ""
        user = {"name": name, "domain": {"id": DOMAIN}, "password": password}
        scope = {"project": {"name": name, "domain": {"id": DOMAIN}}}
        body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}
        answer, headers = self._call("POST", "auth/tokens", body)
        self._token = headers["X-Subject-Token"]
        self.user: str = answer["token"]["user"]["id"]

    def get(self, path: str, collection: str = "") -> list[dict[str, Any]]:
        """All of a collection; its name where the path is another."""
        found: list[dict[str, Any]] = self._call("GET", path)[0][collection or path]
        return found

    def ensure(self, kind: str, body: dict[str, Any], *, key: str = "name") -> dict[str, Any]:
        """The one with the same key, made if there is none."""
        same = [one for one in self.get(f"{kind}s") if one[key] == body[key]]
        made: dict[str, Any] = same[0] if same else self.post(f"{kind}s", {kind: body})[kind]
        return made

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Make something."""
        return self._call("POST", path, body)[0]

    def patch(self, path: str, body: dict[str, Any]) -> None:
        """Change something."""
        self._call("PATCH", path, body)

    def delete(self, path: str) -> None:
        """Delete something."""
        self._call("DELETE", path)

    def put(self, path: str) -> None:
        """Put something in place that has no content."""
        self._call("PUT", path)

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[dict[str, Any], Mapping[str, str]]:
        headers = {"Content-Type": "application/json", "X-Auth-Token": self._token}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/{path}", data, headers, method=method)  # noqa: S310 the address is ours
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310 as above
                content = response.read()
                return (json.loads(content) if content else {}), response.headers
        except (urllib.error.URLError, OSError) as error:
            # Without the body: there are passwords in it.
            message = f"{self._url}/{path}: Keystone did not accept {method}: {error}."
            raise SandboxError(message, "Read keystone.log in the logs folder; `make clean` starts over.") from error
