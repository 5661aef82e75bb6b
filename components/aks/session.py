"""Asks Azure Resource Manager with the login of Pulumi's plugin: GET requests, and PUT for the one thing that no resource does.

The plugin logs in, whatever the login is (az CLI, service principal, OIDC, managed identity, workload identity): its function
getClientToken hands out the token that its own requests carry. So no rule of Azure's for logging in is repeated here, and no
library of Azure's is needed; the standard library sends the requests. Where to is read as the plugin reads it: `metadataHost`
(`ARM_METADATA_HOSTNAME`), whose metadata name the address, else `environment` (`ARM_ENVIRONMENT`, `AZURE_ENVIRONMENT`); of the
az CLI's own environment nothing is known, so another cloud than the public one must be written there. Arguments of a provider
that a program makes itself cannot be read before the deploy: for it the environment counts alone.
Read in provider/pkg/provider/auth_azidentity.go and provider/pkg/azure/cloud of pulumi-azure-native, and in its SDK 3.29.0.

The token stays in this process: a function's result is in no state, and nothing here prints it. It goes nowhere but to that
address, only over TLS: no redirection is followed, and no next page elsewhere. Trusted are the authorities of the machine, or
those of SSL_CERT_FILE, as Go programs have it. What is not answered, not in time or not allowed is an `UnreadError`, whose text
is for users; where a right is missing it names it.
"""

import json
import os
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import pulumi
from pulumi_azure_native import authorization

from gpu_pools.verifier.deadline import Deadline

#: For all of a request, to the last byte of the answer. The list of VM sizes of a region takes Azure several seconds.
_SECONDS = 30.0
_PAGES = 20
_LARGEST_ANSWER = 64 * 1024 * 1024
#: Who is told to come again later than this is not waited for.
_PATIENCE_SECONDS = 5.0
#: How zlib is told that it is gzip.
_GZIP = 16 + zlib.MAX_WBITS
_METADATA = "/metadata/endpoints?api-version=2022-09-01"
#: Name of a cloud, as the plugin knows it -> its Resource Manager.
_PUBLIC = "https://management.azure.com"
_CHINA = "https://management.chinacloudapi.cn"
_GOVERNMENT = "https://management.usgovcloudapi.net"
_CLOUDS: Mapping[str, str] = {
    **dict.fromkeys(("", "public", "azurecloud"), _PUBLIC),
    **dict.fromkeys(("china", "azurechinacloud"), _CHINA),
    **dict.fromkeys(
        ("usgov", "usgovernment", "azureusgovernment", "azureusgovernmentcloud", "usgovernmentl4"),
        _GOVERNMENT,
    ),
}
_RIGHT = re.compile(r"perform action '([^']+)'")


class UnreadError(Exception):
    """Azure did not say it; the text is why."""


class NotThereError(UnreadError):
    """Azure says that there is no such thing."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("Azure answers 404")


class RefusedError(UnreadError):
    """Azure has answered a request, with a refusal."""

    def __init__(self, status: int, text: str, said: str) -> None:
        """Say so.

        Args:
            status: of the answer.
            text: for users.
            said: the words of Azure's.
        """
        super().__init__(text)
        self.said = said
        self.is_of_rights = status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """A redirection would take the token elsewhere: it is an answer as any other that is none."""

    def redirect_request(self, *_given: Any) -> None:  # noqa: ANN401 - the base class's own
        """Do not follow it."""
        return


@dataclass(frozen=True)
class Session:
    """A login.

    Attributes:
        address: of the Resource Manager, without a path.
        subscription: what is asked about.
        token: what its requests carry.
    """

    address: str
    subscription: str
    token: str = field(repr=False)

    def get(self, path: str, version: str, **query: str) -> dict[str, Any]:
        """What Azure answers: a JSON object.

        Args:
            path: from the first slash on.
            version: of the API.
            query: besides that, with `_` for `$`.

        Raises:
            NotThereError: there is no such thing.
            UnreadError: there is no such answer.
        """
        asked = {"api-version": version, **{name.replace("_", "$"): value for name, value in query.items()}}
        return self._ask(f"{self.address}{path}?{urllib.parse.urlencode(asked, quote_via=urllib.parse.quote)}")

    def below(self, path: str, version: str, **query: str) -> dict[str, Any]:
        """The same below the subscription."""
        return self.get(f"/subscriptions/{self.subscription}{path}", version, **query)

    def pages(self, path: str, version: str, **query: str) -> Iterator[dict[str, Any]]:
        """The entries of a list, whatever number of pages it has.

        Raises:
            UnreadError: it cannot be read, or not to its end.
        """
        answer = self.get(path, version, **query)
        for _ in range(_PAGES):
            yield from answer.get("value") or ()
            following = answer.get("nextLink")
            if not following:
                return
            if _place(following) != _place(self.address):
                raise UnreadError(f"Azure's next page is elsewhere, at {urlsplit(following).netloc}")
            answer = self._ask(following)
        raise UnreadError(f"Azure lists more than {_PAGES} pages")

    def pages_below(self, path: str, version: str, **query: str) -> Iterator[dict[str, Any]]:
        """The same below the subscription."""
        return self.pages(f"/subscriptions/{self.subscription}{path}", version, **query)

    def put_below(self, path: str, version: str, body: Mapping[str, Any], etag: str) -> str | None:
        """Have something changed below the subscription, unless somebody else has changed it meanwhile.

        Args:
            path: from the first slash on.
            version: of the API.
            body: all of it.
            etag: of what it was made from; empty: Azure has shown none, and nothing is compared.

        Returns:
            Where the operation can be followed; None: Azure does not say, or not here.

        Raises:
            RefusedError: Azure does not take it.
            UnreadError: there is no such answer.
        """
        url = f"{self.address}/subscriptions/{self.subscription}{path}?api-version={version}"
        headers = {**self._login(), "Content-Type": "application/json", **({"If-Match": etag} if etag else {})}
        request = _request(url, headers, method="PUT", data=json.dumps(body).encode())
        _, answered = _answered(request)
        following = answered.get("Azure-AsyncOperation")
        return following if following and _place(following) == _place(self.address) else None

    def operation(self, url: str) -> dict[str, Any]:
        """How far an operation is, that `put_below` has told of.

        Raises:
            UnreadError: there is no such answer.
        """
        return self._ask(url)

    def _login(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def _ask(self, url: str) -> dict[str, Any]:
        return _asked(url, self._login())


def log_in(parent: pulumi.Resource) -> Session:
    """Have the azure-native provider of a resource log in.

    Raises:
        UnreadError: it cannot, or where Azure is cannot be told.
    """
    options = pulumi.InvokeOptions(parent=parent)
    try:
        token = authorization.get_client_token(opts=options).token
        subscription = authorization.get_client_config(opts=options).subscription_id
    except Exception as error:  # noqa: BLE001 - Pulumi has nothing narrower for a function that failed
        raise UnreadError(f"no login: {' '.join(str(error).split())}") from None
    if not (token and subscription):
        raise UnreadError("no login: it is for no subscription, or not known before the deploy")
    own = parent.get_provider("azure-native:authorization:getClientToken") is not None
    return Session(resource_manager(default_provider=not own), subscription, token)


def resource_manager(*, default_provider: bool) -> str:
    """The address of the Resource Manager that a provider uses.

    Args:
        default_provider: whether it is the one that Pulumi makes itself, of the stack's configuration.

    Raises:
        UnreadError: the metadata do not say it, or there is no cloud of that name.
    """
    config = pulumi.Config("azure-native") if default_provider else None

    def said(key: str, *variables: str) -> str:
        own = config.get(key) if config else None
        return own or next((value for name in variables if (value := os.environ.get(name))), "")

    if host := said("metadataHost", "ARM_METADATA_HOSTNAME"):
        address = host if "://" in host else f"https://{host}"
        found = str(_asked(f"{address.rstrip('/')}{_METADATA}", {}).get("resourceManager") or "")
        return _checked(found.rstrip("/"))
    name = said("environment", "ARM_ENVIRONMENT", "AZURE_ENVIRONMENT")
    if name.lower() not in _CLOUDS:
        raise UnreadError(f"there is no Azure called {name}; the plugin knows public, china and usgovernment")
    return _CLOUDS[name.lower()]


def _checked(address: str) -> str:
    if urlsplit(address).scheme != "https":
        raise UnreadError(f"the Resource Manager's address {address!r} is not one of https")
    return address


def _place(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    # Azure writes the port of https into some of them.
    return parts.scheme, parts.netloc.lower().removesuffix(":443")


def _asked(url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    answer, _ = _answered(_request(url, headers))
    return answer


def _request(url: str, headers: Mapping[str, str], **more: Any) -> urllib.request.Request:  # noqa: ANN401 - what urllib takes
    own = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "gpu-pools"}
    return urllib.request.Request(_checked(url), headers={**own, **headers}, **more)  # noqa: S310 - https, as was just looked at


def _answered(request: urllib.request.Request) -> tuple[dict[str, Any], Message]:
    """A JSON object with the headers of the answer; who is throttled for a moment asks a second time."""
    wait: float | None = None
    while True:
        try:
            with Deadline(_SECONDS) as deadline:
                try:
                    return _read(_opener(deadline).open(request, timeout=deadline.left()), deadline)
                except urllib.error.HTTPError as error:
                    with error:
                        wait = _wait(error) if wait is None else None
                        if wait is None:
                            raise _refused(error) from None
            time.sleep(wait)
        except (HTTPException, OSError, ValueError, zlib.error) as error:
            raise UnreadError(f"Azure: {getattr(error, 'reason', None) or error}") from None


def _opener(deadline: Deadline) -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirection, *deadline.handlers(ssl.create_default_context()))


def _read(response: HTTPResponse, deadline: Deadline) -> tuple[dict[str, Any], Message]:
    with response:
        content = response.read(_LARGEST_ANSWER)
    deadline.check()
    if response.headers.get("Content-Encoding") == "gzip":
        content = zlib.decompressobj(_GZIP).decompress(content, _LARGEST_ANSWER)
    answer = json.loads(content)
    if not isinstance(answer, dict):
        raise UnreadError("Azure answers no JSON object")
    return answer, response.headers


def _wait(error: urllib.error.HTTPError) -> float | None:
    """Seconds to wait before asking once more; None: not at all."""
    if error.code != HTTPStatus.TOO_MANY_REQUESTS:
        return None
    try:
        seconds = float(error.headers.get("Retry-After") or 1)
    except ValueError:
        return None
    return seconds if 0 <= seconds <= _PATIENCE_SECONDS else None


def _refused(error: urllib.error.HTTPError) -> UnreadError:
    """What Azure refuses with, as far as it helps: its code, and a right that is missing."""
    if error.code == HTTPStatus.NOT_FOUND:
        return NotThereError()
    try:
        answer = json.loads(error.read(_LARGEST_ANSWER))
        said = answer.get("error") or answer
        code, message = str(said.get("code") or ""), str(said.get("message") or "")
    except (ValueError, AttributeError, OSError):
        code, message = "", ""
    text = f"Azure answers {error.code}" + (f" {code}" if code else "")
    if right := _RIGHT.search(message):
        text = f"{text}: the right {right[1]} is missing"
    elif error.code == HTTPStatus.TOO_MANY_REQUESTS:
        text = f"{text}: come again after {error.headers.get('Retry-After') or 'a while'} s"
    return RefusedError(error.code, text, message)
