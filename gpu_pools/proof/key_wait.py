"""What an update waits for around the labels that name configs: that the nodes can read the new keys, that none needs an old one.

The device plugin's config-manager and mig-manager read their ConfigMaps from volumes. The kubelet brings what has changed there
when it synchronises the pod: every `syncFrequency`, with a jitter of up to half of it (kubernetes pkg/kubelet/pod_workers.go,
workerResyncIntervalJitterFactor). A label that names a key which the plugin's own pod does not see yet makes the sidecar exit,
and the node share nothing meanwhile. No other pod can tell what is in that volume, so the time is waited for: by a DaemonSet on
the nodes that have such a label already, whose pods do nothing and count as available only after it (minReadySeconds, which
Pulumi waits for: numberAvailable). It begins anew where the keys change. Where no node has a label, nothing is waited for.

A second DaemonSet wants to run on nodes of our pools that still name a key which is not declared any more, and is never
available: with it an update goes on only when no such node is left. Verification proves more; this is for stacks without it.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.allocation.device_plugin import digest
from gpu_pools.allocation.mig_parted import MIG_DISABLED_KEY
from gpu_pools.stack.kubernetes_names import DEVICE_PLUGIN_CONFIG_LABEL, MIG_CONFIG_LABEL, POOL_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_pools.plan.planned import Plan

KEY_WAIT: Final = "gpu-pools-key-wait"
KEYS_LEFT: Final = "gpu-pools-keys-left"
KEYS_ANNOTATION: Final = "gpu-pools/keys"
_JITTER: Final = 1.5
#: Of a sync period, for what comes on top: the watch of the ConfigMap, the volume manager's own loop, a busy node.
_MARGIN: Final = 1 / 12
#: More than any update waits.
_NEVER: Final = 10 * 365 * 86_400


def wait_seconds(sync_seconds: int) -> int:
    """How long after a change of a ConfigMap the volumes of all pods have it."""
    return ceil(sync_seconds * _JITTER) + ceil(sync_seconds * _MARGIN)


def key_wait_spec(plan: Plan, image: str) -> dict[str, Any]:
    """The ``spec`` of the DaemonSet that lets the kubelets bring the keys of the plan."""
    labelled = [{"key": DEVICE_PLUGIN_CONFIG_LABEL, "operator": "Exists"}]
    seconds = wait_seconds(plan.settings.operator.kubelet_sync_seconds)
    return _spec(plan, KEY_WAIT, [labelled], seconds, image)


def keys_left_spec(plan: Plan, image: str) -> dict[str, Any]:
    """The ``spec`` of the DaemonSet that is rolled out only where no node of our pools names another key any more."""
    ours = {"key": POOL_LABEL, "operator": "In", "values": [pool.name for pool in plan.pools]}
    declared = {
        DEVICE_PLUGIN_CONFIG_LABEL: plan.device_plugin_configs,
        MIG_CONFIG_LABEL: (*plan.mig_parted_entries, MIG_DISABLED_KEY),
    }
    others: list[list[dict[str, Any]]] = [
        [ours, {"key": label, "operator": "Exists"}, {"key": label, "operator": "NotIn", "values": sorted(keys)}]
        for label, keys in declared.items()
    ]
    return _spec(plan, KEYS_LEFT, others, _NEVER, image)


def _spec(plan: Plan, app: str, nodes: Iterable[list[dict[str, Any]]], seconds: int, image: str) -> dict[str, Any]:
    labels: Mapping[str, str] = {"app.kubernetes.io/name": app}
    keys = digest(" ".join([*plan.device_plugin_configs, *plan.mig_parted_entries]))
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in nodes]}
    return {
        "selector": {"matchLabels": labels},
        "minReadySeconds": seconds,
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
        "template": {
            "metadata": {"labels": labels, "annotations": {KEYS_ANNOTATION: keys}},
            "spec": {
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
                "tolerations": [dict(toleration) for toleration in plan.tolerations],
                "automountServiceAccountToken": False,
                "priorityClassName": "system-node-critical",
                "terminationGracePeriodSeconds": 0,
                "containers": [_container(image)],
                **plan.settings.registry.in_pods,
            },
        },
    }


def _container(image: str) -> dict[str, Any]:
    return {
        "name": "wait",
        "image": image,
        "command": ["sh", "-c", "while :; do sleep 3600; done"],
        "resources": {"requests": {"cpu": "1m", "memory": "4Mi"}, "limits": {"memory": "16Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
