"""Many healthy nodes before a real API server, and a verifier for each: for what they cost the API.

Real: etcd, the API server, the rights and the policy, each verifier's token (bound to its pod, as the kubelet gets one), and the
verifier's own code, in this process. Made up: the Node objects and their operands' pods, as the real ones look once all is done,
and what NVML says. MPS is left out: its daemon is asked on the node, which costs the API nothing.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_pools.allocation.device_plugin import DEVICE_PLUGIN_CONFIG_MAP
from gpu_pools.plan.placing import pool_selector
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.node_expectation import SEARCHED_NAMESPACES
from gpu_pools.proof.verifier_pods import EXPECTATION_FILE, PROGRAM_FILE, SERVICE_ACCOUNT, VERIFIER_APP, Program, expectation_file
from gpu_pools.proof.verifier_reports import reports
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from gpu_pools.text.yaml_text import load_yaml
from gpu_pools.verifier.api import Api, ApiError
from gpu_pools.verifier.archive import archive, digest
from gpu_pools.verifier.evidence import Origin, mark
from gpu_pools.verifier.node import NodeReader
from gpu_pools.verifier.observation import Observer
from gpu_pools.verifier.watch import _JITTER, _LEAST_GAP_SECONDS, _WATCH_SECONDS, follow
from sandbox.cluster import control_plane as cluster
from sandbox.cluster.api import Api as Admin
from sandbox.system import processes
from tests.granted import grant
from tests.patience import scaled
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpu_pools.plan.planned import PoolPlan
    from gpu_pools.verifier.observation import Assertion
    from gpu_pools.verifier.reading import Reading
    from sandbox.toolchain.tools import Tools

STACK = """
config:
  gpu-pools:cluster: {platform: existing}
  gpu-pools:sharing:
    whole: {exclusive: {}}
    sliced: {timeSlicing: {replicas: 4}}
    parted: {mig: {layout: {3g.40gb: 1, 2g.20gb: 2}}}
  gpu-pools:operator: {driver: preinstalled}
  gpu-pools:verification: {}
  gpu-pools:pools:
    - {name: whole, nodeSelector: {pool: whole}, gpuModel: NVIDIA H100 80GB HBM3, gpusPerNode: 8, sharing: whole}
    - {name: sliced, nodeSelector: {pool: sliced}, gpuModel: NVIDIA A10, gpusPerNode: 1, sharing: sliced}
    - {name: parted, nodeSelector: {pool: parted}, gpuModel: NVIDIA A100-SXM4-80GB, gpusPerNode: 8, sharing: parted}
"""
PLAN = plan_config(load_yaml(STACK)["config"])
_ROOT = Path(__file__).parents[2]
NODES = "/api/v1/nodes"
#: What docs/reference/verification.md promises of an undisturbed node at the usual interval.
MOST_PER_HOUR = 100
#: The API server is asked by so many at once; more only wait for each other here.
_AT_ONCE = 8
_LONGEST_WAIT = 120
_REQUEST = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$")
_OPEN_WATCHES = re.compile(r"^apiserver_longrunning_requests\{(.*)\} (\S+)$")
_STORED = re.compile(r"^apiserver_storage_size_bytes\{(.*)\} (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def most_per_hour(per_assertion: float, interval: float = PLAN.settings.verification.interval_seconds) -> float:
    """The most requests an hour of the verifier of an undisturbed node: assertions at the shortest spread, and its watches."""
    return 3600 / (interval * (1 - _JITTER)) * per_assertion + 3600 / (_WATCH_SECONDS + _LEAST_GAP_SECONDS)


class _Prepared:
    """Says what NVML says on a healthy node, in place of the child process that asks it."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def ask(self) -> None:
        """There is nobody to be asked."""

    def read(self, *, again: bool = False) -> Reading:
        del again
        return self._reading

    def release(self) -> None:
        """There is nothing to end."""


#: Set once the fleet is gone.
_OVER = threading.Event()


class _FleetEndedError(Exception):
    """Ends a thread that watches."""


@dataclass(frozen=True)
class _Followed(Api):
    """Tells that an event was worked off, and ends the thread that watches once the fleet is gone."""

    heard: threading.Event = field(default_factory=threading.Event)

    def watch(self, path: str, seconds: int, **query: str) -> Iterator[dict[str, Any]]:
        if _OVER.is_set():
            raise _FleetEndedError
        for event in super().watch(path, seconds, **query):
            yield event
            self.heard.set()


@dataclass
class Verifier:
    """One node's verifier: it asserts and marks as `watch --mark` does, and counts how often its node's changes woke it."""

    node: str
    pool_plan: PoolPlan
    api: _Followed
    program: str
    woken: int = 0
    observer: Observer = field(init=False)

    def __post_init__(self) -> None:
        healthy = nodes.healthy(PLAN, self.pool_plan, self.node)
        self.expected = healthy.expected
        self.reader = NodeReader(self.api, self.node)
        prepared: Any = _Prepared(healthy.nvml)
        self.observer = Observer(prepared, self.reader, 0)
        file = expectation_file(PLAN, self.pool_plan)
        self.origin = Origin(file.sha256, self.program, PLAN.settings.verification.interval_seconds)

    def assert_and_mark(self) -> Assertion:
        """What an interval brings."""
        assertion = self.observer.hold(self.expected)
        trouble = mark(self.reader, self.origin, self.expected, assertion)
        assert trouble is None, trouble
        return assertion

    def follow(self) -> None:
        """Begin to watch the node, in a thread."""
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        with contextlib.suppress(_FleetEndedError):
            follow(self.reader, self._wake)

    def _wake(self) -> None:
        self.woken += 1


class Fleet:
    """A cluster of that many nodes, in pools of the same size.

    Args:
        folder: of the cluster, and of the tokens.
        tools: the programs.
        count: of nodes.
    """

    def __init__(self, folder: Path, tools: Tools, count: int) -> None:
        self.folder = folder
        _OVER.clear()
        self.cluster = cluster.boot(folder / "cluster", "fleet", tools, machines=False)
        self.admin = Admin.at(self.cluster.kubeconfig)
        self.program, self.file = digest(), archive()
        self.deployed = Program("program", self.program, hashlib.sha256(self.file).hexdigest())
        self._prepare()
        pools = PLAN.pools
        self.verifiers: Sequence[Verifier] = self.each(
            self._verifier, [(f"gpu-{number}", pools[number % len(pools)]) for number in range(count)]
        )
        self.wait_until(self._is_enforced, "The policy is enforced")

    def each(self, work: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Do something with each item, several at once; the first failure counts."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(lambda item: work(*item) if isinstance(item, tuple) else work(item), items))

    def assert_all(self) -> list[Assertion]:
        """An assertion of each node."""
        return self.each(Verifier.assert_and_mark, self.verifiers)

    def follow_all(self, most: int | None = None) -> None:
        """Let verifiers watch their nodes, each or so many; returns once each of them knows how its node is now."""
        for verifier in self.verifiers[:most]:
            verifier.follow()
        for verifier in self.verifiers[:most]:
            assert verifier.api.heard.wait(_LONGEST_WAIT), f"the verifier of {verifier.node} hears nothing"

    def report(
        self, *, page: bool = False, longest: float = _LONGEST_WAIT
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        """`python -m gpu_pools evidence` on all nodes, as a process; returns how it ended, and its evidence (none where it wrote
        none).

        Args:
            page: whether it writes the HTML page too.
            longest: seconds that it may take.
        """
        outputs, evidence = self.folder / "outputs.json", self.folder / "evidence.json"
        outputs.write_text(json.dumps({"clusterName": "fleet", "verification": reports(PLAN, self.deployed)}))
        evidence.unlink(missing_ok=True)
        command = [
            sys.executable,
            "-m",
            "gpu_pools",
            "evidence",
            "--outputs",
            str(outputs),
            "--kubeconfig",
            str(self.cluster.kubeconfig),
        ]
        command += ["--json", str(evidence), *(["--html", str(self.folder / "evidence.html")] if page else [])]
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False, timeout=scaled(longest))
        return done, json.loads(evidence.read_text()) if evidence.exists() else {}

    def requests(self) -> Counter[tuple[str, str]]:
        """(verb, resource) -> requests that the API server has answered; watches count when they end.

        It does not count by who asked, so nobody else may ask meanwhile.
        """
        found: Counter[tuple[str, str]] = Counter()
        for labels, number in self._metric(_REQUEST):
            resource = "/".join(filter(None, (labels["resource"], labels["subresource"])))
            found[labels["verb"], resource] += number
        return found

    def stored_bytes(self) -> int:
        """The size of etcd's database, as etcd tells the API server; what compaction has freed in it counts."""
        return sum(number for _, number in self._metric(_STORED))

    def watches(self) -> int:
        """The watches of single nodes that are open."""
        return sum(
            number
            for labels, number in self._metric(_OPEN_WATCHES)
            if (labels["verb"], labels["resource"], labels["scope"]) == ("WATCH", "nodes", "resource")
        )

    @staticmethod
    def wait_until(holds: Callable[[], bool], what: str) -> None:
        """Wait until something is so; `what` is a sentence."""
        processes.wait_until(holds, timeout=_LONGEST_WAIT, what=what)

    def end(self) -> None:
        """Take it away."""
        _OVER.set()
        cluster.erase(self.folder / "cluster")

    def _metric(self, pattern: re.Pattern[str]) -> Iterator[tuple[dict[str, str], int]]:
        for line in self.admin.text("/metrics").splitlines():
            match = pattern.match(line)
            if match:
                yield dict(_LABEL.findall(match[1])), int(float(match[2]))

    def _prepare(self) -> None:
        self.admin.create("/api/v1/namespaces", {"metadata": {"name": OPERATOR_NAMESPACE}})
        for namespace in (OPERATOR_NAMESPACE, *SEARCHED_NAMESPACES):
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
            self.wait_until(lambda path=path: self.admin.get(path) is not None, f"{namespace} has an account")  # type: ignore[misc]
        # They would call the nodes unreachable after a while, and ask on their own account.
        processes.stop(self.cluster.folder, ["kube-controller-manager", "kube-scheduler"])
        texts = dict(PLAN.device_plugin_configs)
        body = {"metadata": {"name": DEVICE_PLUGIN_CONFIG_MAP}, "data": texts}
        self.admin.create(f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/configmaps", body)
        grant(self.admin)
        for pool_plan in PLAN.pools:
            file = expectation_file(PLAN, pool_plan)
            expectation = {"metadata": {"name": file.name}, "data": {EXPECTATION_FILE: file.text}}
            self.admin.create(f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/configmaps", expectation)
        program = {PROGRAM_FILE: base64.b64encode(self.file).decode()}
        body = {"metadata": {"name": self.deployed.config_map}, "binaryData": program}
        self.admin.create(f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/configmaps", body)

    def _is_enforced(self) -> bool:
        """Whether what a verifier may not do is refused; the API server takes a new policy up a moment later."""
        first = self.verifiers[0]
        try:
            # Another value each time: what changes nothing any more is never refused.
            first.api.patch(f"{NODES}/{first.node}", {"metadata": {"annotations": {"another": str(time.monotonic_ns())}}})
        except ApiError as error:
            return error.status == HTTPStatus.FORBIDDEN
        return False

    def _verifier(self, name: str, pool_plan: PoolPlan) -> Verifier:
        self._make_node(name, pool_plan)
        account = self.folder / name
        account.mkdir()
        (account / "token").write_text(self._token(name))
        (account / "ca.crt").write_text(self.cluster.ca_pem)
        return Verifier(name, pool_plan, _Followed(self.cluster.server, account / "token", account / "ca.crt"), self.program)

    def _make_node(self, name: str, pool_plan: PoolPlan) -> None:
        wanted = nodes.kubernetes_of(PLAN, pool_plan, name)
        labels = {**wanted.labels, **pool_selector(PLAN.settings.cluster, pool_plan)}
        self.admin.create(NODES, {"metadata": {"name": name, "labels": labels}})
        amounts = {resource: str(count) for resource, count in wanted.allocatable.items()}
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": nodes.STARTED, "lastTransitionTime": nodes.STARTED}
        self.admin.patch(
            f"{NODES}/{name}/status", {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}}
        )
        assert isinstance(wanted.pods, tuple)
        for pod in wanted.pods:
            container = {"name": pod.app.removesuffix("-daemonset"), "image": f"{pod.app}:v1"}
            self._make_pod(OPERATOR_NAMESPACE, f"{pod.app}-{name}", {"app": pod.app}, name, "default", container)
        verifier = {"name": "watch", "image": "python:3.12"}
        told = {"app.kubernetes.io/name": VERIFIER_APP}
        self._make_pod(VERIFIER_NAMESPACE, f"verifier-{name}", told, name, SERVICE_ACCOUNT, verifier)

    def _make_pod(
        self, namespace: str, name: str, labels: dict[str, str], node: str, account: str, container: dict[str, str]
    ) -> None:
        spec = {"nodeName": node, "serviceAccountName": account, "automountServiceAccountToken": False, "containers": [container]}
        path = f"/api/v1/namespaces/{namespace}/pods"
        self.admin.create(path, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        running = {"name": container["name"], "image": "x", "imageID": "", "ready": True, "restartCount": 0}
        running |= {"state": {"running": {"startedAt": nodes.STARTED}}}
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [running]}
        self.admin.patch(f"{path}/{name}/status", {"status": status})

    def _token(self, node: str) -> str:
        base = f"/api/v1/namespaces/{VERIFIER_NAMESPACE}"
        pod = (self.admin.get(f"{base}/pods/verifier-{node}") or {})["metadata"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["name"], "uid": pod["uid"]}
        spec = {"expirationSeconds": 3600, "boundObjectRef": bound}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self.admin.create(f"{base}/serviceaccounts/{SERVICE_ACCOUNT}/token", body)["status"]["token"])
