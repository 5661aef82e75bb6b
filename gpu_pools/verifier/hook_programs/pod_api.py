"""How a pod of ours asks the API server, with nothing but Python: as its service account, and past any proxy.

Its text is put before that of a program which a Job runs as an argument (node_cleanup.py), so no double brace may stand in it:
Helm would take it for its own.
"""

import json
import os
import ssl
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path(os.environ.get("ACCOUNT_FOLDER", "/var/run/secrets/kubernetes.io/serviceaccount"))


def request(
    path: str, body: dict[str, Any] | None = None, kind: str = "merge-patch", method: str | None = None
) -> dict[str, Any]:
    """Ask the API server, patch where there is a body, or do what the method says."""
    token = (ACCOUNT / "token").read_text(encoding="ascii").strip()
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    if body is not None:
        headers["Content-Type"] = f"application/{kind}+json"
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    server = f"[{host}]" if ":" in host else host
    data = None if body is None else json.dumps(body).encode()
    url = f"https://{server}:{port}{path}"
    asked = urllib.request.Request(url, data=data, headers=headers, method=method or ("GET" if body is None else "PATCH"))
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted))
    with opener.open(asked, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    return found
