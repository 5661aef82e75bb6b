"""Whatever a cluster, a cloud, a forge or a Prometheus answers: a reader gives a value, or raises its own kind of error.

`READERS` is the list of readers, by module. A module that reads such answers and is not in it, nor among those that are asked by
one that is, fails a test: so a new reader comes with its fuzz test. Answers are documents as the real ones have them, with parts
taken away, doubled or replaced by any JSON, and any JSON at all.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_pools.changes import workloads
from gpu_pools.components.aks import check as azure_check
from gpu_pools.components.aks.session import UnreadError as AzureUnreadError
from gpu_pools.components.magnum import check as openstack_check
from gpu_pools.evidence import changing, cluster, pods, waiting
from gpu_pools.evidence.declared import declared
from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.reports import ReportError, parse_report
from gpu_pools.evidence.table import evidence_table
from gpu_pools.evidence.verdicts import Snapshot, judge
from gpu_pools.images import registry_answers
from gpu_pools.images.registry_answers import UnaskedError
from gpu_pools.kubernetes_api.cluster_api import ClusterApi
from gpu_pools.kubernetes_api.errors import ClusterError
from gpu_pools.kubernetes_api.login import Kubeconfig
from gpu_pools.observing import prometheus
from gpu_pools.observing.prometheus import CannotAskError
from gpu_pools.observing.times import Window, span
from gpu_pools.platforms.aks import answers as azure_answers
from gpu_pools.platforms.judgement import Unread
from gpu_pools.proof.emptying import Emptying, NotEmptiedError
from gpu_pools.proof.rollout_wait import NotRolledOutError, Place, RolloutWait
from gpu_pools.repairing.looking import Looker, NoNodeError
from gpu_pools.repairing.machine_replacement import commands
from gpu_pools.repairing.rights import Right, missing
from gpu_pools.repairing.steps import read_mark as read_repair
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.usage.questions import asked
from gpu_pools.usage.report import usage
from gpu_pools.usage.showing import usage_json
from gpu_pools.verifier.api import ApiError
from gpu_pools.verifier.changer.living_node import LivingNode
from gpu_pools.verifier.changer.nfd_rules import names_of_setters
from gpu_pools.verifier.changer.rollout_slots import RolloutSlots
from gpu_pools.verifier.changer.rollout_steps import read_mark
from gpu_pools.verifier.claims import read_devices
from gpu_pools.verifier.compare_node import compare_node
from gpu_pools.verifier.findings import Findings
from gpu_pools.verifier.node import NodeReader
from gpu_pools.verifier.reading import Unreadable
from pipelines.forge import ForgeError
from pipelines.github import GitHub
from pipelines.gitlab import GitLab
from tests.evidence import fleets
from tests.examples import examples
from tests.observing import fleets as observed
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROOT: Final = Path(__file__).parents[2]
COMMIT: Final = "a" * 40
UUID: Final = "0b8d0c5e-5b0f-4c6e-9a53-6f0f5a3c1d2e"


# --- odd documents ------------------------------------------------------------------------------------------

SCALARS: Final = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**400, 10**401)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["1k", "True", "-1", "mig", COMMIT, "\x1b[2J", "\ud800", "2026-03-04T12:00:00Z", "[" * 2000, "{}", '{"to":[]}']
    )
)
ANY: Final = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3), max_leaves=8
)


def places(document: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all that is in a document."""
    inside = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for key, value in inside:
        yield (*above, key)
        yield from places(value, (*above, key))


@st.composite
def odd(draw: st.DrawFn, document: Any) -> Any:
    """A document with up to three parts that are not as they should be, or any JSON in its place."""
    if draw(st.integers(0, 9)) == 0:
        return draw(ANY)
    made = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        paths = list(places(made))
        if not paths:
            return made
        *above, last = draw(st.sampled_from(paths))
        parent = made
        for key in above:
            parent = parent[key]
        if draw(st.booleans()) and isinstance(parent, dict):
            del parent[last]
        else:
            parent[last] = draw(ANY)
    return made


# --- what answers -------------------------------------------------------------------------------------------

POD: Final = {
    "metadata": {
        "namespace": "gpu-operator",
        "name": "p",
        "uid": "u",
        "labels": {"app": "nvidia-mig-manager"},
        "annotations": {"a": "b"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d1", "controller": True}],
    },
    "spec": {
        "nodeName": "mig-0",
        "containers": [{"name": "nvidia-device-plugin", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        "initContainers": [{"name": "i", "resources": {"requests": {"nvidia.com/gpu": "1k"}}}],
    },
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [
            {"name": "config-manager", "ready": False, "restartCount": 1, "state": {"waiting": {"reason": "Error"}}}
        ],
        "initContainerStatuses": [
            {"name": "change", "restartCount": 2, "lastState": {"terminated": {"exitCode": 1, "message": "m"}}}
        ],
    },
}
DAEMON_SET: Final = {
    "metadata": {"generation": 2, "uid": "d1"},
    "status": {"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 1, "numberAvailable": 1},
}
LEASES: Final = {"items": [{"metadata": {"name": "change-mig-0", "resourceVersion": "1"}, "spec": {"holderIdentity": "other"}}]}
MARK: Final = '{"to": "x", "cordoned": true, "since": "now", "stopped": ["u"], "why": "w"}'
POLICY: Final = {
    "status": {"state": "notReady", "conditions": [{"type": "Error", "status": "True", "reason": "r", "message": "m"}]}
}
CONFIG: Final = {"metadata": {"managedFields": [{"time": "2026-03-04T12:00:00Z"}]}, "data": {"k": "text"}}


def a_node() -> dict[str, Any]:
    made = copy.deepcopy(fleets.fleet().node("mig"))
    made["metadata"]["annotations"]["gpu-pools/change"] = MARK
    made["metadata"]["resourceVersion"] = "1"
    made["metadata"]["managedFields"] = [
        {"manager": "m", "time": "2026-03-04T12:00:00Z", "fieldsV1": {"f:metadata": {"f:labels": {}}}}
    ]
    made["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": True, "providerID": f"openstack:///{UUID}"}
    return made


class Cluster:
    """Answers a path with the first document whose key is in it; everything may be written."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers

    def get(self, path: str, **_: str) -> dict[str, Any]:
        for key, answer in self.answers.items():
            if key in path:
                if not isinstance(answer, dict):
                    # As the clients do (gpu_pools/verifier/api.py, gpu_pools/kubernetes_api/cluster_api.py).
                    raise ApiError(path, None, "the answer is not an object")
                return answer
        raise ApiError(path, 404, "not found")

    def patch(self, *_: Any) -> dict[str, Any]:
        return {}

    create = change = delete = patch


class Forge:
    """A client of a forge whose every answer is the same."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def json(self, _: str) -> Any:
        return self.answer

    def get(self, _: str, **__: Any) -> bytes:
        return COMMIT.encode()

    def pages(self, path: str) -> Iterator[Any]:
        if not isinstance(self.answer, list):
            message = f"{path}: no list"
            raise ForgeError(message)
        yield from self.answer

    def send(self, *_: Any) -> None:
        """Nothing is kept."""


def in_cluster(read: Callable[[Cluster], object], **parts: Any) -> tuple[Callable[[Any], object], Any]:
    """A reader of several answers: (reads a document with all of them, the document)."""
    return (lambda document: read(Cluster(document if isinstance(document, dict) else {"/": document}))), parts


# --- the readers --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """A reader.

    Attributes:
        read: reads a document.
        document: as the real one is.
        errors: what it may raise.
    """

    read: Callable[[Any], object]
    document: Any
    errors: tuple[type[Exception], ...] = ()


def _changed(api: Cluster) -> object:
    node = LivingNode(api, "mig-0", "gpu-operator")  # type: ignore[arg-type]
    read = node.read()
    seen = node.seen(read, has_slot=True, is_open=True, as_declared=lambda *_: True)
    node.give_back(read)
    node.restart_mig_manager()
    return seen


def _compared(api: Cluster) -> object:
    found = NodeReader(api, "mig-0").read(EXPECTED.node)  # type: ignore[arg-type]
    compare_node(EXPECTED, found, Unreadable("not asked"), findings := Findings())
    return findings


def _devices(api: Cluster) -> object:
    return read_devices(api, "mig-0", "gpu.nvidia.com")  # type: ignore[arg-type]


def _slots(api: Cluster) -> object:
    slots = RolloutSlots(api, "gpu-pools-verifier", "mig", "25%", "mig-0")  # type: ignore[arg-type]
    return slots.mine(), slots.taken(), slots.take(), slots.free()


def _repaired(api: Cluster) -> object:
    fleet = fleets.fleet()
    looker = Looker(api, "mig-0", "shop", declared(fleet.outputs), fleet.config_maps)  # type: ignore[arg-type]
    look = looker.look()
    return look.starting((), "x"), looker.pool("mig"), commands("shop", [], "mig", look.node, looker.nodes())


def _emptied(api: Cluster) -> object:
    clock = iter(range(0, 10**6, 5))
    emptying = Emptying(api, "mig", "new", 10.0, str, now=lambda: float(next(clock)), sleep=lambda _: None)  # type: ignore[arg-type]
    emptying.give_back()
    return emptying.run()


def _rolled_out(api: Cluster) -> object:
    place = Place("gpu-pools-verifier", "gpu-pools-verifier-mig", "pool=mig", "app=v")
    return RolloutWait(api, "mig", place, 1, 1e6, 1e6, str).look()  # type: ignore[arg-type]


class _Answering(ClusterApi):
    """A client to which a server has answered that."""

    def __init__(self, answer: Any) -> None:
        super().__init__(Kubeconfig(""))
        self.answer = answer

    def _answer(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {"items": self.answer}


def _items(answer: Any) -> list[dict[str, Any]]:
    return _Answering(answer).items("/")


def _judged(nodes_there: Any) -> object:
    fleet = fleets.fleet()
    listed = _items(nodes_there)
    found = judge("shop", declared(fleet.outputs), Snapshot(fleets.NOW, listed, fleet.config_maps))
    return evidence_table(found, colour=False), changing.changing(listed)


def _expectations(maps: Any) -> object:
    fleet = fleets.fleet()
    listed = _items(maps)
    return judge("shop", declared(fleet.outputs), Snapshot(fleets.NOW, fleet.nodes, cluster.config_maps_of(listed)))


def _graphs(document: Any) -> object:
    window = Window(0, 600, 60)
    return prometheus._results(
        "u",
        200,
        json.dumps(document).encode(),
        lambda found: [prometheus._row(one, window) for one in prometheus._rows(found, "matrix", 5)],
    )


def _used(document: Any) -> object:
    class Odd(prometheus.Prometheus):
        def _post(self, path: str, form: Mapping[str, str]) -> tuple[int, bytes]:
            del path, form
            return 200, json.dumps(document).encode()

    plan = observed.plan_of(pools=("turns",))
    return usage_json(usage(plan, asked(Odd("http://p"), span("1h"), ["turns"]), span("1h"), None), "x")


def _azure(read: Callable[[Any], object]) -> Callable[[Any], object]:
    """As components/aks/check.py asks: what is not understood is an answer that was not read."""

    def reads(document: Any) -> object:
        found = azure_check._said(lambda: read(document))
        return found if not isinstance(found, Unread) else str(found)

    return reads


class Openstack:
    """A session whose every answer is the same."""

    project = "p"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def get(self, *_: Any, **__: Any) -> tuple[Any, Mapping[str, str]]:
        return self.answer, {"OpenStack-API-Maximum-Version": "container-infra 1.14"}

    def pages(self, _: str, __: str, key: str) -> Iterator[Any]:
        yield from self.answer[key]


def _github(answer: Any) -> object:
    run = {"id": 1, "head_sha": COMMIT, "head_branch": "wish", "head_repository": {"owner": {"login": "s"}}}
    forge = GitHub(Forge(answer), "team/pools", "main", {"workflow_run": run})  # type: ignore[arg-type]
    for ask in (
        lambda: list(forge.requests()),
        lambda: forge.notes(1),
        lambda: forge.deployed("shop", lambda _: True),
        lambda: forge.unprotected("e", reviewed=True),
    ):
        with contextlib.suppress(ForgeError):
            ask()
    return None


def _gitlab(answer: Any) -> object:
    forge = GitLab(Forge(answer), 5, "main", {})  # type: ignore[arg-type]
    for ask in (lambda: list(forge.requests()), lambda: forge.notes(1), lambda: forge.deployed("shop", lambda _: True)):
        with contextlib.suppress(ForgeError):
            ask()
    return None


NODE: Final = a_node()
NODES: Final = {"items": [NODE]}
PODS: Final = {"items": [POD, {**POD, "metadata": {**POD["metadata"], "namespace": "tenant", "uid": "u2"}}]}  # type: ignore[dict-item]
EXPECTED: Final = nodes.healthy(*nodes.plan_and_pool({"mig": {"layout": {"1g.10gb": 7}}})).expected
DEVICE: Final = {
    "name": "gpu-0",
    "allowMultipleAllocations": True,
    "attributes": {"type": {"string": "gpu"}, "uuid": {"string": "GPU-a"}},
    "capacity": {"shares": {"value": "4"}},
}
SLICES: Final = {"items": [{"spec": {"driver": "gpu.nvidia.com", "pool": {"generation": 1}, "devices": [DEVICE]}}]}
REPORT: Final = json.loads(NODE["metadata"]["annotations"]["gpu-pools/verification"])
SAMPLE: Final = {
    "metric": {"gpu_pool": "turns", "instance": "n", "namespace": "t", "pod": "p", "resource": "nvidia.com/gpu"},
    "value": [0, "3"],
}
SERIES: Final = {"metric": {"gpu_pool": "turns"}, "values": [[0, "1"], [60, "2"]]}
SKU: Final = {
    "resourceType": "virtualMachines",
    "name": "Standard_NC24",
    "family": "f",
    "capabilities": [{"name": "vCPUs", "value": "24"}],
    "locationInfo": [{"location": "westeurope", "zones": ["1"]}],
    "restrictions": [{"type": "Zone", "restrictionInfo": {"zones": ["1"], "locations": ["westeurope"]}, "reasonCode": "x"}],
}
AKS: Final = {
    "location": "West Europe",
    "properties": {
        "currentKubernetesVersion": "1.34.1",
        "networkProfile": {"networkPlugin": "azure"},
        "agentPoolProfiles": [{"name": "nb", "vmSize": "Standard_NC24", "count": 2, "nodeLabels": {"gpu-pools/pool": "nb"}}],
    },
}
GROUP: Final = {"uuid": UUID, "name": "nb", "node_count": 2, "status": "CREATE_COMPLETE", "flavor_id": "f", "labels": {}}
_LIMITS: Final = ("maxTotalInstances", "totalInstancesUsed", "maxTotalCores", "totalCoresUsed", "maxTotalRAMSize", "totalRAMUsed")
OPENSTACK: Final = {
    "flavors": [{"id": "1", "name": "gpu", "vcpus": 8, "ram": 1024}],
    "images": [{"id": "i", "name": "n"}],
    "keypairs": [{"keypair": {"name": "k"}}],
    "networks": [{"id": "n", "name": "out"}],
    "clusters": [{"uuid": UUID, "name": "gpu"}],
    "clustertemplates": [{"uuid": UUID, "name": "t", "labels": {}}],
    "nodegroups": [GROUP],
    "hard_limit": 5,
    "uuid": UUID,
    "cluster_template_id": UUID,
    "status": "CREATE_COMPLETE",
    "node_count": 1,
    "name": "x",
    "limits": {"absolute": dict.fromkeys(_LIMITS, 1)},
}
RUN: Final = {
    "id": 5,
    "head_sha": COMMIT,
    "event": "push",
    "head_branch": "main",
    "head_repository": {"full_name": "team/pools"},
    "conclusion": None,
}
GITHUB: Final = {
    "workflow_runs": [RUN],
    "artifacts": [{"name": "deployed-shop", "id": 1, "expired": False}],
    "branch_policies": [{"name": "main"}],
    "jobs": [{"name": "a / shop: deploy the plan x", "conclusion": "success"}],
    "deployment_branch_policy": {"custom_branch_policies": True},
    "protection_rules": [{"type": "required_reviewers"}],
}
LISTED: Final = [
    {
        "id": 1,
        "iid": 7,
        "number": 7,
        "sha": COMMIT,
        "head": {"sha": COMMIT},
        "user": {"login": "l", "type": "Bot"},
        "author": {"id": 1},
        "body": "b",
        "name": "deploy-shop",
        "status": "success",
        "ref": "main",
        "tag": False,
        "commit": {"id": COMMIT},
        "artifacts_file": {},
        "system": False,
    }
]

#: Module -> its reader.
READERS: Final[Mapping[str, Reader]] = {
    "gpu_pools/verifier/changer/living_node.py": Reader(
        *in_cluster(_changed, **{"/nodes/": NODE, "/daemonsets/": DAEMON_SET, "/pods": PODS}), (ApiError,)
    ),
    "gpu_pools/verifier/changer/rollout_slots.py": Reader(
        *in_cluster(_slots, **{"/leases": LEASES, "/daemonsets/": DAEMON_SET, "/nodes/": NODE}), (ApiError,)
    ),
    "gpu_pools/verifier/node.py": Reader(
        *in_cluster(
            _compared,
            **{"/nodes/": NODE, "/pods": PODS, "/configmaps/": CONFIG, "/clusterpolicies/": POLICY},
        )
    ),
    "gpu_pools/verifier/claims.py": Reader(*in_cluster(_devices, **{"/resourceslices": SLICES}), (ApiError,)),
    "gpu_pools/verifier/changer/rollout_steps.py": Reader(lambda found: read_mark(json.dumps(found)), json.loads(MARK)),
    "gpu_pools/repairing/steps.py": Reader(lambda found: read_repair(json.dumps(found)), json.loads(MARK)),
    "gpu_pools/repairing/looking.py": Reader(
        *in_cluster(_repaired, **{"/nodes/": NODE, "/nodes": NODES, "/daemonsets/": DAEMON_SET, "/pods": PODS}),
        (ApiError, EvidenceError, NoNodeError),
    ),
    "gpu_pools/repairing/machine_replacement.py": Reader(
        lambda found: (
            commands(
                "shop",
                [{"type": "openstack:containerinfra/nodeGroup:NodeGroup", "inputs": {"name": "mig"}}],
                "mig",
                found,
                [found],
            )
            if isinstance(found, dict)
            else None
        ),
        NODE,
    ),
    "gpu_pools/repairing/rights.py": Reader(
        lambda found: missing(type("Reviews", (), {"create": lambda *_: found})(), (Right("patch", "nodes"),)),  # type: ignore[arg-type]
        {"status": {"allowed": True}},
        (ApiError,),
    ),
    "gpu_pools/proof/emptying.py": Reader(
        *in_cluster(_emptied, **{"/nodes": NODES, "/daemonsets/": DAEMON_SET, "/pods": PODS}), (NotEmptiedError,)
    ),
    "gpu_pools/proof/rollout_wait.py": Reader(
        *in_cluster(_rolled_out, **{"/daemonsets/": DAEMON_SET, "/nodes": NODES, "/pods": PODS}), (NotRolledOutError,)
    ),
    "gpu_pools/evidence/verdicts.py": Reader(_judged, [NODE], (ClusterError,)),
    "gpu_pools/evidence/cluster.py": Reader(_expectations, [{"metadata": {"name": "m"}, "data": {"k": "v"}}], (ClusterError,)),
    "gpu_pools/evidence/reports.py": Reader(lambda found: parse_report(json.dumps(found)), REPORT, (ReportError,)),
    "gpu_pools/evidence/declared.py": Reader(declared, fleets.fleet().outputs, (EvidenceError,)),
    "gpu_pools/evidence/waiting.py": Reader(lambda found: waiting.waiting(found if isinstance(found, list) else []), [POD]),
    "gpu_pools/evidence/pods.py": Reader(lambda found: pods._short(found) if isinstance(found, dict) else None, POD),
    "gpu_pools/changes/workloads.py": Reader(
        lambda found: workloads.of_cluster("pods.json", json.dumps(found)), PODS, (InvalidStackError,)
    ),
    "gpu_pools/platforms/aks/answers.py": Reader(
        _azure(
            lambda found: (
                azure_answers.read_regions(found["regions"]),
                azure_answers.read_sizes(found["sizes"], "westeurope"),
                azure_answers.read_usages(found["usages"]),
                azure_answers.read_versions(found["versions"]),
                azure_answers.read_cluster(found["cluster"]),
                azure_answers.read_subnets(found["subnets"]),
                azure_answers.read_reservations(found["reservations"]),
                azure_answers.read_managed(found["managed"]),
            )
        ),
        {
            "regions": [{"name": "westeurope", "metadata": {"regionType": "Physical"}}],
            "sizes": [SKU],
            "usages": [{"name": {"value": "cores"}, "currentValue": 1, "limit": 2}],
            "versions": {
                "values": [{"version": "1.34", "patchVersions": {"1.34.1": {}}, "capabilities": {"supportPlan": ["x"]}}]
            },
            "cluster": AKS,
            "subnets": [{"id": "/x", "name": {"value": "SubnetSpace"}, "currentValue": 1.0, "limit": -1}],
            "reservations": [{"sku": {"name": "S", "capacity": 1}, "zones": ["1"]}],
            "managed": [{"name": "n", "properties": {"gpuProfile": {"nvidia": {"managementMode": "Managed"}}}}],
        },
    ),
    "components/aks/check.py": Reader(_azure(azure_answers.read_cluster), AKS, (AzureUnreadError,)),
    "components/magnum/check.py": Reader(
        lambda found: openstack_check.read_cloud(Openstack(found), (), "gpu"),  # type: ignore[arg-type]
        OPENSTACK,
    ),
    "gpu_pools/images/registry_answers.py": Reader(
        lambda found: registry_answers.content(
            registry_answers.Answer(200, {"content-type": "application/vnd.oci.image.index.v1+json"}, json.dumps(found).encode()),
            "",
        ),
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [{"platform": {"os": "linux", "architecture": "arm64"}}],
        },
        (UnaskedError,),
    ),
    "gpu_pools/observing/prometheus.py": Reader(
        _graphs, {"status": "success", "data": {"resultType": "matrix", "result": [SERIES]}}, (CannotAskError,)
    ),
    "gpu_pools/usage/questions.py": Reader(
        _used, {"status": "success", "data": {"resultType": "vector", "result": [SAMPLE]}}, (CannotAskError,)
    ),
    "gpu_pools/verifier/changer/nfd_rules.py": Reader(
        lambda found: names_of_setters([found], "a"), {"metadata": {"name": "r"}, "spec": {"rules": [{"labels": {"a": "b"}}]}}
    ),
    "pipelines/github.py": Reader(_github, GITHUB),
    "pipelines/gitlab.py": Reader(_gitlab, LISTED),
}

#: Modules that have such answers in their hands, and who reads for them or catches what they raise.
ASKED_BY: Final = {
    # by readers above
    "gpu_pools/verifier/changer/owners.py": "gpu_pools/verifier/changer/living_node.py",
    "gpu_pools/verifier/marks.py": "gpu_pools/verifier/node.py",
    # and by properties of tests/verifier/test_documents.py
    "gpu_pools/verifier/documents.py": "gpu_pools/verifier/changer/living_node.py",
    "gpu_pools/proof/rollout_end.py": "gpu_pools/proof/rollout_wait.py",
    "gpu_pools/evidence/changing.py": "gpu_pools/evidence/verdicts.py",
    "gpu_pools/repairing/repair.py": "gpu_pools/repairing/looking.py",
    "gpu_pools/repairing/telling.py": "gpu_pools/repairing/looking.py",
    "gpu_pools/platforms/aks/system_pool.py": "components/aks/system_pool.py asks for what it reads",
    "gpu_pools/platforms/magnum/living.py": "components/magnum/check.py",
    "pipelines/forge.py": "pipelines/github.py",
    # by hooks of components that catch everything: a cluster that cannot be asked stops nothing
    **dict.fromkeys(
        (
            "gpu_pools/plan/cluster_checks.py",
            "gpu_pools/plan/operator_upgrade.py",
            "gpu_pools/plan/mps_support.py",
            "gpu_pools/plan/observed.py",
            "gpu_pools/plan/operands_due.py",
            "gpu_pools/plan/rollouts.py",
            "components/kubernetes/ask_first.py",
            "components/proof/fixed_counts.py",
            "components/kubernetes/recorded_objects.py",
            "components/gpu_operator/mps_first.py",
            "components/observability/monitors_there.py",
            "components/gpu_operator/upgrade_first.py",
            "components/proof/why.py",
        ),
        "a hook that catches everything",
    ),
    # the clients themselves: what is not JSON, or not an object, is their own error (tests of each)
    **dict.fromkeys(
        (
            "gpu_pools/verifier/api.py",
            "gpu_pools/kubernetes_api/cluster_api.py",
            "gpu_pools/kubernetes_api/errors.py",
            "gpu_pools/kubernetes_api/login.py",
            "gpu_pools/evidence/stack.py",
            "components/aks/session.py",
            "components/magnum/session.py",
            "components/magnum/settings.py",
            "gpu_pools/adopting/live.py",
            "gpu_pools/adopting/documents.py",
            "gpu_pools/adopting/aks/resources.py",
            "gpu_pools/adopting/inside.py",
            "gpu_pools/verifier/hook_programs/pod_api.py",
        ),
        "a client, or a reader of one shape",
    ),
    # programs of Jobs that start anew where they end badly; a pod's objects are the API server's
    **dict.fromkeys(
        (
            "gpu_pools/verifier/hook_programs/cleanup_program.py",
            "gpu_pools/verifier/hook_programs/leave_program.py",
            "gpu_pools/verifier/hook_programs/node_traces.py",
        ),
        "a Job that is tried again",
    ),
    # the verifier's own loop, which goes on after whatever a look raises
    **dict.fromkeys(
        ("gpu_pools/verifier/watch.py", "gpu_pools/verifier/evidence.py", "gpu_pools/verifier/untaint.py"),
        "gpu_pools/verifier/api.py",
    ),
    # the engine's and the project's own documents, files of people, NVML
    **dict.fromkeys(
        (
            "gpu_pools/adopting/aks/agent_pools.py",
            "gpu_pools/adopting/existing/nodes.py",
            "gpu_pools/adopting/magnum/node_groups.py",
            "gpu_pools/adopting/pools.py",
            "gpu_pools/bench/client.py",
            "gpu_pools/bench/conductor.py",
            "gpu_pools/bench/document.py",
            "gpu_pools/bench/pods.py",
            "gpu_pools/changes/steps.py",
            "gpu_pools/cli/adopt.py",
            "gpu_pools/cli/release.py",
            "gpu_pools/cli/repair.py",
            "gpu_pools/dashboards/choosing.py",
            "gpu_pools/drift/beside.py",
            "gpu_pools/drift/paths.py",
            "gpu_pools/drift/programmed.py",
            "gpu_pools/drift/refreshed.py",
            "gpu_pools/drift/undeployed.py",
            "gpu_pools/existing/documents.py",
            "gpu_pools/existing/kinds.py",
            "gpu_pools/existing/mig_targets.py",
            "gpu_pools/existing/plugin_check.py",
            "gpu_pools/existing/plugin_import.py",
            "gpu_pools/existing/releases.py",
            "gpu_pools/hardware/models.py",
            "gpu_pools/observing/azure_monitor.py",
            "gpu_pools/plan/adoption.py",
            "gpu_pools/platforms/aks/azure_types.py",
            "gpu_pools/stack/charts.py",
            "gpu_pools/stack/refused_values.py",
            "gpu_pools/stack/settings.py",
            "gpu_pools/verifier/causes.py",
            "gpu_pools/verifier/sources.py",
            "gpu_pools/verifier/expectation.py",
            "gpu_pools/verifier/nvml.py",
            "pipelines/comments.py",
            "pipelines/release.py",
            "components/proof/rolled_out.py",
            "components/aks/system_pool.py",
            "components/existing/cluster.py",
            "components/gpu_operator/operator.py",
            "components/magnum/cluster.py",
            "components/pools.py",
            "components/provider.py",
        ),
        "not an answer of a cluster, a cloud, a forge or a Prometheus",
    ),
}

_KEYS: Final = {"items", "metadata", "status", "spec", "labels", "annotations", "properties", "containers", "name", "id"}


def _reads_answers(path: Path) -> bool:
    """Whether a module takes JSON apart, or objects by the words of the APIs."""
    for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match one:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="json"), attr="loads" | "load")):
                return True
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(key)), *_]) if key in _KEYS - {
                "name",
                "id",
            }:
                return True
            case ast.Subscript(slice=ast.Constant(value=str(key)), ctx=ast.Load()) if key in _KEYS - {
                "labels",
                "annotations",
                "containers",
            }:
                return True
    return False


def test_each_module_that_reads_answers_has_a_fuzz_test_or_somebody_who_answers_for_it() -> None:
    found = {
        str(path.relative_to(ROOT))
        for package in ("gpu_pools", "pipelines", "components")
        for path in (ROOT / package).rglob("*.py")
        if _reads_answers(path)
    }
    assert found - READERS.keys() - ASKED_BY.keys() == set(), "give it a row in READERS"
    assert not READERS.keys() & ASKED_BY.keys()
    assert all((ROOT / name).exists() for name in [*READERS, *ASKED_BY])


@pytest.mark.parametrize("module", READERS)
def test_the_real_document_is_read(module: str) -> None:
    """So that the test below cannot pass because nothing gets so far."""
    reader = READERS[module]
    with contextlib.suppress(NotRolledOutError, NotEmptiedError):
        reader.read(copy.deepcopy(reader.document))


@pytest.mark.parametrize("module", READERS)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_an_odd_answer_is_read_or_told(module: str, data: st.DataObject) -> None:
    reader = READERS[module]
    document = data.draw(odd(reader.document))
    with contextlib.suppress(*reader.errors):
        reader.read(document)
