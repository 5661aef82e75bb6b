"""Stand-in for the Pulumi plugin azure-native 3.29, as far as AKS and a network for it need.

Does what the plugin does on its own side: automatic names and locations, the schema's checks at preview
(types, required properties, the patterns of names), the list of properties that force a replacement, and
the refusal to create what exists. Everything else is asked of the service (sandbox.clouds.azure), which
answers only at `up`, as Azure does. A refresh takes into the inputs whatever has changed in Azure since the outputs of before
were written: also the pools that were added to a cluster since, which the cluster's own inputs never named.

Sources: pulumi-azure-native's provider/pkg/gen/replacement.go (replacements), provider/pkg/provider/provider.go and diff.go
(checks with their texts, preview of an update, refresh), and the SDK package of that version (tokens and properties).
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from gpu_pools.platforms.aks import azure_types
from sandbox.clouds import azure_answers, azure_beside, azure_ids, azure_networks, azure_observing, azure_rules
from sandbox.clouds.azure_errors import AzureError
from sandbox.clouds.azure_rest import ResourceManager
from sandbox.clouds.entra import TENANT
from sandbox.providers.base import Configurations, Diff, Failure, ServiceError, StandIn
from sandbox.providers.differences import compare
from sandbox.providers.values import UNKNOWN, Secret, Value, known

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sandbox.clouds.azure import AzureCloud
    from sandbox.clouds.azure_observing import ObservingKind
    from sandbox.clouds.azure_rules import Body

_GROUP: Final = "azure-native:resources:ResourceGroup"
_NETWORK: Final = "azure-native:network:VirtualNetwork"
_CLUSTER: Final = "azure-native:containerservice:ManagedCluster"
_POOL: Final = "azure-native:containerservice:AgentPool"

_WINDOW: Final = "azure-native:containerservice:MaintenanceConfiguration"
_ASSIGNMENT: Final = "azure-native:authorization:RoleAssignment"

_CREATE_FIRST: Final = "__createBeforeDelete"
"""The plugin's note in the inputs that the name is random, so that a replacement may be created first."""

_POOL_TYPES: Final = azure_types.types()["AgentPool"]
_INLINE_POOL_TYPES: Final = azure_types.types()["ManagedClusterAgentPoolProfile"]
_NETWORK_REPLACES: Final = tuple(
    f"networkProfile.{name}"
    for name in (
        *("serviceCidr", "serviceCidrs", "podCidr", "dnsServiceIP", "networkMode", "networkPlugin"),
        *("networkPluginMode", "networkDataplane", "networkPolicy", "outboundType"),
    )
)


@dataclass(frozen=True)
class _Kind:
    """What the plugin knows of a resource type.

    Attributes:
        make_id: the ARM id that names lead to.
        name: the property that holds the resource's own name.
        parents: the properties that name what it lies in, outermost first.
        types: property -> its kind, as gpu_pools/platforms/aks/azure_types.py has it.
        replaces: paths whose change forces a replacement, besides the names.
        required: properties that the schema requires.
        api_version: the ARM API version that the plugin uses.
        random_name: whether an automatic name gets a random suffix, as top-level resources do.
        pattern: what the schema says of the name.
        longest: the longest name that the schema allows.
    """

    make_id: Callable[..., str]
    name: str
    parents: tuple[str, ...]
    types: Mapping[str, str]
    replaces: tuple[str, ...]
    required: tuple[str, ...]
    api_version: str = azure_answers.API_VERSION
    random_name: bool = True
    pattern: str = ""
    longest: int = 90
    path_types: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        names = dict.fromkeys((self.name, *self.parents), "string")
        object.__setattr__(self, "types", {key: kind for key, kind in self.types.items() if key not in names})
        object.__setattr__(self, "path_types", names)

    def id_of(self, inputs: Mapping[str, Value]) -> str:
        """The ARM id that the inputs lead to."""
        names = [inputs[key] for key in (*self.parents, self.name)]
        return self.make_id(*names)

    def body_of(self, inputs: Mapping[str, Value]) -> Body:
        """The inputs without the names, which are the address, and without the plugin's own notes."""
        notes = {_CREATE_FIRST, "azureApiVersion"}
        return {key: value for key, value in inputs.items() if key not in self.path_types and key not in notes}


_PLACED: Final = {"location": "string", "tags": "map of string"}
_IN_GROUP: Final = ("resourceGroupName",)
#: Token -> its kind, the property with its name, its types and what it needs, as the SDK has them; what is deeper is any.
_OBSERVING: Final[Mapping[str, tuple[ObservingKind, str, Mapping[str, str], tuple[str, ...]]]] = {
    "azure-native:monitor:AzureMonitorWorkspace": (
        azure_observing.WORKSPACE,
        "azureMonitorWorkspaceName",
        {**_PLACED, "publicNetworkAccess": "string"},
        _IN_GROUP,
    ),
    "azure-native:monitor:DataCollectionEndpoint": (
        azure_observing.ENDPOINT,
        "dataCollectionEndpointName",
        {**_PLACED, "kind": "string", "description": "string", "identity": "any", "networkAcls": "any", "immutableId": "string"},
        _IN_GROUP,
    ),
    "azure-native:monitor:DataCollectionRule": (
        azure_observing.RULE,
        "dataCollectionRuleName",
        {
            **_PLACED,
            **dict.fromkeys(("dataCollectionEndpointId", "description", "kind"), "string"),
            **dict.fromkeys(("dataSources", "destinations", "identity", "streamDeclarations"), "any"),
            "dataFlows": "list of any",
        },
        _IN_GROUP,
    ),
    "azure-native:monitor:DataCollectionRuleAssociation": (
        azure_observing.ASSOCIATION,
        "associationName",
        dict.fromkeys(("dataCollectionEndpointId", "dataCollectionRuleId", "description"), "string"),
        ("resourceUri",),
    ),
    "azure-native:alertsmanagement:PrometheusRuleGroup": (
        azure_observing.RULE_GROUP,
        "ruleGroupName",
        {
            **_PLACED,
            **dict.fromkeys(("clusterName", "description", "interval"), "string"),
            "enabled": "boolean",
            "rules": "list of any",
            "scopes": "list of string",
        },
        ("resourceGroupName", "rules", "scopes"),
    ),
    "azure-native:dashboard:Grafana": (
        azure_observing.GRAFANA,
        "workspaceName",
        {**_PLACED, "identity": "any", "properties": "any", "sku": "any"},
        _IN_GROUP,
    ),
}

_KINDS: Final[Mapping[str, _Kind]] = {
    _GROUP: _Kind(
        azure_ids.group_id,
        name="resourceGroupName",
        parents=(),
        types={"location": "string", "managedBy": "string", "tags": "map of string"},
        replaces=("resourceGroupName", "location"),
        required=("location",),
        api_version="2024-03-01",
    ),
    _NETWORK: _Kind(
        azure_ids.network_id,
        name="virtualNetworkName",
        parents=("resourceGroupName",),
        types={"location": "string", "addressSpace": "any", "subnets": "list of any", "tags": "map of string"},
        replaces=("virtualNetworkName", "resourceGroupName", "location"),
        required=("resourceGroupName",),
        api_version=azure_networks.API_VERSION,
    ),
    _CLUSTER: _Kind(
        azure_ids.cluster_id,
        name="resourceName",
        parents=("resourceGroupName",),
        types=azure_types.types()["ManagedCluster"],
        replaces=(
            *("resourceName", "resourceGroupName", "location", "dnsPrefix", "fqdnSubdomain", "diskEncryptionSetID"),
            *("linuxProfile", "windowsProfile", "nodeResourceGroup"),
            *_NETWORK_REPLACES,
        ),
        required=("resourceGroupName", "location"),
        pattern=azure_rules.CLUSTER_NAME,
        longest=63,
    ),
    _POOL: _Kind(
        azure_ids.pool_id,
        name="agentPoolName",
        parents=("resourceGroupName", "resourceName"),
        types=_POOL_TYPES,
        replaces=(
            *("agentPoolName", "resourceName", "resourceGroupName", "vmSize", "gpuInstanceProfile"),
            "networkProfile.nodePublicIPTags",
        ),
        required=("resourceGroupName", "resourceName"),
        random_name=False,
        pattern=azure_rules.POOL_NAME,
        longest=12,
    ),
    _WINDOW: _Kind(
        azure_ids.window_id,
        name="configName",
        parents=("resourceGroupName", "resourceName"),
        types=azure_types.types()["MaintenanceConfiguration"],
        replaces=("configName", "resourceName", "resourceGroupName"),
        required=("resourceGroupName", "resourceName"),
        random_name=False,
    ),
    **{
        token: _Kind(
            partial(azure_observing.id_of, kind),
            name=name,
            parents=("resourceUri",) if kind is azure_observing.ASSOCIATION else ("resourceGroupName",),
            types=types,
            replaces=(name, "resourceUri") if kind is azure_observing.ASSOCIATION else (name, "resourceGroupName", "location"),
            required=required,
            api_version=kind.api_version,
        )
        for token, (kind, name, types, required) in _OBSERVING.items()
    },
    _ASSIGNMENT: _Kind(
        azure_ids.assignment_id,
        name="roleAssignmentName",
        parents=("scope",),
        types=dict.fromkeys(("principalId", "principalType", "roleDefinitionId", "description"), "string"),
        replaces=("roleAssignmentName", "scope", "principalId", "roleDefinitionId", "principalType"),
        required=("scope", "principalId", "roleDefinitionId"),
        api_version=azure_beside.API_VERSION,
    ),
}


class AzureNativeStandIn(StandIn):
    """Answers for the azure-native plugin."""

    package: ClassVar[str] = "azure-native"
    version: ClassVar[str] = "3.29.0"

    def __init__(self, cloud: AzureCloud) -> None:
        """Stand before a cloud."""
        super().__init__()
        self._cloud = cloud
        self._token = secrets.token_urlsafe(32)
        self._locations: Configurations[str] = Configurations()

    def configure(self, variables: dict[str, str], args: dict[str, Value]) -> None:
        """Remember the default location; credentials are not needed for a cloud that is none."""
        location = str(variables.get("azure-native:config:location") or args.get("location") or "")
        self._locations.put(self.current.connection, location)

    # ---------------------------------------------------------------- before anything happens

    def check(
        self,
        type_: str,
        olds: dict[str, Value],
        news: dict[str, Value],
    ) -> tuple[dict[str, Value], list[Failure]]:
        """Fill in the automatic name and location, then apply the schema."""
        kind = _kind(type_)
        inputs = dict(news)
        if inputs.get(kind.name) is None:
            inputs.update(self._automatic_name(kind, olds))
        if "location" in kind.types and inputs.get("location") is None:
            inputs["location"] = self._default_location(olds, inputs)
        inputs.setdefault("azureApiVersion", kind.api_version)
        return inputs, _schema_failures(kind, inputs)

    def _automatic_name(self, kind: _Kind, olds: Mapping[str, Value]) -> dict[str, Value]:
        if olds.get(kind.name) is not None:
            return {key: olds[key] for key in (kind.name, _CREATE_FIRST) if key in olds}
        if not kind.random_name:
            return {kind.name: self.current.name}
        return {kind.name: f"{self.current.name}{self.current.random_seed[:4].hex()}", _CREATE_FIRST: True}

    def _default_location(self, olds: Mapping[str, Value], inputs: Mapping[str, Value]) -> Value:
        """The location of before, else the configured one, else the resource group's."""
        configured = self._locations.of(self.current.connection)
        if olds.get("location") or configured:
            return olds.get("location") or configured
        group = inputs.get("resourceGroupName")
        if group is UNKNOWN or not isinstance(group, str):
            return group
        found = self._cloud.get(azure_ids.group_id(group))
        return None if found is None else found["location"]

    def diff(
        self,
        type_: str,
        id_: str,  # noqa: ARG002
        old_inputs: dict[str, Value],
        old_outputs: dict[str, Value],
        news: dict[str, Value],
    ) -> Diff:
        """Compare inputs; only what the plugin knows to be fixed forces a replacement.

        An import has no note of the API's version among its inputs; the plugin then takes that of its outputs
        (pulumi-azure-native 006a62af, provider.go, Diff).
        """
        if "azureApiVersion" not in old_inputs and "azureApiVersion" in old_outputs:
            old_inputs = {**old_inputs, "azureApiVersion": old_outputs["azureApiVersion"]}
        create_first = old_inputs.get(_CREATE_FIRST) is True and news.get(_CREATE_FIRST) is True
        return compare(old_inputs, news, replace_on=_kind(type_).replaces, delete_before_replace=not create_first)

    # ---------------------------------------------------------------- the resources

    def create(
        self,
        type_: str,
        name: str,  # noqa: ARG002
        inputs: dict[str, Value],
        timeout: float,  # noqa: ARG002
        preview: bool,  # noqa: FBT001
    ) -> tuple[str, dict[str, Value]]:
        """Create a resource that does not exist yet."""
        kind = _kind(type_)
        if preview:
            return "", _promised(kind, inputs)
        id_ = kind.id_of(inputs)
        if self._cloud.get(id_) is not None:
            message = f"cannot create already existing resource '{id_}'"
            raise ServiceError(message)
        return id_, self._put(type_, kind, inputs)

    def update(
        self,
        type_: str,
        id_: str,  # noqa: ARG002
        old_inputs: dict[str, Value],  # noqa: ARG002
        old_outputs: dict[str, Value],
        news: dict[str, Value],
        preview: bool,  # noqa: FBT001
    ) -> dict[str, Value]:
        """Send the whole resource again, as the plugin does (PUT)."""
        kind = _kind(type_)
        if preview:
            # Only these two are sure to stay; whatever else the service answers is unknown until it has.
            stable: dict[str, Value] = {key: old_outputs[key] for key in ("name", "location") if key in old_outputs}
            return {**dict.fromkeys(old_outputs, UNKNOWN), **_promised(kind, news), **stable}
        return self._put(type_, kind, news)

    def _put(self, type_: str, kind: _Kind, inputs: dict[str, Value]) -> Body:
        names = [inputs[key] for key in (*kind.parents, kind.name)]
        body = kind.body_of(inputs)
        put: Mapping[str, Callable[..., Body]] = {
            _GROUP: self._cloud.put_group,
            _NETWORK: self._cloud.put_network,
            _CLUSTER: self._cloud.put_cluster,
            _POOL: self._cloud.put_pool,
            _WINDOW: self._cloud.put_window,
            _ASSIGNMENT: self._cloud.put_assignment,
            **{token: partial(self._cloud.put_observing, one[0]) for token, one in _OBSERVING.items()},
        }
        return _outputs(put[_plain(type_)](*names, body))

    def read(
        self,
        type_: str,
        id_: str,
        inputs: dict[str, Value],
        outputs: dict[str, Value],
    ) -> tuple[str, dict[str, Value], dict[str, Value]] | None:
        """The resource as it is; inputs show what has changed since the outputs of before."""
        kind, found = _kind(type_), self._cloud.get(id_)
        if found is None:
            return None
        names = dict(zip((*kind.parents, kind.name), azure_ids.parts(id_), strict=False))
        if not inputs:
            current = _inputs_in(kind, found)
        else:
            current = _changed_inputs(inputs, _inputs_in(kind, outputs), _inputs_in(kind, found))
            current["azureApiVersion"] = inputs.get("azureApiVersion", kind.api_version)
        return id_, {**current, **names}, _outputs(found)

    def delete(
        self,
        type_: str,
        id_: str,
        inputs: dict[str, Value],  # noqa: ARG002
        outputs: dict[str, Value],  # noqa: ARG002
    ) -> None:
        """Delete the resource."""
        erase: Mapping[str, Callable[..., None]] = {
            _GROUP: self._cloud.delete_group,
            _NETWORK: self._cloud.delete_network,
            _CLUSTER: self._cloud.delete_cluster,
            _POOL: self._cloud.delete_pool,
            _WINDOW: self._cloud.delete_window,
            _ASSIGNMENT: self._cloud.delete_assignment,
            **{token: partial(self._cloud.delete_observing, one[0]) for token, one in _OBSERVING.items()},
        }
        erase[_plain(type_)](*azure_ids.parts(id_))

    # ---------------------------------------------------------------- functions

    @property
    def resource_manager(self) -> ResourceManager:
        """Azure's own API, for whoever has the token that the plugin hands out."""
        return ResourceManager(self._cloud, self._token)

    def invoke(self, token: str, args: dict[str, Value]) -> tuple[dict[str, Value], list[Failure]]:
        """Credentials of a cluster, who asks, and a token of his."""
        name = _plain(token)
        if name == "azure-native:authorization:getClientConfig":
            return {
                "clientId": azure_ids.CLIENT,
                "objectId": azure_ids.CLIENT,
                "subscriptionId": azure_ids.SUBSCRIPTION,
                "tenantId": TENANT,
            }, []
        # Who has not logged in is told nothing.
        self._locations.of(self.current.connection)
        if name == "azure-native:authorization:getClientToken":
            # As the plugin's, it is not marked as a secret.
            return {"token": self._token}, []
        if name == "azure-native:resources:getResourceGroup":
            return self._found(azure_ids.group_id(str(args.get("resourceGroupName")))), []
        if name == "azure-native:dashboard:getGrafana":
            names = str(args.get("resourceGroupName")), str(args.get("workspaceName"))
            return self._found(azure_observing.id_of(azure_observing.GRAFANA, *names)), []
        if name == "azure-native:containerservice:getManagedCluster":
            return self._found(azure_ids.cluster_id(str(args.get("resourceGroupName")), str(args.get("resourceName")))), []
        match = re.fullmatch(r"azure-native:containerservice:listManagedCluster(User|Admin)Credentials", name)
        return self._credentials(match[1], args) if match else super().invoke(token, args)

    def _credentials(self, whose: str, args: dict[str, Value]) -> tuple[dict[str, Value], list[Failure]]:
        failures = [(key, _missing(key)) for key in _CREDENTIAL_ARGS if args.get(key) is None]
        if failures:
            return {}, failures
        admin = whose == "Admin"
        value = self._cloud.credentials(*(args[key] for key in _CREDENTIAL_ARGS), admin=admin)
        return {"kubeconfigs": [{"name": f"cluster{whose}", "value": Secret(value)}]}, []

    def _found(self, id_: str) -> dict[str, Value]:
        found = self._cloud.get(id_)
        if found is not None:
            return found
        group, *rest = azure_ids.parts(id_)
        if azure_observing.GRAFANA.type in id_:
            raise AzureError(404, "ResourceNotFound", f"The resource {id_} was not found.")
        if rest:
            raise azure_answers.not_found(f"managedClusters/{rest[0]}", group)
        message = f'Code="ResourceGroupNotFound" Message="Resource group \'{group}\' could not be found."'
        raise ServiceError(message)


_CREDENTIAL_ARGS: Final = ("resourceGroupName", "resourceName")


def _plain(token: str) -> str:
    """The token without an explicit API version: `azure-native:containerservice/v20250901:X`."""
    return re.sub(r"/v\d{8}(preview)?:", ":", token)


def _kind(type_: str) -> _Kind:
    kind = _KINDS.get(_plain(type_))
    if kind is None:
        message = f"Resource type {type_} not found. The sandbox stands in for: {', '.join(_KINDS)}"
        raise ServiceError(message)
    return kind


def _promised(kind: _Kind, inputs: Mapping[str, Value]) -> dict[str, Value]:
    """What a preview says that there will be, in the shape of what the service answers."""
    promised = known(kind.body_of(inputs))
    identity = promised.get("identity")
    if isinstance(identity, dict) and isinstance(own := identity.get("userAssignedIdentities"), list):
        # Asked for as a list, answered as a mapping.
        promised["identity"] = {**identity, "userAssignedIdentities": {str(one): {} for one in own}}
    return promised


def _outputs(found: Body) -> dict[str, Value]:
    return {key: value for key, value in found.items() if key != "id"}


def _inputs_in(kind: _Kind, shown: Mapping[str, Value]) -> dict[str, Value]:
    """What of a resource's outputs could be an input."""
    could = {key: shown[key] for key in kind.types if shown.get(key) is not None}
    subnets = could.get("subnets")
    if isinstance(subnets, list):
        could["subnets"] = [{key: subnet[key] for key in ("name", "addressPrefix") if key in subnet} for subnet in subnets]
    identity = could.get("identity")
    if isinstance(identity, dict):
        own = identity.get("userAssignedIdentities")
        could["identity"] = {"type": identity.get("type"), **({"userAssignedIdentities": list(own)} if own else {})}
    pools = could.get("agentPoolProfiles")
    if isinstance(pools, list):
        could["agentPoolProfiles"] = [
            {key: pool[key] for key in _INLINE_POOL_TYPES if pool.get(key) is not None} for pool in pools
        ]
    return could


def _changed_inputs(given: Mapping[str, Value], before: Mapping[str, Value], now: Mapping[str, Value]) -> dict[str, Value]:
    """The inputs with what has changed between two answers of the service, added and taken away."""
    result = {key: value for key, value in given.items() if key in now or key not in before}
    for key, value in now.items():
        if key not in before:
            result[key] = value
        elif value != before[key]:
            result[key] = _changed_input(given[key], before[key], value) if key in given else value
    return result


def _changed_input(given: Value, before: Value, now: Value) -> Value:
    if isinstance(given, dict) and isinstance(before, dict) and isinstance(now, dict):
        return _changed_inputs(given, before, now)
    if isinstance(given, list) and isinstance(before, list) and isinstance(now, list):
        paired = list(zip(given, before, now, strict=False))
        return [*(_changed_input(*three) for three in paired), *now[len(paired) :]]
    return now


def _schema_failures(kind: _Kind, inputs: Mapping[str, Value]) -> list[Failure]:
    failures = [("", _missing(key)) for key in kind.required if inputs.get(key) is None]
    failures += _type_failures({**kind.types, **kind.path_types}, inputs, "")
    name = inputs.get(kind.name)
    if isinstance(name, str):
        failures += _name_failures(kind, name)
    profiles = inputs.get("agentPoolProfiles")
    for index, profile in enumerate(profiles if isinstance(profiles, list) else []):
        if isinstance(profile, dict) and profile.get("name") is None:
            failures.append(("", _missing(f"agentPoolProfiles[{index}].name")))
    return failures


def _missing(path: str) -> str:
    remedy = ". Either set it explicitly or configure it with 'pulumi config set azure-native:location <value>'."
    return f"missing required property '{path}'{remedy if path == 'location' else ''}"


def _name_failures(kind: _Kind, name: str) -> list[Failure]:
    failures = []
    if not name:
        failures.append(("", f"'{kind.name}' is too short (0): at least 1 characters required"))
    if len(name) > kind.longest:
        failures.append(
            ("", f"'{kind.name}' is too long ({len(name)}): at most {kind.longest} characters allowed"),
        )
    if kind.pattern and not re.search(kind.pattern, name):
        failures.append(("", f"'{kind.name}' does not match expression '{kind.pattern}'"))
    return failures


def _type_failures(types: Mapping[str, str], values: Mapping[str, Value], prefix: str) -> list[Failure]:
    return [failure for key, kind in types.items() for failure in _value_failures(kind, values.get(key), f"{prefix}{key}")]


def _value_failures(kind: str, value: Value, path: str) -> list[Failure]:
    """What the plugin says of a value and of what is below it."""
    if problem := _type_problem(_json_type(kind), value):
        return [("", f"'{path}' {problem}")]
    if isinstance(value, list) and kind.startswith("list of "):
        inner = kind.removeprefix("list of ")
        return [failure for index, one in enumerate(value) for failure in _value_failures(inner, one, f"{path}[{index}]")]
    if isinstance(value, dict) and kind.startswith("map of "):
        inner = kind.removeprefix("map of ")
        return [failure for key, one in value.items() for failure in _value_failures(inner, one, f"{path}.{key}")]
    if isinstance(value, dict) and kind in azure_types.types():
        return _type_failures(azure_types.types()[kind], value, f"{path}.")
    return []


def _json_type(kind: str) -> str:
    if kind.startswith("list of "):
        return "array"
    if kind.startswith("map of ") or kind in azure_types.types():
        return "object"
    return kind if kind in {"integer", "number", "boolean", "any"} else "string"


def _type_problem(wanted: str, value: Value) -> str:
    """What the plugin says of a value of the wrong type; it says nothing of booleans and objects."""
    if wanted == "any":
        return ""
    if isinstance(value, list):
        return "" if wanted == "array" else f"should be of type '{wanted}' but got an array"
    if isinstance(value, str):
        return "" if wanted == "string" else f"should be of type '{wanted}' but got a string"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    if wanted not in {"number", "integer"}:
        return f"should be of type '{wanted}' but got a number"
    return f"must be an integer but got {value:f}" if wanted == "integer" and isinstance(value, float) else ""
