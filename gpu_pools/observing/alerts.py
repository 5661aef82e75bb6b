"""The alerts: few, each with what it means, what to do, and its place in docs/runbooks/alerts.md.

Each is about a fault that the exporter's metrics show, or the operator's own. None is about what a planned change does: while
partitions or the driver change the exporter is away, and so are its series. An Xid is an event: its alert stays for half an hour
after the last one. Where the stack has verifiers, three alerts are about what they say; during a change they wait, as a deploy
does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.observing import rules, shares
from gpu_pools.observing.series import DECLARED_GPUS, DECLARED_REPLICAS, GPU_KEY, JOB, NODE_KEY, POOL
from gpu_pools.observing.xids import raising
from gpu_pools.proof.verifier_pods import VERIFIER_APP
from gpu_pools.stack.kubernetes_names import POOL_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_pools.stack.verification import VerificationSettings

GROUP: Final = "gpu-pools.alerts"
RUNBOOK: Final = "alerts.md"
#: An event's alert stays as long.
_AFTER_EVENT: Final = "30m"
#: What one assertion may take (gpu_pools/verifier/watch.py).
_ASSERTION_SECONDS: Final = 360
_WHERE: Final = "GPU {{ $labels.gpu }} ({{ $labels.UUID }}) of {{ $labels.instance }}, pool {{ $labels.gpu_pool }}"
_NODE: Final = "{{ $labels.instance }}, pool {{ $labels.gpu_pool }}"
_KEY: Final = ", ".join(NODE_KEY)
#: What kube-state-metrics must be told to show of nodes (--metric-labels-allowlist=nodes=[…]) for two of the alerts.
MIG_STATE_LABEL: Final = "nvidia.com/mig.config.state"
DEPLOY_LABELS: Final = ("nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.dcgm-exporter")
NODE_LABELS: Final = (POOL_LABEL, MIG_STATE_LABEL, *DEPLOY_LABELS)
_RESET: Final = "Cordon and drain the node, then reset the GPU (`nvidia-smi --gpu-reset`) or restart the node."


@dataclass(frozen=True)
class Alert:
    """One rule of an alert; several may have its name.

    Attributes:
        name: of the alert.
        expression: raises it.
        severity: critical: pods fail now; warning: they will, or run slower; info: GPUs are wasted.
        summary: what is wrong, and where.
        remedy: what to do first; the runbook has the rest.
        for_: how long before it is raised.
        stays: how long after it was true.
        by_xid: whether an Xid raises it: a label then tells it from a rule of its name that something else raises.
    """

    name: str
    expression: str
    severity: str
    summary: str
    remedy: str
    for_: str = ""
    stays: str = ""
    by_xid: bool = False

    def rule(self, runbooks: str) -> dict[str, Any]:
        """As Prometheus has it."""
        page = f"{RUNBOOK}#{self.name.lower()}"
        return {
            "alert": self.name,
            "expr": self.expression,
            **({"for": self.for_} if self.for_ else {}),
            **({"keep_firing_for": self.stays} if self.stays else {}),
            "labels": {"severity": self.severity, **({"evidence": "xid"} if self.by_xid else {})},
            "annotations": {
                "summary": self.summary,
                "remedy": self.remedy,
                "runbook": f"docs/runbooks/{page}",
                **({"runbook_url": f"{runbooks.rstrip('/')}/{page}"} if runbooks else {}),
            },
        }


def alert_group(runbooks: str, verifiers: VerificationSettings | None, claimed: Sequence[str] = ()) -> dict[str, Any]:
    """The group of all alerts.

    Args:
        runbooks: URL of their folder, or empty.
        verifiers: how often they assert, and how long they may wait; None: there are none.
        claimed: names of the pools whose pods get GPUs by resource claims.
    """
    return {"name": GROUP, "rules": [one.rule(runbooks) for one in alerts(verifiers, claimed)]}


def alerts(verifiers: VerificationSettings | None, claimed: Sequence[str] = ()) -> tuple[Alert, ...]:
    """All of them; `verifiers` and `claimed`: as of the group."""
    nothing_offered = _nothing_offered(claimed)
    own = _of_verifiers(verifiers, nothing_offered) if verifiers else ()
    return (*_of_nodes(), *_of_operands(nothing_offered), *_of_gpus(), *_of_shares(), *own)


def _of_nodes() -> Iterator[Alert]:
    yield Alert(
        "GpuExporterDown",
        f'up{{job="{JOB}", {POOL}!=""}} == 0',
        "warning",
        f"The DCGM exporter of {_NODE} does not answer: nothing is known of its GPUs.",
        "Read the log of its pod in the namespace gpu-operator: kubectl logs -n gpu-operator -l app=nvidia-dcgm-exporter.",
        for_="15m",
    )
    yield Alert(
        "GpuLost",
        f"{rules.NODE_GPUS} < on ({POOL}) group_left () {DECLARED_GPUS}",
        "critical",
        f"{_NODE} has {{{{ $value }}}} GPUs that answer, and fewer than were declared.",
        "Cordon and drain the node and restart it; where the GPU does not come back have it replaced.",
        for_="5m",
    )
    yield Alert(
        "GpuDriverUpgradeFailed",
        "max(gpu_operator_nodes_upgrades_failed) > 0",
        "warning",
        "The upgrade of the driver has failed on {{ $value }} nodes, which stay cordoned.",
        "kubectl get nodes -l nvidia.com/gpu-driver-upgrade-state=upgrade-failed shows them; their driver pods' logs say why.",
        for_="5m",
    )


def _of_operands(nothing_offered: str) -> Iterator[Alert]:
    stuck, paused = _stuck(), " or ".join(_labelled(label, "paused-for-.+") for label in DEPLOY_LABELS)
    yield Alert(
        "GpuPartitioningStuck",
        stuck,
        "critical",
        f"mig-manager has not finished with {_NODE}, for half an hour: its GPUs are not partitioned as declared.",
        "kubectl logs -n gpu-operator -l app=nvidia-mig-manager says what it waits for: mostly a pod that still holds a GPU.",
        for_="30m",
    )
    yield Alert(
        "GpuOperandsPaused",
        f"({paused}) unless on ({_KEY}) {stuck}",
        "warning",
        f"The operator's pods on {_NODE} have been paused for an hour: its GPUs are neither offered nor measured.",
        "Look at mig-manager and the driver's pod there; where neither works, set the labels nvidia.com/gpu.deploy.* to true.",
        for_="1h",
    )
    yield Alert(
        "GpuNoDeviceAdvertised",
        nothing_offered,
        "critical",
        f"{_NODE} has GPUs that answer and offers no share of them: no pod can start there.",
        "Read the log of its device plugin: kubectl logs -n gpu-operator -l app=nvidia-device-plugin-daemonset.",
        for_="15m",
    )


def _stuck() -> str:
    """Nodes whose partitions are neither as told nor never asked for."""
    return _labelled(MIG_STATE_LABEL, "pending|rebooting|failed")


def _labelled(label: str, values: str) -> str:
    """This stack's nodes with such a label, by our key, as kube-state-metrics tells it (`labelName` there)."""
    pool = f"label_{shares.kube_resource(POOL_LABEL)}"
    chosen = f'{pool}!="", label_{shares.kube_resource(label)}=~"{values}"'
    rows = f"group by (node, {pool}) (kube_node_labels{{{chosen}}})"
    named = f'label_replace(label_replace({rows}, "instance", "$1", "node", "(.+)"), "{POOL}", "$1", "{pool}", "(.+)")'
    return f"group by ({_KEY}) ({named})"


def _nothing_offered(claimed: Sequence[str]) -> str:
    """Where somebody tells what a node offers: kube-state-metrics, or its verifier. Of `claimed` pools only the verifier does."""
    offered, gpus = shares.NODE_ALLOCATABLE, f"{rules.NODE_GPUS} > 0"
    by_status = f'{rules.NODE_GPUS}{{{POOL}!~"{"|".join(claimed)}"}} > 0' if claimed else gpus
    known = f"{by_status} and on (instance) {shares.KNOWN_NODES} or {gpus} and on ({_KEY}) {offered}"
    return f"({known}) unless on ({_KEY}) sum by ({_KEY}) ({offered}) > 0"


def _of_gpus() -> Iterator[Alert]:
    yield _xid("GpuLost", "critical", "has fallen off the bus", "Cordon and drain the node and restart it.")
    yield _xid("GpuNeedsReset", "critical", "or its firmware has stopped", _RESET)
    yield _xid(
        "GpuLinkError", "critical", "has an error of NVLink", f"{_RESET} Where it comes back have links and board looked at."
    )
    yield _xid("GpuPowerMissing", "critical", "has no auxiliary power", "Have the board's power cables looked at.")
    yield _xid("GpuMemoryError", "critical", "has memory errors that were not corrected", _RESET)
    yield Alert(
        "GpuMemoryError",
        f'max by ({", ".join(GPU_KEY)}) (increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{POOL}!=""}}[15m])) > 0',
        "critical",
        f"{_WHERE} has memory errors that were not corrected.",
        _RESET,
        stays=_AFTER_EVENT,
    )
    yield _row("GpuRowRemapPending", "PENDING", "warning", "waits for a reset to remap a row of its memory", _RESET)
    broken = "could not remap a row of its memory: it has no spare one left, or the remapping has failed"
    replace = "Cordon and drain the node, and have the GPU replaced."
    yield _xid("GpuRowRemapFailed", "critical", broken, replace)
    yield _row("GpuRowRemapFailed", "FAILURE", "critical", broken, replace)
    yield Alert(
        "GpuThrottled",
        f"max by ({', '.join((*GPU_KEY, 'clock_event'))}) "
        f'(DCGM_EXP_CLOCK_EVENTS_COUNT{{clock_event=~"hw_slowdown|hw_thermal|hw_power_brake|sw_thermal", {POOL}!=""}}) > 0',
        "warning",
        f"{_WHERE} runs slower than it could: {{{{ $labels.clock_event }}}}.",
        "Look at its temperature and power, the node's cooling, and its power supply.",
        for_="10m",
    )


def _of_shares() -> Iterator[Alert]:
    full = f"{rules.UNIT_MEMORY_USED} / {rules.UNIT_MEMORY} > 0.95"
    sliced = f'{DECLARED_REPLICAS}{{strategy!="mps"}} > 1'
    yield Alert(
        "GpuSharedMemoryNearlyFull",
        f"{full} and on ({POOL}, GPU_I_PROFILE) ({sliced})",
        "warning",
        f"The memory that pods share on {_WHERE}, is nearly full: the next allocation of any of them fails.",
        "See which pod holds it (dashboard GPU pods), give the pods less, or lower `replicas`.",
        for_="10m",
    )
    yield Alert(
        "GpuShareIdle",
        f"{rules.POD_ACTIVE} < {rules.IDLE_BELOW}",
        "info",
        f"{{{{ $labels.namespace }}}}/{{{{ $labels.pod }}}} has held {_WHERE}, for two hours without using it.",
        "Ask its owner, or end it; a notebook that is left open is the usual one.",
        for_="2h",
    )
    offered, given = shares.POOL_ALLOCATABLE, shares.POOL_ALLOCATED
    yield Alert(
        "GpuSharesUsedUp",
        f"{offered} - {given} <= 0 and {offered} > 0 and on (resource) {shares.WAITING} > 0",
        "warning",
        "For half an hour pods have waited for {{ $labels.resource }}, of which pool {{ $labels.gpu_pool }} has no free share.",
        "See whether they ask for this pool, and which pods hold shares and are idle (dashboard GPU pods); else let it grow.",
        for_="30m",
    )


def _of_verifiers(settings: VerificationSettings, nothing_offered: str) -> Iterator[Alert]:
    verifier = f'job="{VERIFIER_APP}", {POOL}!=""'
    oldest = 3 * settings.interval_seconds + _ASSERTION_SECONDS
    yield Alert(
        "GpuNodeNotAsDeclared",
        f'max by ({_KEY}) (gpu_pools_verdict{{{verifier}, verdict="differs"}}) == 1 '
        f"unless on ({_KEY}) ({nothing_offered}) unless on ({_KEY}) {_stuck()}",
        "critical",
        f"{_NODE} is not what the stack declares: its pods may not find the GPUs that they ask for.",
        "kubectl describe node shows the condition GpuSharingVerified: what differs, the likely cause, and the remedy.",
        for_="15m",
    )
    old = f"max by ({_KEY}) (time() - gpu_pools_last_assertion_timestamp_seconds{{{verifier}}}) > {oldest}"
    unknown = f'max by ({_KEY}) (gpu_pools_verdict{{{verifier}, verdict="cannot tell"}}) == 1'
    yield Alert(
        "GpuNodeUnverified",
        f"max by ({_KEY}) (up{{{verifier}}}) == 0 or {unknown} or {old}",
        "warning",
        f"The verifier of {_NODE} is silent, or cannot tell whether the node is as declared.",
        "kubectl logs -n gpu-pools-verifier POD -c watch; the node's condition GpuSharingVerified says what could not be read.",
        for_="15m",
    )
    # A verifier that waits for its node is not scraped: after a change it may wait for so long.
    yield Alert(
        "GpuVerifierAbsent",
        f"group by ({_KEY}) ({rules.NODE_GPUS}) unless on ({_KEY}) up{{{verifier}}} unless on ({_KEY}) {_stuck()}",
        "warning",
        f"{_NODE} has GPUs that answer, and no verifier that does: it still waits for what was declared, or does not run.",
        "kubectl get pods -n gpu-pools-verifier -o wide; the last state of its container `assert` says what it waits for.",
        for_=f"{settings.deadline_seconds // 60 + 15}m",
    )


def _xid(name: str, severity: str, what: str, remedy: str) -> Alert:
    return Alert(
        name,
        f'{rules.XIDS}{{xid=~"{raising(name)}"}} > 0',
        severity,
        f"{_WHERE} {what} (Xid {{{{ $labels.xid }}}}).",
        remedy,
        stays=_AFTER_EVENT,
        by_xid=True,
    )


def _row(name: str, field: str, severity: str, what: str, remedy: str) -> Alert:
    expression = f'max by ({", ".join(GPU_KEY)}) (DCGM_FI_DEV_ROW_REMAP_{field}{{{POOL}!=""}}) > 0'
    return Alert(name, expression, severity, f"{_WHERE} {what}.", remedy)
