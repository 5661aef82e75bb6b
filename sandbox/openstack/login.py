"""Logs in to the sandbox's Keystone as clients of OpenStack do, for whoever asks Keystone or Magnum.

keystoneauth takes a tenth of a second to load. So here, and in the other modules of this folder that the commands of every stack
load, it is loaded by the function that needs it: stacks on other platforms do not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sandbox.system import peers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from keystoneauth1 import session
    from keystoneauth1.identity import v3
    from requests.adapters import HTTPAdapter

DOMAIN: Final = "default"
REGION: Final = "RegionOne"


def auth(login: Mapping[str, str]) -> v3.Auth:
    """What gets tokens for a login; an application credential is for one project already.

    Args:
        login: the variables OS_AUTH_URL, and OS_APPLICATION_CREDENTIAL_ID, OS_APPLICATION_CREDENTIAL_SECRET, or OS_USERNAME,
            OS_PASSWORD, OS_PROJECT_NAME, and the domains' ids where they are not the sandbox's.
    """
    from keystoneauth1.identity import v3  # noqa: PLC0415

    if "OS_USERNAME" not in login:
        return v3.ApplicationCredential(
            login["OS_AUTH_URL"],
            application_credential_id=login["OS_APPLICATION_CREDENTIAL_ID"],
            application_credential_secret=login["OS_APPLICATION_CREDENTIAL_SECRET"],
        )
    return v3.Password(
        login["OS_AUTH_URL"],
        username=login["OS_USERNAME"],
        password=login["OS_PASSWORD"],
        user_domain_id=login.get("OS_USER_DOMAIN_ID", DOMAIN),
        project_name=login["OS_PROJECT_NAME"],
        project_domain_id=login.get("OS_PROJECT_DOMAIN_ID", DOMAIN),
    )


def client(tokens: v3.Auth, seconds: float) -> session.Session:
    """What sends requests; it logs in with the first, and anew once its token is good no more.

    Args:
        tokens: who asks.
        seconds: how long an answer may take.
    """
    import requests  # noqa: PLC0415
    from keystoneauth1 import session  # noqa: PLC0415

    sends = requests.Session()
    sends.mount("http://", _own_servers_only())
    # Else requests would send what a .netrc has for any host.
    sends.auth = lambda request: request
    return session.Session(tokens, sends, timeout=seconds)


def _own_servers_only() -> HTTPAdapter:
    """What sends nothing to a server of another user: Keystone may have died, and whoever takes its port would get the login."""
    from requests.adapters import HTTPAdapter  # noqa: PLC0415
    from urllib3.connection import HTTPConnection  # noqa: PLC0415
    from urllib3.connectionpool import HTTPConnectionPool  # noqa: PLC0415

    class Connection(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            peers.require_own_server(self.sock)

    class Pool(HTTPConnectionPool):
        ConnectionCls = Connection

    adapter = HTTPAdapter()
    adapter.poolmanager.pool_classes_by_scheme = {**adapter.poolmanager.pool_classes_by_scheme, "http": Pool}
    return adapter
