"""Runs calls of the real python-magnumclient, in the Python that has it: JSON in on standard input, JSON out.

In: a list of [manager, method, positional arguments, keyword arguments]. Out: what each returned, or {"error": [status, text]}.
The login comes from the environment, as for every client of OpenStack.
"""

import json
import os
import sys

from keystoneauth1 import loading, session
from magnumclient.client import Client


def main() -> None:
    names = ("auth_url", "application_credential_id", "application_credential_secret")
    given = {name: os.environ[f"OS_{name.upper()}"] for name in names}
    auth = loading.get_plugin_loader(os.environ["OS_AUTH_TYPE"]).load_from_options(**given)
    client = Client("1", session=session.Session(auth=auth), region_name=os.environ["OS_REGION_NAME"], api_version="latest")
    json.dump([call(client, *one) for one in json.load(sys.stdin)], sys.stdout)


def call(client, manager, method, positional, keywords):  # noqa: ANN001, ANN201 its types are not here
    try:
        found = getattr(getattr(client, manager), method)(*positional, **keywords)
    except Exception as error:  # noqa: BLE001 whatever the client makes of an answer
        return {"error": [getattr(error, "http_status", None) or getattr(error, "code", None), str(error)]}
    if isinstance(found, list):
        return [one.to_dict() for one in found]
    return found.to_dict() if hasattr(found, "to_dict") else None


if __name__ == "__main__":
    main()
