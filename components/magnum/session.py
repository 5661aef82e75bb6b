"""Reads from an OpenStack with the login of Pulumi's plugin: GET requests, and nothing else.

The plugin logs in: its data source for the scope of a login hands out a token and the catalogue of services, whatever the
login is (application credential, clouds.yaml, the provider's own settings). Its other data sources are not used: each finds
one thing or ends in an error, none says which names there are, and there is none for Magnum's quota and microversion.

keystoneauth holds the token, finds services in the catalogue and sends the requests. openstacksdk's resources, above it, are not
used: they have no node groups and no quotas, and follow the address of a next page, which behind a proxy often leads nowhere.

The token stays in this process: a function's result is in no state, and nothing here prints it. A request is never redirected,
so that it goes nowhere else. What is not answered, not in time or not allowed is an `UnreadError`, whose text is for users.
"""

import json
import ssl
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import pulumi
import requests
from keystoneauth1 import exceptions, session
from keystoneauth1.access import AccessInfoV3
from keystoneauth1.access.service_catalog import ServiceCatalog
from keystoneauth1.identity.access import AccessInfoPlugin
from pulumi_openstack import identity
from urllib3.exceptions import InsecureRequestWarning

from gpu_pools.components.magnum.settings import Settings, SettingsError, read_settings, tls

_SECONDS = 15.0
_PAGES = 20
#: Service -> its name in the provider's `endpointOverrides`, its type (keystoneauth knows the others), the end of its address.
_SERVICES: Mapping[str, tuple[str, str, str]] = {
    "Magnum": ("container-infra", "container-infrastructure-management", "/v1"),
    "Glance": ("image", "image", "/v2"),
    "Nova": ("compute", "compute", ""),
    "Neutron": ("network", "network", "/v2.0"),
}


class UnreadError(Exception):
    """The cloud did not say it; the text is why."""


@dataclass(frozen=True)
class Session:
    """A login.

    Attributes:
        client: has the token and sends the requests; of any number of threads.
        project: the id of the project that it is for.
        services: Magnum, Glance, Nova, Neutron -> address, as far as the catalogue has them.
    """

    client: session.Session = field(repr=False)
    project: str
    services: Mapping[str, str]

    def get(self, service: str, path: str, **headers: str) -> tuple[dict[str, Any], Mapping[str, str]]:
        """What a service answers: the JSON object, and the headers.

        Args:
            service: a key of `services`.
            path: below its address, with the query.
            headers: besides the token, with `_` for `-`.

        Raises:
            UnreadError: there is no such service, or no such answer.
        """
        if service not in self.services:
            raise UnreadError(f"{service} is not in the catalogue of services")
        return self._ask(service, f"{self.services[service]}/{path}", headers)

    def pages(self, service: str, path: str, key: str) -> Iterator[dict[str, Any]]:
        """The entries of a list, whatever number of pages it has.

        Raises:
            UnreadError: it cannot be read, or not to its end.
        """
        place = path
        for _ in range(_PAGES):
            answer, _headers = self.get(service, place)
            yield from answer.get(key, ())
            following = _following(answer, key)
            if following is None:
                return
            # Of its address only the query counts: behind a proxy the rest often is not the one to ask.
            place = f"{path.partition('?')[0]}?{following.partition('?')[2]}"
        raise UnreadError(f"{service} lists more than {_PAGES} pages")

    def _ask(self, service: str, url: str, headers: Mapping[str, str]) -> tuple[dict[str, Any], Mapping[str, str]]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            response = self.client.get(url, headers={"Accept": "application/json", **named}, raise_exc=False, log=False)
            if response.status_code == HTTPStatus.NOT_FOUND:
                raise NotThereError(service)
            if response.status_code >= HTTPStatus.MULTIPLE_CHOICES:
                raise UnreadError(f"{service} answers {response.status_code}")
            answer = json.loads(response.content)
        except (exceptions.ClientException, requests.RequestException, OSError, ValueError) as error:
            raise UnreadError(f"{service}: {_cause(error)}") from None
        if not isinstance(answer, dict):
            raise UnreadError(f"{service} answers no JSON object")
        return answer, response.headers


class NotThereError(UnreadError):
    """The service says that there is no such thing."""

    def __init__(self, service: str) -> None:
        """Name the service."""
        super().__init__(f"{service} answers 404")


def log_in(parent: pulumi.Resource) -> Session:
    """Have the openstack provider of a resource log in.

    Raises:
        UnreadError: it cannot, the login is not for a project, or the settings of the connection are not usable.
    """
    function = "openstack:identity/getAuthScope:getAuthScope"
    try:
        scope = identity.get_auth_scope(name="gpu-pools", set_token_id=True, opts=pulumi.InvokeOptions(parent=parent))
    except Exception as error:  # noqa: BLE001 - Pulumi has nothing narrower for a function that failed
        raise UnreadError(f"no login: {' '.join(str(error).split())}") from None
    if not (scope.token_id and scope.project_id):
        raise UnreadError("no login: it is not for a project, or not known before the deploy")
    access = AccessInfoV3({"token": {"catalog": _catalogue(scope)}}, scope.token_id)
    try:
        settings = read_settings(default_provider=parent.get_provider(function) is None)
        sends = client(access, settings)
    except SettingsError as error:
        raise UnreadError(str(error)) from None
    return Session(sends, scope.project_id, addresses(access.service_catalog, scope.region, settings))


def client(access: AccessInfoV3, settings: Settings) -> session.Session:
    """What sends requests with a token.

    Raises:
        SettingsError: a certificate or key cannot be used.
    """
    sends = requests.Session()
    if settings.insecure:
        # Who sets it knows; the plugin says nothing, either.
        warnings.simplefilter("ignore", InsecureRequestWarning)
    sends.mount("https://", _Trusting(tls(settings)))
    # Else requests would send a password for this host that it finds in a .netrc.
    sends.auth = lambda request: request
    return session.Session(
        AccessInfoPlugin(access), sends, verify=not settings.insecure, timeout=_SECONDS, redirect=False, user_agent="gpu-pools"
    )


class _Trusting(session.TCPKeepAliveAdapter):
    """Connections with a TLS context of ours; requests would trust the authorities of certifi, not those of the machine."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__()

    def init_poolmanager(self, *args: Any, **named: Any) -> None:  # noqa: ANN401 - the base class's own
        """Make connections with it."""
        super().init_poolmanager(*args, **{**named, "ssl_context": self._context})

    def proxy_manager_for(self, proxy: str, **named: Any) -> Any:  # noqa: ANN401 - as above
        """Make those through a proxy with it, too."""
        return super().proxy_manager_for(proxy, **{**named, "ssl_context": self._context})

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:  # noqa: ANN401 - as above
        """Without the authorities of REQUESTS_CA_BUNDLE, which the plugin does not have."""
        return super().build_connection_pool_key_attributes(request, bool(verify), cert)

    def cert_verify(self, *args: Any, **named: Any) -> None:  # noqa: ANN401 - as above
        """Without those of certifi."""


def addresses(catalogue: ServiceCatalog, region: str, settings: Settings) -> dict[str, str]:
    """Where the services are: as the provider's settings have it, else as the catalogue.

    Args:
        catalogue: of the login.
        region: the provider's; empty for any.
        settings: the interface, and overrides: each an address, or another type in the catalogue.
    """
    found: dict[str, str] = {}
    for name, (override, type_, version) in _SERVICES.items():
        given = settings.overrides.get(override) or type_
        if urlsplit(given).netloc:
            # The plugin adds no version to it, either.
            found[name] = given.rstrip("/")
            continue
        try:
            url = catalogue.url_for(service_type=given, interface=settings.interface, region_name=region or None)
        except exceptions.CatalogException:
            continue
        if url:
            found[name] = _versioned(url.rstrip("/"), version)
    return found


def _catalogue(scope: identity.AwaitableGetAuthScopeResult) -> list[dict[str, Any]]:
    """The catalogue as Keystone writes it."""
    return [
        {
            "type": service.type,
            "name": service.name,
            "endpoints": [
                {"interface": one.interface, "url": one.url, "region": one.region, "region_id": one.region_id}
                for one in service.endpoints
            ],
        }
        for service in scope.service_catalogs
    ]


def _cause(error: BaseException) -> BaseException:
    """What the connection ran into: three libraries have wrapped it since, each with the address."""
    chain = [error]
    while chain[-1].__context__ is not None:
        chain.append(chain[-1].__context__)
    return next((one for one in reversed(chain) if isinstance(one, OSError)), error)


def _versioned(url: str, version: str) -> str:
    return url if url.endswith(version) else url + version


def _following(answer: Mapping[str, Any], key: str) -> str | None:
    """Where the next page is: Glance and Magnum say `next`, Nova and Neutron have a list of links."""
    links = {link.get("rel"): link.get("href") for link in answer.get(f"{key}_links", ())}
    return answer.get("next") or links.get("next")
