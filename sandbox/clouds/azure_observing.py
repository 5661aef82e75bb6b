"""What of Azure Monitor and Managed Grafana a stack has: kinds, rules and answers, as pure functions.

Stand-in: nothing here asks Azure, collects, evaluates or shows anything. Rules of rule groups are those of the schema in
Azure/prometheus-collector at 39583fd5 (tools/az-prom-rules-converter, azure-prometheus-rule-group.json); that a cluster's id
may stand beside the workspace among the scopes is in its templates (AddonBicepTemplate). The interval's bounds are those of
azure-native's documentation of PrometheusRuleGroup. What a resource names must be there: that is ARM's manner, and the words
are ours.

Deliberately not modelled, since nothing was found to read: which regions have which service, names that are taken elsewhere,
whether PromQL is right, a Grafana's SKUs, quotas, and that the add-on arrives some minutes after it was switched on.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sandbox.clouds.azure_errors import AzureError
from sandbox.clouds.azure_ids import group_id
from sandbox.clouds.entra import TENANT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sandbox.clouds.azure_rules import Body

_ASSOCIATIONS: Final = "Microsoft.Insights/dataCollectionRuleAssociations"
_MOST_RULES: Final = 20
_MOST_LABELS: Final = 10
_LONGEST: Final = 1024
_SEVEREST, _MILDEST = 0, 4
_MINUTES: Final = (1, 15)
_LABEL: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,1023}")
_DURATION: Final = re.compile(r"PT(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?")


@dataclass(frozen=True)
class ObservingKind:
    """One of them.

    Attributes:
        type: ARM's.
        api_version: that azure-native 3.29 speaks.
        names: properties that hold ids of what must be there; dots lead inwards, through lists, too.
    """

    type: str
    api_version: str
    names: tuple[str, ...] = ()


WORKSPACE: Final = ObservingKind("Microsoft.Monitor/accounts", "2023-04-03")
ENDPOINT: Final = ObservingKind("Microsoft.Insights/dataCollectionEndpoints", "2022-06-01")
RULE: Final = ObservingKind(
    "Microsoft.Insights/dataCollectionRules",
    "2022-06-01",
    ("dataCollectionEndpointId", "destinations.monitoringAccounts.accountResourceId"),
)
ASSOCIATION: Final = ObservingKind(_ASSOCIATIONS, "2022-06-01", ("dataCollectionRuleId",))
RULE_GROUP: Final = ObservingKind("Microsoft.AlertsManagement/prometheusRuleGroups", "2023-03-01", ("scopes",))
GRAFANA: Final = ObservingKind(
    "Microsoft.Dashboard/grafana",
    "2024-10-01",
    ("properties.grafanaIntegrations.azureMonitorWorkspaceIntegrations.azureMonitorWorkspaceResourceId",),
)


def id_of(kind: ObservingKind, parent: str, name: str) -> str:
    """ARM id: below a resource group, of an association below what it is of."""
    return f"{parent if kind is ASSOCIATION else group_id(parent)}/providers/{kind.type}/{name}"


def check(kind: ObservingKind, parent: str, body: Body, there: Callable[[str], bool]) -> None:
    """Refuse what cannot be.

    Args:
        kind: of it.
        parent: its resource group, or what an association is of.
        body: its properties.
        there: whether a resource is there, by its id.

    Raises:
        AzureError: the first rule that it breaks.
    """
    wanted = [id_ for path in kind.names for id_ in _at(body, path.split("."))]
    for id_ in [*wanted, *([parent] if kind is ASSOCIATION else [])]:
        if not there(id_):
            raise AzureError(404, "ResourceNotFound", f"The resource {id_} was not found.")
    if kind is RULE_GROUP:
        _check_rule_group(body)


def _at(value: Any, path: list[str]) -> Iterator[str]:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        for one in value:
            yield from _at(one, path)
    elif not path:
        if isinstance(value, str):
            yield value
    elif isinstance(value, dict):
        yield from _at(value.get(path[0]), path[1:])


def _check_rule_group(body: Body) -> None:
    accounts = [scope for scope in body["scopes"] if f"/{WORKSPACE.type}/".lower() in scope.lower()]
    others = [scope for scope in body["scopes"] if scope not in accounts]
    if len(accounts) != 1 or any("/managedclusters/" not in scope.lower() for scope in others):
        raise _bad("scopes", "one Azure Monitor workspace is required, and beside it clusters only")
    if not 1 <= len(body["rules"]) <= _MOST_RULES:
        raise _bad("rules", f"{len(body['rules'])} rules; 1 to {_MOST_RULES} are allowed")
    if not _MINUTES[0] * 60 <= _seconds(body.get("interval") or "PT1M", "interval") <= _MINUTES[1] * 60:
        raise _bad("interval", f"it must be between {_MINUTES[0]} and {_MINUTES[1]} minutes")
    for index, rule in enumerate(body["rules"]):
        _check_rule(rule, f"rules[{index}]")


def _check_rule(rule: Body, path: str) -> None:
    if ("record" in rule) == ("alert" in rule):
        raise _bad(path, "exactly one of record and alert is required")
    if not rule.get("expression"):
        raise _bad(f"{path}.expression", "it is required")
    labels = rule.get("labels") or {}
    if len(labels) > _MOST_LABELS:
        raise _bad(f"{path}.labels", f"{len(labels)} labels; at most {_MOST_LABELS} are allowed")
    for place, texts in (("labels", labels), ("annotations", rule.get("annotations") or {})):
        for key, text in texts.items():
            if not _LABEL.fullmatch(key) or not isinstance(text, str) or len(text) > _LONGEST:
                raise _bad(f"{path}.{place}.{key}", f"a name, and a text of at most {_LONGEST} characters, are required")
    if "for" in rule:
        _seconds(rule["for"], f"{path}.for")
    severity = rule.get("severity", _SEVEREST)
    if not isinstance(severity, int) or not _SEVEREST <= severity <= _MILDEST:
        raise _bad(f"{path}.severity", f"it must be {_SEVEREST} to {_MILDEST}")
    resolve = rule.get("resolveConfiguration") or {}
    if resolve.get("autoResolved") is True:
        _seconds(resolve.get("timeToResolve"), f"{path}.resolveConfiguration.timeToResolve")


def _seconds(value: object, path: str) -> int:
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise _bad(path, f"'{value}' is not a duration of ISO 8601")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def _bad(path: str, why: str) -> AzureError:
    return AzureError(400, "InvalidRequestContent", f"The request content is invalid: properties.{path}: {why}.")


def shown(record: Body) -> Body:
    """As ARM answers."""
    found = {
        "id": record["id"],
        "name": record["name"],
        "type": record["type"],
        **record["body"],
        "provisioningState": "Succeeded",
    }
    if record["type"] == GRAFANA.type and (identity := record["body"].get("identity")):
        principal = str(uuid.uuid5(uuid.NAMESPACE_URL, record["id"].lower()))
        found["identity"] = {**identity, "principalId": principal, "tenantId": TENANT}
    return found


def belongs_to(record: Body, group: str) -> bool:
    """Whether it goes with a resource group."""
    return str(record["id"]).lower().startswith(f"{group_id(group)}/".lower())
