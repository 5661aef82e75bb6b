"""A GPU operator and an NFD that somebody else has installed in a cluster, before any stack comes.

As the add-ons of azimuth-cloud/capi-helm-charts 2c557a9a do it (charts/cluster-addons, templates nfd.yaml and
nvidia-gpu-operator.yaml): the same releases, namespaces and values, by the real helm, waited for as there. The charts are the
sandbox's own, so that no network is needed; their versions are therefore not the add-ons' (0.18.3 and v26.3.1).
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.cluster.control_plane import Cluster

_CHARTS: Final = Path(__file__).resolve().parents[1] / "charts"
_SECONDS: Final = 180


@dataclass(frozen=True)
class AddOns:
    """Which of the two a cluster comes with."""

    node_feature_discovery: bool = False
    gpu_operator: bool = False

    def as_json(self) -> dict[str, bool]:
        """As a seed keeps it."""
        return {"nodeFeatureDiscovery": self.node_feature_discovery, "gpuOperator": self.gpu_operator}


@dataclass(frozen=True)
class _Release:
    name: str
    chart: str
    namespace: str
    values: Mapping[str, Any]


_NFD: Final = _Release(
    name="node-feature-discovery",
    chart="node-feature-discovery",
    namespace="node-feature-discovery",
    values={
        "master": {"extraLabelNs": ["nvidia.com"]},
        "worker": {
            "tolerations": [{"effect": "NoSchedule", "operator": "Exists"}],
            "config": {"sources": {"pci": {"deviceClassWhitelist": ["02", "03", "0b40", "12"], "deviceLabelFields": ["vendor"]}}},
        },
    },
)
_OPERATOR: Final = _Release(
    name="nvidia-gpu-operator",
    chart="gpu-operator",
    namespace="gpu-operator",
    values={
        "nfd": {"enabled": False},
        "nodeStatusExporter": {"enabled": True},
        "toolkit": {"env": [{"name": "CONTAINERD_CONFIG", "value": "/etc/containerd/conf.d/nvidia.toml"}]},
        "dcgmExporter": {"serviceMonitor": {"enabled": True}},
    },
)


def read_add_ons(raw: Mapping[str, bool]) -> AddOns:
    """The add-ons of a seed; none where it says nothing."""
    return AddOns(bool(raw.get("nodeFeatureDiscovery")), bool(raw.get("gpuOperator")))


def install(cluster: Cluster, helm: Path, add_ons: AddOns) -> None:
    """Install add-ons and wait until they run; those that are there already stay as they are.

    Args:
        cluster: it has a node that takes their pods.
        helm: the program.
        add_ons: which.

    Raises:
        SandboxError: helm failed.
    """
    for wanted, release in ((add_ons.node_feature_discovery, _NFD), (add_ons.gpu_operator, _OPERATOR)):
        if wanted:
            _install(cluster, helm, release)


def _install(cluster: Cluster, helm: Path, release: _Release) -> None:
    with tempfile.TemporaryDirectory(prefix="gpu-pools-helm-") as folder:
        homes = {f"HELM_{kind}_HOME": f"{folder}/{kind}" for kind in ("CACHE", "CONFIG", "DATA")}
        environment = {**os.environ, **homes, "KUBECACHEDIR": f"{folder}/kube"}

        def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
            place = ("--kubeconfig", str(cluster.kubeconfig), "--namespace", release.namespace)
            command = [str(helm), *arguments, *place]
            return subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=False)

        if release.name in run("list", "--deployed", "--short").stdout.split():
            return
        chart, wait = str(_CHARTS / release.chart), f"--timeout={_SECONDS}s"
        values = json.dumps(release.values)
        done = run("upgrade", release.name, chart, "--install", "--create-namespace", "--wait", wait, "--values=-", text=values)
    if done.returncode:
        message = f"The add-on {release.name} could not be installed: {done.stderr.strip()[-1000:]}"
        raise SandboxError(message, f"The logs of the cluster are in {cluster.folder / 'logs'}.")
