"""What our own components make breaks no rule of our own policy pack, on any platform."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.components.platform import GpuPlatform
from gpu_pools.policies import kinds
from gpu_pools.policies.described import Resource, Stack
from gpu_pools.policies.judging import RuleSettings, Undecided, judge, read_settings
from gpu_pools.policies.rules import RULES
from gpu_pools.stack.stack_file import read_stack_file

from .conftest import KUBECONFIG
from .test_platform import PREFIX, PROJECT, STACKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gpu_pools.policies.rule import Rule

PRODUCTION: dict[str, Any] = json.loads((PROJECT / "policies" / "levels" / "prod.json").read_text(encoding="utf-8"))
#: Its driver tells no node's pool when it registers; the plan refuses the startup taint there.
NO_STARTUP_TAINT = {"magnum-prod"}
#: Advice that our stacks do not follow, and why.
KNOWN = {
    "gpus-only-on-request": "the plan leaves the toolkit's switches to the user",
    "metrics-know-shares": "the exporter's environment is the user's",
    "service-monitor-exists": "the cluster may have the CRD already",
    "autoscaler-knows-names": "the plan warns of it too",
    "new-mig-nodes-wait": "the plan warns of it too",
    "shared-pools-keep-a-node": "how many nodes are kept is the user's, and costs money",
    "node-groups-not-empty": "depends on the cloud's API",
}


def _described(recorded: Any) -> Stack:
    requests = [request for request in recorded.requests.values() if request.type != "pulumi:pulumi:Stack"]
    inputs = {(one.type, one.name): one.inputs for one in recorded.resources}
    return Stack(
        tuple(
            Resource(
                request.type,
                request.name,
                f"urn:pulumi:test::gpu-pools::{request.type}::{request.name}",
                inputs.get((request.type, request.name), {}),
                frozenset(_short(urn) for urn in request.dependencies),
                _short(request.parent),
                request.protect,
                tuple(request.ignoreChanges),
            )
            for request in requests
        )
    )


def _short(urn: str) -> str:
    """Without the types of the parents, which the engine writes into urns."""
    head, _, rest = urn.partition("::")
    project, _, tail = rest.partition("::")
    kinds, _, name = tail.rpartition("::")
    return f"{head}::{project}::{kinds.rpartition('$')[2]}::{name}"


@pytest.fixture
def whole_program(run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Stack]:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))

    def described(
        stack: str,
        *,
        everything: bool = False,
        verified: bool = True,
        adopted: bool = False,
        observability: Any = None,
        by_rollout: bool = False,
    ) -> Stack:
        config = read_stack_file(PROJECT / "stacks" / f"Pulumi.{stack}.yaml")
        sections: Any = {key.removeprefix(PREFIX): value for key, value in config.items() if key.startswith(PREFIX)}
        sections["verification"] |= {"enabled": verified}
        if everything:
            sections["verification"] |= {"smokeTest": True, "startupTaint": stack not in NO_STARTUP_TAINT}
            if sections["cluster"]["platform"] == "aks":
                sections["cluster"]["kubernetesVersion"] = "1.36"
        if adopted:
            sections["cluster"] |= {"driver": "capi-helm", "labels": {}}
            sections |= {"operator": {"install": False}, "nodeFeatureDiscovery": {"install": False}}
        sections |= {"observability": observability} if observability else {}
        for pool in sections["pools"] if by_rollout else ():
            pool["rollout"] = {}
        return _described(run(lambda: GpuPlatform("gpu", sections)))

    return described


@pytest.mark.parametrize("everything", [False, True], ids=["as written", "smoke test and startup taint"])
@pytest.mark.parametrize("stack", STACKS)
def test_our_own_stacks_break_no_mandatory_rule(whole_program: Callable[..., Stack], stack: str, *, everything: bool) -> None:
    described = whole_program(stack, everything=everything)
    made = {resource.type for resource in described.resources if resource.inputs}
    assert kinds.DAEMON_SET in made
    assert "kubernetes:batch/v1:Job" in made or not everything
    _breaks_nothing(described, stack)


def test_pools_whose_nodes_change_in_turn_are_judged_as_what_they_are(whole_program: Callable[..., Stack]) -> None:
    (rule,) = [one for one in RULES if one.name == "allowed-strategies"]
    found = []
    for by_rollout in (False, True):
        described = whole_program("aks-dev", by_rollout=by_rollout)
        _breaks_nothing(described, "aks-dev")
        own = [one.inputs["nodeLabels"] for one in described.of(kinds.AGENT_POOL)]
        assert any(kinds.CONFIG_LABEL in labels for labels in own if isinstance(labels, dict)) != by_rollout
        verdicts = judge(rule, described, _settings(rule, {rule.name: {"strategies": []}}), dt.date(2027, 1, 1))
        found.append(sorted(one.resource.name for one in verdicts))
    assert found[0] == found[1]
    assert len(found[0]) >= 2, "each pool that shares"


@pytest.mark.parametrize(
    ("stack", "to", "finds"),
    [
        ("aks-dev", "azure", False),
        ("aks-dev", "kube-prometheus-stack", False),
        ("magnum-dev", "kube-prometheus-stack", False),
        ("byo", "kube-prometheus-stack", False),
        ("byo", "prometheus", False),
        # A cluster that the stack makes has none of these kinds on its first deploy.
        ("aks-dev", "prometheus", True),
    ],
)
def test_whoever_reads_the_metrics_breaks_no_rule(
    whole_program: Callable[..., Stack], stack: str, to: str, *, finds: bool
) -> None:
    described = whole_program(stack, observability={"to": to})
    monitors = {resource.type for resource in described.resources} & set(kinds.MONITORS)
    assert monitors
    _breaks_nothing(described, stack)
    (rule,) = [one for one in RULES if one.name == "service-monitor-exists"]
    found = list(judge(rule, described, _settings(rule, {}), dt.date(2027, 1, 1)))
    assert bool(found) == finds


def test_azure_reads_a_cluster_that_is_there_without_a_second_way(whole_program: Callable[..., Stack]) -> None:
    """By the whole platform: what is missing is what the command of the cluster's owner made."""
    workspace = "/subscriptions/s/resourceGroups/ops/providers/Microsoft.Monitor/accounts/one"
    section = {"to": "azure", "azure": {"workspace": workspace, "location": "westeurope"}}
    described = whole_program("aks-existing", observability=section)
    made = {resource.type.rpartition(":")[2] for resource in described.resources}
    assert {"PrometheusRuleGroup", "ServiceMonitor"} <= made
    assert not made & {"AzureMonitorWorkspace", "DataCollectionEndpoint", "DataCollectionRule", "DataCollectionRuleAssociation"}
    _breaks_nothing(described, "aks-existing")


def test_an_operator_of_another_owner_is_changed_by_no_broken_rule(whole_program: Callable[..., Stack]) -> None:
    described = whole_program("magnum-prod", adopted=True)
    assert kinds.CLUSTER_POLICIES[1] in {resource.type for resource in described.resources if resource.inputs}
    _breaks_nothing(described, "magnum-prod")


def _breaks_nothing(described: Stack, stack: str) -> None:
    written = PRODUCTION if stack.endswith("-prod") else {"nodes-verified": PRODUCTION["nodes-verified"]}
    found = [verdict for rule in RULES for verdict in judge(rule, described, _settings(rule, written), dt.date(2027, 1, 1))]
    assert [one.text for one in found if one.rule not in KNOWN] == []
    assert not [one for one in found if isinstance(one, Undecided)]
    assert {rule.level for rule in RULES if rule.name in KNOWN} <= {"advisory"}


@pytest.mark.parametrize(("stack", "adopted"), [("aks-prod", False), ("magnum-prod", False), ("magnum-prod", True)])
def test_production_cannot_switch_the_verification_off(whole_program: Callable[..., Stack], stack: str, *, adopted: bool) -> None:
    (rule,) = [one for one in RULES if one.name == "nodes-verified"]
    assert PRODUCTION[rule.name]["enforcementLevel"] == "mandatory"
    for verified in (True, False):
        described = whole_program(stack, verified=verified, adopted=adopted)
        found = list(judge(rule, described, _settings(rule, PRODUCTION), dt.date(2027, 1, 1)))
        operator = kinds.CLUSTER_POLICIES[1] if adopted else kinds.RELEASE
        assert [one.resource.type for one in found] == ([] if verified else [operator])


def _settings(rule: Rule, levels: Mapping[str, Any]) -> RuleSettings:
    written = levels.get(rule.name, {})
    return read_settings(rule, written if isinstance(written, dict) else {})
