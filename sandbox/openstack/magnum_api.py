"""Cluster templates, clusters and node groups of a real Magnum, as the openstack plugin names and awaits them.

Translates and waits, nothing else: what is allowed, and what becomes of an operation, is Magnum's affair, and its refusals are
passed on as they are. keystoneauth gets the token, renews it, and finds Magnum in the catalogue of services; openstacksdk, above
it, has no node groups, no upgrades and no resizing. Two things differ from the plugin: it polls every 20 seconds, this several
times a second; and it takes a row that is not there yet for a deleted one, this waits a few seconds for it, since at this pace it
would run into that at every creation.

Sources: Magnum's API reference; the containerinfra resources of terraform-provider-openstack (which request for which change).
"""

from __future__ import annotations

import base64
import json
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from sandbox.clouds.refusal import Refusal
from sandbox.openstack.login import REGION, auth, client

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from keystoneauth1.access import AccessInfo

Values = dict[str, Any]
"""Properties as the plugin names them: plain, camelCase."""

_MICROVERSION: Final = "1.10"
"""The newest that the plugin asks for: groups of no nodes."""
_POLL_SECONDS: Final = 0.3
_APPEARS_SECONDS: Final = 10.0
_SETTLE_SECONDS: Final = 300.0
_REQUEST_SECONDS: Final = 60.0
_KEY_BITS: Final = 2048
_BAD_REQUEST, _NOT_FOUND = 400, 404
_LOOKS: Final = 10
_MAGNUM: Final = {"service_type": "container-infra", "interface": "public", "skip_discovery": True}
_NAMES: Final = {"image": "image_id", "flavor": "flavor_id", "masterFlavor": "master_flavor_id"}
"""Properties whose name in the API is not the same in another spelling."""
_NOT_SENT: Final = frozenset({"region", "clusterId", "kubeconfig"})


class MagnumError(Refusal):
    """What Magnum's API answers.

    Attributes:
        status: the HTTP status; 0 where nobody answered.
        detail: Magnum's own sentence.
        body: the JSON document of the answer.
    """

    def __init__(self, status: int, detail: str, body: str) -> None:
        """Keep the answer."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.body = body


@dataclass(frozen=True)
class Outcome:
    """Where an accepted operation ended.

    Attributes:
        id: what it was about.
        status: Magnum's status; DELETE_COMPLETE for what cannot be found.
        reason: why, where it failed.
    """

    id: str
    status: str
    reason: str = ""


@dataclass(frozen=True)
class Access:
    """How to reach a cluster as its administrator.

    Attributes:
        server: address of its API.
        ca_pem: certificate of its authority.
        client_cert_pem: the administrator's certificate, signed by Magnum.
        client_key_pem: its key, made here.
        kubeconfig: all of it as the text of a kubeconfig.
    """

    server: str
    ca_pem: str
    client_cert_pem: str
    client_key_pem: str = field(repr=False)
    kubeconfig: str = field(repr=False)


class MagnumApi:
    """The service. Every method may raise MagnumError."""

    def __init__(self, login: Mapping[str, str]) -> None:
        """Log in when the first request is made.

        Args:
            login: who asks (sandbox.openstack.login).
        """
        self.tokens = auth(login)
        self.client = client(self.tokens, _REQUEST_SECONDS)

    # ---------------------------------------------------------------- cluster templates

    def create_template(self, values: Values) -> str:
        """Create a cluster template and return its id."""
        return str(self._call("POST", "clustertemplates", _request(values))["uuid"])

    def update_template(self, id_: str, values: Values) -> None:
        """Change what differs."""
        self._patch(f"clustertemplates/{id_}", _request(values))

    def delete_template(self, id_: str) -> None:
        """Delete a template; one that is gone is not an error."""
        self._delete(f"clustertemplates/{id_}")

    def template(self, id_: str) -> Values | None:
        """A template as the plugin shows it."""
        found = self._find(f"clustertemplates/{id_}")
        return None if found is None else _template(found)

    def find_template(self, name: str) -> tuple[str, Values]:
        """The one template of that name or id."""
        found = self._call("GET", f"clustertemplates/{name}")
        return found["uuid"], _template(found)

    def has_template(self, name: str) -> bool:
        """Whether there is a template of that name or id."""
        return self._find(f"clustertemplates/{name}") is not None

    # ---------------------------------------------------------------- clusters

    def create_cluster(self, values: Values) -> Outcome:
        """Create a cluster; the outcome says where it ended."""
        id_ = self._call("POST", "clusters", _request(values))["uuid"]
        return self._ended(id_, f"clusters/{id_}", self._settled(f"clusters/{id_}"))

    def update_cluster(self, id_: str, *, node_count: int | None = None, template_id: str | None = None) -> Outcome:
        """Resize the default workers, or move to another template (upgrade)."""
        path = f"clusters/{id_}"
        if template_id is not None:
            body = {"cluster_template": template_id, "max_batch_size": 1, "nodegroup": "default-worker"}
            self._call("POST", f"{path}/actions/upgrade", body)
        if node_count is not None:
            self._call("PATCH", path, [{"op": "replace", "path": "/node_count", "value": node_count}])
            # A dropped change never shows there; the cluster's status then says what it was before.
            self._settled(f"{path}/nodegroups/default-worker", node_count=node_count)
        status = self._settled(path, **({} if template_id is None else {"cluster_template_id": template_id}))
        return self._ended(id_, path, status)

    def delete_cluster(self, id_: str) -> Outcome:
        """Delete a cluster with everything in it; one that is gone is not an error."""
        return self._ended(id_, f"clusters/{id_}", self._deleted(f"clusters/{id_}"))

    def cluster(self, id_: str) -> Values | None:
        """A cluster as the plugin shows it, without its kubeconfig."""
        found = self._find(f"clusters/{id_}")
        if found is None:
            return None
        shown = _shown(found, {"flavor_id": "flavor", "master_flavor_id": "masterFlavor"})
        return {**shown, "nodeCount": self._default_workers(id_), "region": REGION}

    def find_cluster(self, name: str) -> tuple[str, Values]:
        """The one cluster of that name or id, as the plugin's data source shows it: with the workers of all groups."""
        found = self._call("GET", f"clusters/{name}")
        return found["uuid"], {**_shown(found, {"flavor_id": "flavor", "master_flavor_id": "masterFlavor"}), "region": REGION}

    def has_cluster(self, name: str) -> bool:
        """Whether there is a cluster of that name or id."""
        return self._find(f"clusters/{name}") is not None

    def find_group(self, cluster_id: str, name: str) -> str | None:
        """The id of a node group, `<cluster>/<group>`; None where there is none of that name."""
        found = self._find(f"clusters/{cluster_id}/nodegroups/{name}")
        return f"{cluster_id}/{found['uuid']}" if found else None

    def _default_workers(self, id_: str) -> int:
        # The cluster's own number counts the workers of all groups.
        return int(self._call("GET", f"clusters/{id_}/nodegroups/default-worker")["node_count"])

    def access(self, id_: str) -> Access:
        """Make a key and have Magnum sign it, as the plugin does."""
        cluster = self._call("GET", f"clusters/{id_}")
        key, request = _make_key_and_request()
        access = Access(
            server=cluster["api_address"],
            ca_pem=self._call("GET", f"certificates/{id_}")["pem"],
            client_cert_pem=self._call("POST", "certificates", {"cluster_uuid": id_, "csr": request})["pem"],
            client_key_pem=key,
            kubeconfig="",
        )
        return replace(access, kubeconfig=_kubeconfig(cluster["name"], access))

    def addresses(self) -> dict[str, str]:
        """Where the API servers of clusters are that have one: the cluster's id -> its address."""
        clusters = self._call("GET", "clusters/detail")["clusters"]
        return {cluster["uuid"]: cluster["api_address"] for cluster in clusters if cluster["api_address"]}

    # ---------------------------------------------------------------- node groups

    def create_group(self, cluster_id: str, values: Values) -> Outcome:
        """Create a node group; the outcome says where it ended once the API had accepted it."""
        id_ = self._call("POST", f"clusters/{cluster_id}/nodegroups", _request(values, same=("flavorId", "imageId")))["uuid"]
        path = _group_path(f"{cluster_id}/{id_}")
        return self._ended(f"{cluster_id}/{id_}", path, self._settled(path))

    def update_group(self, id_: str, *, limits: Mapping[str, int | None], node_count: int | None) -> Outcome:
        """Change a group's limits (PATCH), then its size (resize).

        Args:
            id_: `<cluster>/<group>`.
            limits: minNodeCount, maxNodeCount as far as they change.
            node_count: the new size, None to leave it.
        """
        cluster_id, _, group_id = id_.partition("/")
        path = _group_path(id_)
        if limits:
            changes = [
                {"op": "remove", "path": f"/{_snake(key)}"}
                if value is None
                else {"op": "replace", "path": f"/{_snake(key)}", "value": value}
                for key, value in limits.items()
            ]
            self._call("PATCH", path, changes)
            self._settled(path, **{_snake(key): value for key, value in limits.items()})
        if node_count is not None:
            self._call("POST", f"clusters/{cluster_id}/actions/resize", {"node_count": node_count, "nodegroup": group_id})
        return self._ended(id_, path, self._settled(path, **({} if node_count is None else {"node_count": node_count})))

    def delete_group(self, id_: str) -> Outcome:
        """Delete a node group; one that is gone is DELETE_COMPLETE."""
        path = _group_path(id_)
        return self._ended(id_, path, self._deleted(path))

    def group(self, id_: str) -> Values | None:
        """A node group as the plugin shows it."""
        found = self._find(_group_path(id_)) if "/" in id_ else None
        if found is None:
            return None
        return {**_shown(found, {}), "clusterId": id_.partition("/")[0], "region": REGION}

    def scale(self, cluster: str, group: str, count: int) -> None:
        """Set the size of a node group, as the cluster autoscaler does through the resize API.

        Args:
            cluster: name or id of the cluster.
            group: name of the node group.
            count: nodes wanted, within the group's limits.
        """
        cluster_id = self._call("GET", f"clusters/{cluster}")["uuid"]
        group_id = self._call("GET", f"clusters/{cluster_id}/nodegroups/{group}")["uuid"]
        self.update_group(f"{cluster_id}/{group_id}", limits={}, node_count=count)

    def get(self, path: str) -> dict[str, Any]:
        """An object as the API itself shows it.

        Args:
            path: below the service's address.
        """
        return self._call("GET", path)

    # ---------------------------------------------------------------- after a kill

    def everything(self) -> set[str]:
        """The ids of what the project has, the default groups of clusters apart: they come and go with these."""
        return {id_ for id_, _ in self._all()}

    def made(self) -> set[str]:
        """The ids of what was asked for and is whole."""
        return {id_ for id_, status in self._all() if status != "CREATE_FAILED"}

    def settle(self) -> None:
        """Wait until nothing is in progress: what an engine asked for before it was killed, Magnum still does.

        Raises:
            MagnumError: when something is in progress for minutes.
        """
        end = time.monotonic() + _SETTLE_SECONDS
        while busy := [id_ for id_, status in self._all() if status.endswith("_IN_PROGRESS")]:
            if time.monotonic() > end:
                raise MagnumError(0, f"in progress for more than {_SETTLE_SECONDS:g} s: {', '.join(busy)}", "")
            time.sleep(_POLL_SECONDS)

    def remove_unknown(self, known: Collection[str]) -> None:
        """Delete what no stack knows, made for an engine that never heard of it; and what failed to be made.

        Args:
            known: the ids in the engine's state.
        """
        kept = self.made().intersection(known)
        unknown = [id_ for id_, _ in self._all() if id_ not in kept]
        templates = self._own("clustertemplates")
        for id_ in (id_ for id_ in unknown if "/" in id_):
            self.delete_group(id_)
        for id_ in (id_ for id_ in unknown if "/" not in id_ and id_ not in templates):
            self.delete_cluster(id_)
        for id_ in (id_ for id_ in unknown if id_ in templates):
            self.delete_template(id_)

    def _all(self) -> Iterator[tuple[str, str]]:
        """Ids and statuses; a template has none."""
        yield from ((id_, "") for id_ in self._own("clustertemplates"))
        for cluster in self._call("GET", "clusters")["clusters"]:
            id_ = cluster["uuid"]
            yield id_, cluster["status"]
            # It may go between the two requests.
            groups = (self._find(f"clusters/{id_}/nodegroups") or {"nodegroups": []})["nodegroups"]
            yield from ((f"{id_}/{group['uuid']}", group["status"]) for group in groups if not group["is_default"])

    def _own(self, collection: str) -> set[str]:
        """The ids of what is the project's; public ones of others are listed, too."""
        project = self.client.get_project_id()
        found = self._call("GET", f"{collection}/detail")[collection]
        return {one["uuid"] for one in found if one["project_id"] == project}

    # ---------------------------------------------------------------- waiting

    def _ended(self, id_: str, path: str, status: str) -> Outcome:
        """The outcome, with Magnum's reason where it is a failure."""
        found = self._find(path) if status.endswith("_FAILED") else None
        return Outcome(id_, status, str((found or {}).get("status_reason") or ""))

    def _settled(self, path: str, **wanted: str | int | None) -> str:
        """Wait until nothing is in progress; DELETE_COMPLETE for what cannot be found.

        Args:
            path: what to look at.
            wanted: what it shows once the conductor has taken the operation up; some operations it never takes up.
        """
        patience, seen = time.monotonic() + _APPEARS_SECONDS, False
        while True:
            found = self._find(path)
            status = "DELETE_COMPLETE" if found is None else str(found["status"])
            # What was there and is not any more does not come again.
            begun = seen if found is None else all(found.get(key) == value for key, value in wanted.items())
            seen = seen or found is not None
            if not status.endswith("_IN_PROGRESS") and (begun or time.monotonic() > patience):
                return status
            time.sleep(_POLL_SECONDS)

    def _deleted(self, path: str) -> str:
        """Delete something and wait until it is gone; its status if it stays."""
        if not self._delete(path):
            return "DELETE_COMPLETE"
        patience = time.monotonic() + _APPEARS_SECONDS
        while (found := self._find(path)) is not None:
            status = str(found["status"])
            begun = status.startswith("DELETE")
            if status.endswith("_FAILED") and (begun or time.monotonic() > patience):
                return status
            time.sleep(_POLL_SECONDS)
        return "DELETE_COMPLETE"

    # ---------------------------------------------------------------- requests

    def _find(self, path: str) -> dict[str, Any] | None:
        try:
            return self._call("GET", path)
        except MagnumError as error:
            if error.status != _NOT_FOUND:
                raise
            return None

    def _delete(self, path: str) -> bool:
        """Ask for a deletion; False when there is nothing to delete."""
        try:
            self._call("DELETE", path)
        except MagnumError as error:
            if error.status != _NOT_FOUND:
                raise
            return False
        return True

    def _patch(self, path: str, wanted: Mapping[str, Any]) -> None:
        """Send what differs from what is there."""
        current = self._call("GET", path)
        changed = {key: value for key, value in wanted.items() if current.get(key) != value}
        if changed:
            self._call("PATCH", path, [{"op": "replace", "path": f"/{key}", "value": value} for key, value in changed.items()])

    def _call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send a request; look again where a cluster is half gone.

        Magnum takes the groups of a deleted cluster away before the cluster, and its own answer about a cluster without masters
        is then invalid to it: 400.
        """
        for _ in range(_LOOKS):
            try:
                return self._ask(method, path, body)
            except MagnumError as error:
                if method != "GET" or error.status != _BAD_REQUEST:
                    raise
            time.sleep(_POLL_SECONDS)
        return self._ask(method, path, body)

    def authenticate(self) -> AccessInfo:
        """A new token, and what Keystone says of it: who, for which project, and the catalogue of services."""
        with _refused():
            return self.tokens.get_auth_ref(self.client)

    def _ask(self, method: str, path: str, body: object) -> dict[str, Any]:
        with _refused():
            response = self.client.request(path, method, json=body, endpoint_filter=_MAGNUM, microversion=_MICROVERSION)
        return dict(response.json()) if response.content else {}


def _make_key_and_request() -> tuple[str, str]:
    """Make an administrator's key, and the request to have it signed; both as PEM."""
    # Stacks on other platforms load this module, and need no cryptography (login.py).
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    names = [x509.NameAttribute(NameOID.COMMON_NAME, "admin"), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters")]
    request = x509.CertificateSigningRequestBuilder(x509.Name(names)).sign(key, hashes.SHA256())
    form, secret = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    return key.private_bytes(pem, form, secret).decode(), request.public_bytes(pem).decode()


@contextmanager
def _refused() -> Iterator[None]:
    """Have what goes wrong as a MagnumError; Keystone's refusal of a login, too."""
    from keystoneauth1.exceptions import ClientException, HttpError  # noqa: PLC0415 as in login.py

    try:
        yield
    except HttpError as error:
        text = error.response.text if error.response is not None else str(error)
        raise MagnumError(error.http_status, _detail(text), text) from error
    except ClientException as error:
        raise MagnumError(0, _no_answer(error), "") from error


def _no_answer(error: BaseException) -> str:
    """Where nobody answered, and what the connection ran into: three libraries have wrapped it since."""
    from requests import RequestException  # noqa: PLC0415 as in login.py

    address, cause = "", error
    wrapped: BaseException | None = error
    while wrapped is not None:
        if isinstance(wrapped, RequestException) and wrapped.request is not None:
            address = str(wrapped.request.url)
        cause, wrapped = wrapped, wrapped.__context__
    return f"{address}: no answer: {cause}"


def _group_path(id_: str) -> str:
    cluster_id, _, group_id = id_.partition("/")
    return f"clusters/{cluster_id}/nodegroups/{group_id}"


def _request(values: Values, same: tuple[str, ...] = ()) -> dict[str, Any]:
    """Properties as the API names them; `same` are those that only differ in spelling although others of the name do not."""
    names = {key: _NAMES.get(key) or _snake(key) for key in values if key not in same} | {key: _snake(key) for key in same}
    return {names[key]: value for key, value in values.items() if value is not None and key not in _NOT_SENT}


def _template(found: Mapping[str, Any]) -> Values:
    names = {api: plugin for plugin, api in _NAMES.items()}
    return {**_shown(found, names), "region": REGION}


def _shown(found: Mapping[str, Any], names: Mapping[str, str]) -> Values:
    """An object of the API as the plugin shows it: its names, nothing that is not set, nothing of the API's own."""
    hidden = {"uuid", "links", "status", "merge_labels", "stack_id"}
    values = {names.get(key) or _camel(key): value for key, value in found.items() if value is not None and key not in hidden}
    return values | ({"stackId": found["stack_id"]} if found.get("stack_id") and "api_address" in found else {})


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _detail(text: str) -> str:
    """Magnum's own sentence out of an answer; the whole answer where there is none."""
    try:
        return str(json.loads(text)["errors"][0]["detail"])
    except (ValueError, KeyError, IndexError, TypeError):
        return text


def _kubeconfig(name: str, cluster: Access) -> str:
    def encoded(pem: str) -> str:
        return base64.b64encode(pem.encode()).decode()

    user = {"client-certificate-data": encoded(cluster.client_cert_pem), "client-key-data": encoded(cluster.client_key_pem)}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "default",
            "clusters": [
                {"name": name, "cluster": {"server": cluster.server, "certificate-authority-data": encoded(cluster.ca_pem)}}
            ],
            "contexts": [{"name": "default", "context": {"cluster": name, "user": "admin"}}],
            "users": [{"name": "admin", "user": user}],
        },
        indent=2,
    )
