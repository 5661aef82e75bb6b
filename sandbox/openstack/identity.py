"""Fills a new Keystone, by its API: the sandbox's user, project and login, Magnum's service user, the catalogue of services.

Stacks log in with an application credential of that user, as they should in a real cloud; his password only makes it.
May be run again at any time: what is there is kept, an address that has changed is corrected.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from sandbox.openstack.login import DOMAIN, REGION, auth, client
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from openstack.identity.v3._proxy import Proxy

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
    with _keystone(url, ADMIN, passwords.admin) as keystone:
        roles = {role.name: role for role in keystone.roles()}
        projects = {project.name: project for project in keystone.projects()}
        users = {user.name: user for user in keystone.users()}
        for name, password, project_name, granted in (
            (SERVICE_USER, passwords.magnum, SERVICE_PROJECT, ("admin", "service")),
            (USER, passwords.user, USER, (_ROLE,)),
        ):
            project = projects.get(project_name) or keystone.create_project(name=project_name, domain_id=DOMAIN)
            own = {"domain_id": DOMAIN, "password": password, "default_project_id": project.id}
            user = users.get(name) or keystone.create_user(name=name, **own)
            for role in granted:
                keystone.assign_project_role_to_user(project, user, roles[role])
        if REGION not in {region.id for region in keystone.regions()}:
            keystone.create_region(id=REGION)
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
    with _keystone(url, USER, password) as keystone:
        user = str(keystone.get_user_id())
        for one in keystone.application_credentials(user):
            if known and one.id == known.id:
                return known
            if one.name == _CREDENTIAL:
                keystone.delete_application_credential(user, one)
        secret = secrets.token_urlsafe(32)
        made = keystone.create_application_credential(user, _CREDENTIAL, secret=secret, roles=[{"name": _ROLE}])
        return Credential(made.id, secret)


def _fill_catalogue(keystone: Proxy, services: Mapping[str, tuple[str, str]]) -> None:
    there = {service.type: service for service in keystone.services()}
    endpoints = {(endpoint.service_id, endpoint.interface): endpoint for endpoint in keystone.endpoints()}
    for type_, (name, address) in services.items():
        service = there.get(type_) or keystone.create_service(type=type_, name=name)
        for interface in _INTERFACES:
            endpoint = endpoints.get((service.id, interface))
            if endpoint is None:
                keystone.create_endpoint(service_id=service.id, interface=interface, url=address, region_id=REGION)
            elif endpoint.url != address:
                keystone.update_endpoint(endpoint, url=address)


@contextmanager
def _keystone(url: str, name: str, password: str) -> Iterator[Proxy]:
    """Keystone's API as somebody whose project has his name."""
    # A quarter of a second, which only those who start an OpenStack need wait for.
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415
    from openstack.connection import Connection  # noqa: PLC0415
    from openstack.exceptions import SDKException  # noqa: PLC0415

    login = {"OS_AUTH_URL": url, "OS_USERNAME": name, "OS_PASSWORD": password, "OS_PROJECT_NAME": name}
    try:
        # The catalogue may have Keystone's address of before, or none.
        yield cast("Proxy", Connection(session=client(auth(login), _SECONDS), identity_endpoint_override=url).identity)
    except (SDKException, ClientException) as error:
        # What Keystone answers names users and projects, not their passwords.
        message = f"{url}: Keystone did not accept what {name} asked for: {error}."
        raise SandboxError(message, "Read keystone.log in the logs folder; `make clean` starts over.") from error
