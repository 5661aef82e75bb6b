"""Reads from an OpenStack with the login of Pulumi's plugin: GET requests, and nothing else.

The plugin logs in: its data source for the scope of a login hands out a token and the catalogue of services, whatever the
login is (application credential, clouds.yaml, the provider's own settings). Its other data sources are not used: each finds
one thing or ends in an error, none says which names there are, and there is none for Magnum's quota and microversion.

The token stays in this process: a function's result is in no state, and nothing here prints it. A request is never redirected,
so that it goes nowhere else. What is not answered, not in time or not allowed is an `UnreadError`, whose text is for users.
"""

import http.client
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi_openstack import identity

_SECONDS = 15.0
_PAGES = 20
#: Service -> its types in a catalogue, and the version that an address has to end in.
_SERVICES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "Magnum": (("container-infra", "container-infrastructure-management", "container-infrastructure"), "/v1"),
    "Glance": (("image",), "/v2"),
    "Nova": (("compute",), ""),
    "Neutron": (("network",), "/v2.0"),
}


class UnreadError(Exception):
    """The cloud did not say it; the text is why."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Takes a redirection for the answer."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:  # noqa: ANN401 - the base class's own
        """Go nowhere."""


def _opener() -> urllib.request.OpenerDirector:
    """With the authority that OpenStack's clients trust, if one is named."""
    context = ssl.create_default_context(cafile=os.environ.get("OS_CACERT") or None)
    return urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))


@dataclass(frozen=True)
class Session:
    """A login.

    Attributes:
        token: what requests carry.
        project: the id of the project that it is for.
        services: Magnum, Glance, Nova, Neutron -> address, as far as the catalogue has them.
        opener: sends the requests; of any number of threads.
    """

    token: str = field(repr=False)
    project: str
    services: Mapping[str, str]
    opener: urllib.request.OpenerDirector = field(default_factory=_opener, repr=False)

    def get(self, service: str, path: str, **headers: str) -> tuple[dict[str, Any], http.client.HTTPMessage]:
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

    def _ask(self, service: str, url: str, headers: Mapping[str, str]) -> tuple[dict[str, Any], http.client.HTTPMessage]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(url, headers={"X-Auth-Token": self.token, "Accept": "application/json", **named})  # noqa: S310 - of the catalogue
        try:
            with self.opener.open(request, timeout=_SECONDS) as response:
                answer = json.load(response)
                if not isinstance(answer, dict):
                    raise UnreadError(f"{service} answers no JSON object")
                return answer, response.headers
        except urllib.error.HTTPError as error:
            raise (
                NotThereError(service)
                if error.code == http.HTTPStatus.NOT_FOUND
                else UnreadError(f"{service} answers {error.code}")
            ) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise UnreadError(f"{service}: {error}") from None


class NotThereError(UnreadError):
    """The service says that there is no such thing."""

    def __init__(self, service: str) -> None:
        """Name the service."""
        super().__init__(f"{service} answers 404")


def log_in(parent: pulumi.Resource) -> Session:
    """Have the openstack provider of a resource log in.

    Raises:
        UnreadError: it cannot, or the login is not for a project.
    """
    try:
        scope = identity.get_auth_scope(name="gpu-pools", set_token_id=True, opts=pulumi.InvokeOptions(parent=parent))
    except Exception as error:  # noqa: BLE001 - Pulumi has nothing narrower for a function that failed
        raise UnreadError(" ".join(str(error).split())) from None
    if not (scope.token_id and scope.project_id):
        raise UnreadError("the login is not for a project, or not known before the deploy")
    return Session(scope.token_id, scope.project_id, _addresses(scope))


def _addresses(scope: identity.AwaitableGetAuthScopeResult) -> dict[str, str]:
    wanted = (os.environ.get("OS_ENDPOINT_TYPE") or os.environ.get("OS_INTERFACE") or "public").removesuffix("URL")
    return {
        name: _versioned(endpoint.url.rstrip("/"), version)
        for name, (types, version) in _SERVICES.items()
        for service in scope.service_catalogs
        if service.type in types
        for endpoint in service.endpoints
        if endpoint.interface == wanted and (not scope.region or scope.region in {endpoint.region, endpoint.region_id})
    }


def _versioned(url: str, version: str) -> str:
    return url if url.endswith(version) else url + version


def _following(answer: Mapping[str, Any], key: str) -> str | None:
    """Where the next page is: Glance and Magnum say `next`, Nova and Neutron have a list of links."""
    links = {link.get("rel"): link.get("href") for link in answer.get(f"{key}_links", ())}
    return answer.get("next") or links.get("next")
