"""Stand-in for the Pulumi plugin openstack 5.5, as far as Magnum (containerinfra) needs it.

Does what the plugin does on its own side: automatic names, which properties force a replacement (deleting
first), waiting for a status and failing with its own sentence when another comes, and its habits: a refused
update is kept in the state as if it had been applied, and an update that changes nothing asks for nothing.
Everything else is asked of a real Magnum (sandbox.openstack.magnum_api). The plugin polls every 20 s; this does not.

Sources: terraform-provider-openstack's containerinfra resources (texts, update rules), gophercloud (the
frame around an answer), and the SDK package of that version (tokens and properties).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from sandbox.openstack.login import REGION
from sandbox.openstack.magnum_api import MagnumError
from sandbox.providers.base import Diff, Failure, PartialFailure, ServiceError, StandIn
from sandbox.providers.differences import compare
from sandbox.providers.values import Secret, Value, known

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.openstack.magnum_api import MagnumApi, Outcome

_TEMPLATE: Final = "openstack:containerinfra/clusterTemplate:ClusterTemplate"
_CLUSTER: Final = "openstack:containerinfra/cluster:Cluster"
_GROUP: Final = "openstack:containerinfra/nodeGroup:NodeGroup"
_GET_CLUSTER: Final = "openstack:containerinfra/getCluster:getCluster"
_GET_TEMPLATE: Final = "openstack:containerinfra/getClusterTemplate:getClusterTemplate"
_GET_SCOPE: Final = "openstack:identity/getAuthScope:getAuthScope"
#: Functions that find something by name or id -> what.
_LOOK_UP: Final[Mapping[str, str]] = {_GET_CLUSTER: _CLUSTER, _GET_TEMPLATE: _TEMPLATE}
_MISSING_AUTH: Final = "One of 'auth_url' or 'cloud' must be specified"


@dataclass(frozen=True)
class _Kind:
    """What the plugin knows of a resource type.

    Attributes:
        resource: its name in the plugin's messages.
        path: its path in Magnum's API, for the messages.
        required: inputs that the schema requires.
        updatable: inputs whose change does not replace; None where nothing but the region replaces.
        kept: inputs (`Optional` and `Computed` there) that stay as they are when they are given no more.
        optional: other inputs that the service's answer fills in, by which an import knows them.
    """

    resource: str
    path: str
    required: tuple[str, ...]
    updatable: frozenset[str] | None
    kept: frozenset[str]
    optional: tuple[str, ...] = ()

    def replaces(self, inputs: Mapping[str, Value]) -> tuple[str, ...]:
        """The inputs whose change replaces the resource."""
        if self.updatable is None:
            return ("region",)
        return tuple(key for key in inputs if key not in self.updatable)


_KINDS: Final[Mapping[str, _Kind]] = {
    _TEMPLATE: _Kind(
        "openstack_containerinfra_clustertemplate_v1",
        "clustertemplates",
        ("coe", "image"),
        None,
        frozenset({"clusterDistro", "networkDriver", "serverType"}),
    ),
    _CLUSTER: _Kind(
        "openstack_containerinfra_cluster_v1",
        "clusters",
        ("clusterTemplateId",),
        frozenset({"nodeCount", "clusterTemplateId"}),
        frozenset(
            {"createTimeout", "discoveryUrl", "dockerVolumeSize", "flavor", "masterFlavor", "keypair", "labels", "masterCount"}
            | {"masterLbEnabled", "fixedNetwork", "fixedSubnet", "floatingIpEnabled"}
        ),
    ),
    _GROUP: _Kind(
        "openstack_containerinfra_nodegroup_v1",
        "clusters/{cluster}/nodegroups",
        ("clusterId",),
        frozenset({"nodeCount", "minNodeCount", "maxNodeCount"}),
        frozenset({"dockerVolumeSize", "labels", "role", "minNodeCount", "imageId", "flavorId", "region"}),
        ("nodeCount", "maxNodeCount"),
    ),
}


class OpenStackStandIn(StandIn):
    """Answers for the openstack plugin."""

    package: ClassVar[str] = "openstack"
    version: ClassVar[str] = "5.5.3"

    def __init__(self, magnum: MagnumApi, environment: Mapping[str, str]) -> None:
        """Stand before a Magnum.

        Args:
            magnum: the service.
            environment: where OS_AUTH_URL and OS_CLOUD are looked up.
        """
        super().__init__()
        self._cloud = magnum
        self._environment = environment

    def configure(self, variables: dict[str, str], args: dict[str, Value]) -> None:
        """Demand an address or a cloud, as the plugin does even for a preview; nothing is sent there."""
        given = {key.rpartition(":")[2]: value for key, value in variables.items()} | args
        addressed = given.get("authUrl") or self._environment.get("OS_AUTH_URL")
        if not addressed and not given.get("cloud") and not self._environment.get("OS_CLOUD"):
            raise ServiceError(_MISSING_AUTH)

    # ---------------------------------------------------------------- before anything happens

    def check(
        self,
        type_: str,
        olds: dict[str, Value],
        news: dict[str, Value],
    ) -> tuple[dict[str, Value], list[Failure]]:
        """Fill in the automatic name and demand what the schema requires."""
        kind, inputs = _kind(type_), dict(news)
        if inputs.get("name") is None:
            inputs["name"] = olds.get("name") or f"{self.current.name}-{self.current.random_seed.hex()[:7]}"
        reason = 'Missing required argument. The argument "{0}" is required, but no definition was found.'
        failures = [(key, reason.format(_snake(key))) for key in kind.required if inputs.get(key) is None]
        return inputs, failures

    def diff(
        self,
        type_: str,
        id_: str,  # noqa: ARG002
        old_inputs: dict[str, Value],
        old_outputs: dict[str, Value],
        news: dict[str, Value],
    ) -> Diff:
        """Compare with the state; nearly every change of a cluster or a node group replaces it."""
        kind = _kind(type_)
        state = _state(kind, old_inputs, old_outputs, news)
        return compare(state, news, replace_on=kind.replaces({**state, **news}), delete_before_replace=True)

    # ---------------------------------------------------------------- the resources

    def create(
        self,
        type_: str,
        name: str,  # noqa: ARG002
        inputs: dict[str, Value],
        timeout: float,  # noqa: ARG002
        preview: bool,  # noqa: FBT001
    ) -> tuple[str, dict[str, Value]]:
        """Create a resource and wait for it."""
        if preview:
            return "", known(inputs)
        kind = _kind(type_)
        try:
            if type_ == _TEMPLATE:
                id_ = self._cloud.create_template(inputs)
            elif type_ == _CLUSTER:
                id_ = self._ready(kind, self._cloud.create_cluster(inputs), inputs)
            else:
                id_ = self._ready(kind, self._cloud.create_group(inputs["clusterId"], group_values(inputs)), inputs)
        except MagnumError as error:
            message = f"Error creating {kind.resource}: {_answer('POST', _url(kind, inputs), error)}"
            raise ServiceError(message) from error
        return id_, self._outputs(type_, id_, inputs)

    def _ready(self, kind: _Kind, outcome: Outcome, inputs: dict[str, Value]) -> str:
        self._expect(kind, outcome, "CREATE_COMPLETE", "ready", inputs)
        return outcome.id

    def _expect(self, kind: _Kind, outcome: Outcome, target: str, became: str, inputs: Mapping[str, Value]) -> None:
        """Fail as the plugin does when the resource ended in another state; it is kept in the state."""
        if outcome.status != target:
            raise PartialFailure(outcome.id, inputs, [_ended_otherwise(kind, outcome, target, became)])

    def update(
        self,
        type_: str,
        id_: str,
        old_inputs: dict[str, Value],
        old_outputs: dict[str, Value],
        news: dict[str, Value],
        preview: bool,  # noqa: FBT001
    ) -> dict[str, Value]:
        """Send what changed; a refusal leaves the wanted values in the state, as the plugin does."""
        if preview:
            return known({**old_outputs, **news})
        kind = _kind(type_)
        state = _state(kind, old_inputs, old_outputs, news)
        changed = {key for key in state.keys() | news.keys() if state.get(key) != news.get(key)}
        try:
            self._send(type_, id_, changed, news)
        except MagnumError as error:
            url = f"{_url(kind, news)}/{id_.rpartition('/')[2]}"
            reason = f"Error updating {kind.resource} {id_}: {_answer('PATCH', url, error)}"
            raise PartialFailure(id_, {**old_outputs, **news}, [reason]) from error
        return self._outputs(type_, id_, news, old_outputs)

    def _send(self, type_: str, id_: str, changed: set[str], news: dict[str, Value]) -> None:
        if not changed:
            return
        if type_ == _TEMPLATE:
            self._cloud.update_template(id_, news)
        elif type_ == _CLUSTER:
            outcome = self._cloud.update_cluster(
                id_,
                node_count=news.get("nodeCount", 1) if "nodeCount" in changed else None,
                template_id=news["clusterTemplateId"] if "clusterTemplateId" in changed else None,
            )
            self._expect(_kind(type_), outcome, "UPDATE_COMPLETE", "updated", news)
        else:
            self._send_group(id_, changed, news)

    def _send_group(self, id_: str, changed: set[str], news: dict[str, Value]) -> None:
        limits: dict[str, Value] = {key: news.get(key) for key in ("minNodeCount", "maxNodeCount") if key in changed}
        count = news.get("nodeCount", 1) if "nodeCount" in changed else None
        outcome = self._cloud.update_group(id_, limits=limits, node_count=count)
        if count is not None:
            # Nobody looks how a change of the limits alone ends.
            self._expect(_kind(_GROUP), outcome, "UPDATE_COMPLETE", "updated", news)

    def read(
        self,
        type_: str,
        id_: str,
        inputs: dict[str, Value],
        outputs: dict[str, Value],
    ) -> tuple[str, dict[str, Value], dict[str, Value]] | None:
        """The resource as it is; inputs that were given before show what they are now.

        An import has none yet: then they are all of the answer that may be given (bridge, extractInputsFromOutputs).
        """
        if self._found(type_, id_) is None:
            return None
        seen = self._outputs(type_, id_, {**outputs, **inputs}, outputs)
        if inputs:
            return id_, {key: seen.get(key, value) for key, value in inputs.items()}, seen
        kind = _kind(type_)
        given = dict.fromkeys((*kind.required, "name", *sorted(kind.kept), *kind.optional))
        return id_, {key: seen[key] for key in given if seen.get(key) is not None}, seen

    def delete(
        self,
        type_: str,
        id_: str,
        inputs: dict[str, Value],
        outputs: dict[str, Value],  # noqa: ARG002
    ) -> None:
        """Delete a resource and wait until it is gone."""
        kind = _kind(type_)
        try:
            if type_ == _TEMPLATE:
                self._cloud.delete_template(id_)
            elif type_ == _CLUSTER:
                self._gone(kind, self._cloud.delete_cluster(id_))
            else:
                self._gone(kind, self._cloud.delete_group(id_))
        except MagnumError as error:
            url = f"{_url(kind, inputs)}/{id_.rpartition('/')[2]}"
            message = f"Error deleting {kind.resource} {id_}: {_answer('DELETE', url, error)}"
            raise ServiceError(message) from error

    def _gone(self, kind: _Kind, outcome: Outcome) -> None:
        if outcome.status != "DELETE_COMPLETE":
            raise ServiceError(_ended_otherwise(kind, outcome, "DELETE_COMPLETE", "deleted"))

    # ---------------------------------------------------------------- functions

    def invoke(self, token: str, args: dict[str, Value]) -> tuple[dict[str, Value], list[Failure]]:
        """Look up a cluster or a template by name or id, or what the login is for."""
        if token == _GET_SCOPE:
            return self._scope(args), []
        if token not in _LOOK_UP:
            return super().invoke(token, args)
        name = args.get("name")
        if name is None:
            return {}, [("name", 'Missing required argument. The argument "name" is required.')]
        kind = _kind(_LOOK_UP[token])
        try:
            id_, values = (self._cloud.find_template if token == _GET_TEMPLATE else self._cloud.find_cluster)(name)
        except MagnumError as error:
            message = f"Error getting {kind.resource} {name}: {_answer('GET', f'{_url(kind, {})}/{name}', error)}"
            raise ServiceError(message) from error
        # A key and a certificate of its own for whoever asks, each time anew: nothing is kept.
        shown = {} if token == _GET_TEMPLATE else {"name": name, "kubeconfig": Secret(self._access(id_))}
        return {"id": id_, **values, **shown}, []

    def _scope(self, args: dict[str, Value]) -> dict[str, Value]:
        """The login as the plugin's data source shows it; the token only to whoever asks for it."""
        try:
            access = self._cloud.authenticate()
        except MagnumError as error:
            raise ServiceError(f"Error creating OpenStack identity client: {error}") from error
        catalog = [
            {
                **{key: service[key] for key in ("id", "name", "type")},
                "endpoints": [
                    {**{key: endpoint[key] for key in ("id", "interface", "region", "url")}, "regionId": endpoint["region_id"]}
                    for endpoint in service["endpoints"]
                ],
            }
            for service in access.service_catalog.catalog
        ]
        return {
            "id": args["name"],
            "name": args["name"],
            "region": REGION,
            "userId": access.user_id,
            "userName": access.username,
            "projectId": access.project_id,
            "projectName": access.project_name,
            "serviceCatalogs": catalog,
            **({"setTokenId": True, "tokenId": access.auth_token} if args.get("setTokenId") else {}),
        }

    # ---------------------------------------------------------------- what the plugin shows

    def _found(self, type_: str, id_: str) -> dict[str, Value] | None:
        if type_ == _TEMPLATE:
            return self._cloud.template(id_)
        return self._cloud.cluster(id_) if type_ == _CLUSTER else self._cloud.group(id_)

    def _outputs(
        self,
        type_: str,
        id_: str,
        inputs: Mapping[str, Value],
        before: Mapping[str, Value] | None = None,
    ) -> dict[str, Value]:
        found = self._found(type_, id_) or {}
        if "mergeLabels" in inputs:
            # With merged labels the plugin shows those that were asked for: the service shows all.
            found = {**found, "mergeLabels": inputs["mergeLabels"], "labels": inputs.get("labels", {})}
        if type_ != _CLUSTER:
            return found
        kept = (before or {}).get("kubeconfig") or {}
        if kept.get("host") == found.get("apiAddress"):
            # Each has a key of its own, so a new one would show as a change.
            return {**found, "kubeconfig": Secret(kept)}
        return {**found, "kubeconfig": Secret(self._access(id_))}

    def _access(self, id_: str) -> dict[str, str]:
        access = self._cloud.access(id_)
        return {
            "raw_config": access.kubeconfig,
            "host": access.server,
            "cluster_ca_certificate": access.ca_pem,
            "client_certificate": access.client_cert_pem,
            "client_key": access.client_key_pem,
        }


def group_values(inputs: Mapping[str, Value]) -> dict[str, Value]:
    """Return what the plugin sends of a new node group: no upper limit of 0 (terraform-provider-openstack, nodegroup, Create)."""
    sent = {key: value for key, value in inputs.items() if key != "clusterId"}
    return {key: value for key, value in sent.items() if (key, value) != ("maxNodeCount", 0)}


def _kind(type_: str) -> _Kind:
    kind = _KINDS.get(type_)
    if kind is None:
        message = f"unrecognized resource type (Check): {type_}. The sandbox stands in for: {', '.join(_KINDS)}"
        raise ServiceError(message)
    return kind


def _ended_otherwise(kind: _Kind, outcome: Outcome, target: str, became: str) -> str:
    """The plugin's sentence about a wait that ended elsewhere: a failure has its reason, any other state does not."""
    begin = f"Error waiting for {kind.resource} {outcome.id.rpartition('/')[2]} to become {became}: "
    if outcome.status.endswith("_FAILED"):
        return f"{begin}{kind.resource} is in an error state: {outcome.reason}"
    return f"{begin}unexpected state '{outcome.status}', wanted target '{target}'. last error: %!s(<nil>)"


def _state(
    kind: _Kind, old_inputs: Mapping[str, Value], old_outputs: Mapping[str, Value], news: Mapping[str, Value]
) -> dict[str, Value]:
    """What new inputs are compared with: the state's outputs, as in every plugin bridged from Terraform.

    So a refused update, which is kept in the state, is not tried again until a refresh shows the truth; and of what is given
    no more the kind's `kept` are not a change.
    """
    shown = {key: old_outputs[key] for key in news if key in old_outputs}
    return {key: value for key, value in {**old_inputs, **shown}.items() if key in news or key not in kind.kept}


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


def _url(kind: _Kind, inputs: Mapping[str, Value]) -> str:
    return f"https://magnum.sandbox.invalid/v1/{kind.path.format(cluster=inputs.get('clusterId', ''))}"


_EXPECTED: Final[Mapping[str, str]] = {"POST": "[201 202]", "PATCH": "[200 202]", "DELETE": "[202 204]", "GET": "[200]"}


def _answer(method: str, url: str, error: MagnumError) -> str:
    """Magnum's answer in the frame that gophercloud puts around it."""
    return (
        f"Expected HTTP response code {_EXPECTED[method]} when accessing [{method} {url}], "
        f"but got {error.status} instead: {error.body}"
    )
