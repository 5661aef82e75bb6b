"""Fleets as a cluster shows them: outputs by the plan, reports by the verifier's own words, nodes and ConfigMaps around them."""

from __future__ import annotations

import base64
import copy
import datetime as dt
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from gpu_pools.evidence.declared import declared
from gpu_pools.evidence.verdicts import Evidence, Snapshot, judge
from gpu_pools.plan.placing import pool_selector
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.verifier_pods import EXPECTATION_FILE, PROGRAM_FILE, Program, expectation_file
from gpu_pools.proof.verifier_reports import reports
from gpu_pools.proof.verifier_rights import ANNOTATION, CONDITION
from gpu_pools.text.yaml_text import load_yaml
from gpu_pools.verifier import evidence as written
from gpu_pools.verifier.findings import Findings, Verdict, Where
from gpu_pools.verifier.observation import Assertion, Observation
from tests.hostile import spoiled
from tests.verifier import nodes as healthy_nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_pools.plan.planned import Plan, PoolPlan

NOW: Final = dt.datetime(2026, 3, 4, 12, 0, 0, tzinfo=dt.UTC)
DIGEST: Final = "d" * 64
PROGRAM_BYTES: Final = b"the program"
PROGRAM: Final = Program("verifier-1", DIGEST, hashlib.sha256(PROGRAM_BYTES).hexdigest())
INTERVAL: Final = 300
STACK: Final = """
config:
  gpu-pools:cluster: {platform: existing, context: byo}
  gpu-pools:sharing:
    sliced: {timeSlicing: {replicas: 4}}
    served: {mps: {replicas: 3}}
    parted: {mig: {layout: {3g.40gb: 1, 2g.20gb: 2}}}
  gpu-pools:verification: {intervalSeconds: 300}
  gpu-pools:pools:
    - {name: ts, nodeSelector: {pool: ts}, gpuModel: NVIDIA A10, gpusPerNode: 1, sharing: sliced}
    - {name: mps, nodeSelector: {pool: mps}, gpuModel: NVIDIA L40S, gpusPerNode: 2, sharing: served}
    - {name: mig, nodeSelector: {pool: mig}, gpuModel: NVIDIA A100-SXM4-80GB, gpusPerNode: 2, sharing: parted}
"""
PLAN: Final[Plan] = plan_config(load_yaml(STACK)["config"])
POOLS: Final = tuple(pool_plan.name for pool_plan in PLAN.pools)


@dataclass
class Fleet:
    """What a stack says of itself, and what its cluster says; all of it may be changed."""

    outputs: dict[str, Any]
    nodes: list[dict[str, Any]]
    config_maps: dict[str, dict[str, str]]

    def judged(self, at: dt.datetime = NOW) -> Evidence:
        return judge("fleet", declared(self.outputs), Snapshot(at, self.nodes, self.config_maps))

    def node(self, pool: str, index: int = 0) -> dict[str, Any]:
        return [node for node in self.nodes if node["metadata"]["labels"].get("pool") == pool][index]

    def report(self, node: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> None:
        """Change what stands in a node's annotation."""
        document = json.loads(node["metadata"]["annotations"][ANNOTATION])
        change(document)
        node["metadata"]["annotations"][ANNOTATION] = json.dumps(document)


def fleet(count: int = 1) -> Fleet:
    """A healthy one with so many nodes in each pool, every one of which reported half a minute ago."""
    nodes = [_node(pool_plan.name, index) for pool_plan in PLAN.pools for index in range(count)]
    nodes.append({"metadata": {"name": "system", "labels": {"pool": "none"}}, "status": {"conditions": []}})
    maps = {file.name: {EXPECTATION_FILE: file.text} for file in (expectation_file(PLAN, pool_plan) for pool_plan in PLAN.pools)}
    maps[PROGRAM.config_map] = {PROGRAM_FILE: base64.b64encode(PROGRAM_BYTES).decode()}
    return Fleet({"clusterName": "byo", "verification": copy.deepcopy(reports(PLAN, PROGRAM))}, nodes, maps)


def one_node(plan: Plan, pool_plan: PoolPlan, found: Findings | None = None, node: healthy_nodes.Node | None = None) -> Fleet:
    """A stack with one node, which reported half a minute ago what its verifier found; by default, that all is as declared."""
    node, found = node or healthy_nodes.healthy(plan, pool_plan), found or Findings()
    file, at = expectation_file(plan, pool_plan), text_of(NOW - dt.timedelta(seconds=30))
    assertion = Assertion(found, Observation(node.nvml, node.mps, node.kubernetes), 2, 0.5)
    origin = written.Origin(file.sha256, DIGEST, float(INTERVAL))
    text = written.evidence(node.expected, assertion, origin, node="gpu-1", at=at)
    status = "True" if found.verdict is Verdict.HOLDS else "False"
    condition = {"type": CONDITION, "status": status, "reason": "R", "message": "m", "lastHeartbeatTime": at}
    labels = pool_selector(plan.settings.cluster, pool_plan)
    there = {
        "metadata": {"name": "gpu-1", "uid": "u", "labels": labels, "annotations": {ANNOTATION: text}},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}, condition],
            "allocatable": {key: str(value) for key, value in node.kubernetes.allocatable.items()},
            "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "os"},
        },
    }
    program = {PROGRAM_FILE: base64.b64encode(PROGRAM_BYTES).decode()}
    maps = {file.name: {EXPECTATION_FILE: file.text}, PROGRAM.config_map: program}
    return Fleet({"clusterName": "c", "verification": reports(plan, PROGRAM)}, [there], maps)


def text_of(moment: dt.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def reported(
    pool: str, name: str, findings: Findings | None = None, *, at: dt.datetime = NOW - dt.timedelta(seconds=30)
) -> tuple[str, dict[str, Any]]:
    """(annotation, condition) as the verifier on a node writes them."""
    (pool_plan,) = [one for one in PLAN.pools if one.name == pool]
    node = healthy_nodes.healthy(PLAN, pool_plan, name)
    found = findings or Findings()
    assertion = Assertion(found, Observation(node.nvml, node.mps, node.kubernetes), 2, 0.5)
    origin = written.Origin(expectation_file(PLAN, pool_plan).sha256, DIGEST, float(INTERVAL))
    text = written.evidence(node.expected, assertion, origin, node=name, at=text_of(at))
    status = {Verdict.HOLDS: "True", Verdict.DIFFERS: "False", Verdict.CANNOT_TELL: "Unknown"}[found.verdict]
    return text, {"type": CONDITION, "status": status, "reason": "R", "message": "m", "lastHeartbeatTime": text_of(at)}


_CACHE: dict[str, tuple[str, dict[str, Any], dict[str, int]]] = {}


def _node(pool: str, index: int) -> dict[str, Any]:
    name = f"{pool}-{index}"
    if pool not in _CACHE:
        (pool_plan,) = [one for one in PLAN.pools if one.name == pool]
        _CACHE[pool] = (*reported(pool, "NAME"), dict(pool_plan.advertises))
    text, condition, advertised = _CACHE[pool]
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {"pool": pool},
            "annotations": {ANNOTATION: text.replace('"NAME"', json.dumps(name))},
        },
        "status": {
            "conditions": [ready, dict(condition)],
            "allocatable": {"cpu": "8", "nvidia.com/old": "0", **{key: str(value) for key, value in advertised.items()}},
            "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "os"},
        },
    }


def put_report(node: dict[str, Any], text: str, condition: dict[str, Any]) -> None:
    """Let a verifier have reported something else."""
    node["metadata"]["annotations"][ANNOTATION] = text
    kept = [one for one in node["status"]["conditions"] if one["type"] != CONDITION]
    node["status"]["conditions"] = [*kept, condition]


def broken(pool: str, name: str, why: str = "mig-layout") -> tuple[str, dict[str, Any]]:
    """What the verifier writes on a node that differs."""
    findings = Findings()
    findings.differs(Where("GPU 0", 0, "GPU-1"), "MIG instances", {"1g.10gb": 7}, {"3g.40gb": 2}, why, "held by <b>")
    return reported(pool, name, findings)


def unanswered(pool: str, name: str) -> tuple[str, dict[str, Any]]:
    """What it writes on a node of which it cannot tell."""
    findings = Findings()
    findings.cannot_tell(Where("pods"), "answer of the API", "200", "403", "api-permission")
    return reported(pool, name, findings)


def aged(node: dict[str, Any], seconds: float) -> None:
    """Let the last report be so old."""
    at = text_of(NOW - dt.timedelta(seconds=seconds))
    (condition,) = [one for one in node["status"]["conditions"] if one["type"] == CONDITION]
    condition["lastHeartbeatTime"] = at
    document = json.loads(node["metadata"]["annotations"][ANNOTATION])
    node["metadata"]["annotations"][ANNOTATION] = json.dumps({**document, "time": at})


@st.composite
def spoil(draw: st.DrawFn) -> Fleet:
    """One of which some texts are hostile, those within the reports among them."""
    seen = fleet(2)
    put_report(seen.node("mig"), *broken("mig", "mig-0"))
    put_report(seen.node("mps"), *unanswered("mps", "mps-0"))
    for node in draw(st.lists(st.sampled_from([node for node in seen.nodes if "annotations" in node["metadata"]]), max_size=2)):
        annotations = node["metadata"]["annotations"]
        annotations[ANNOTATION] = json.dumps(draw(spoiled(json.loads(annotations[ANNOTATION]))))
    outputs = draw(spoiled(seen.outputs)) if draw(st.booleans()) else seen.outputs
    whole = draw(spoiled({"outputs": outputs, "nodes": seen.nodes, "maps": seen.config_maps}, typed=True))
    return Fleet(whole.get("outputs", {}), whole.get("nodes", []), whole.get("maps", {}))
