"""What the programs of the node are configured with: texts by their path in the node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from sandbox.machines.config_volumes import SYNC_SECONDS
from sandbox.real_node.place import API_PORT, PROGRAMS, REGISTRY_PORT

if TYPE_CHECKING:
    from collections.abc import Collection

CONTAINERD, KUBELET, KUBECONFIG = "/etc/containerd/config.toml", "/etc/kubelet/config.json", "/etc/kubelet/kubeconfig"
#: What lies there is root's alone.
SECRETS: Final = "/etc/kubelet/"
SOCKET: Final = "/run/containerd/containerd.sock"
PAUSE_IMAGE: Final = "registry.k8s.io/pause:3.10.1"
_AUTHORITY, _CERTIFICATE, _KEY = "/etc/kubelet/ca.crt", "/etc/kubelet/kubelet.crt", "/etc/kubelet/kubelet.key"
_NETWORKS: Final = "/etc/cni/net.d"
_PODS: Final = "10.88.0.0/24"
_MAX_PODS: Final = 110
#: Where the toolkit's pod puts its programs; without it pods of its runtime classes do not start.
TOOLKIT: Final = "/usr/local/nvidia/toolkit"
#: Runtime classes that NVIDIA's toolkit adds, by its own names.
_NVIDIA_RUNTIMES: Final = ("nvidia", "nvidia-cdi", "nvidia-legacy")

_CONTAINERD: Final = """\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{socket}"
[plugins.'io.containerd.internal.v1.opt']
  path = "/var/lib/containerd/opt"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "{snapshotter}"
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = "/etc/containerd/certs.d"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{pause}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  tolerate_missing_hugetlb_controller = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{programs}/cni-plugins"]
    conf_dir = "{networks}"
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
"""
#: Every image comes from the warden's registry.
_MIRROR: Final = f"""\
[host."http://127.0.0.1:{REGISTRY_PORT}"]
  capabilities = ["pull", "resolve"]
"""
#: As the operator's toolkit writes it, as far as it is not the default.
_NVIDIA: Final = f"""\
accept-nvidia-visible-devices-envvar-when-unprivileged = true
[nvidia-container-runtime]
mode = "cdi"
runtimes = ["{PROGRAMS}/runc/runc"]
[nvidia-container-runtime.modes.cdi]
default-kind = "management.nvidia.com/gpu"
spec-dirs = ["/etc/cdi", "/var/run/cdi"]
annotation-prefixes = ["cdi.k8s.io/"]
"""
#: As the simulated nodes: of a GPU node's system the operator makes the name of the driver's image.
_SYSTEM: Final = 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04 (of a sandbox)"\nID=ubuntu\nVERSION_ID="24.04"\n'
_RUNTIME: Final = """\
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}.options]
        BinaryName = "{program}"
        SystemdCgroup = false
"""


def files(snapshotter: str, authority: str, certificate: str, key: str) -> dict[str, str]:
    """All of them.

    Args:
        snapshotter: containerd's.
        authority: that signed the API server's certificate, and that of its clients.
        certificate: the kubelet's.
        key: of that.
    """
    return {
        CONTAINERD: _containerd(snapshotter),
        KUBELET: json.dumps(_kubelet()),
        KUBECONFIG: json.dumps(_kubeconfig()),
        _AUTHORITY: authority,
        _CERTIFICATE: certificate,
        _KEY: key,
        f"{_NETWORKS}/10-pods.conflist": json.dumps(_network()),
        "/etc/containerd/certs.d/_default/hosts.toml": _MIRROR,
        "/etc/nvidia-container-runtime/config.toml": _NVIDIA,
        "/etc/os-release": _SYSTEM,
    }


def kubelet_arguments(node: str, address: str) -> list[str]:
    """The kubelet's command line."""
    return [
        f"--config={KUBELET}",
        f"--kubeconfig={KUBECONFIG}",
        f"--hostname-override={node}",
        f"--node-ip={address}",
        "--cert-dir=/var/lib/kubelet/pki",
        "--v=2",
    ]


def _containerd(snapshotter: str, runtimes: Collection[str] = _NVIDIA_RUNTIMES) -> str:
    text = _CONTAINERD.format(socket=SOCKET, snapshotter=snapshotter, pause=PAUSE_IMAGE, programs=PROGRAMS, networks=_NETWORKS)
    programs = {"runc": f"{PROGRAMS}/runc/runc"}
    programs |= dict.fromkeys(runtimes, f"{TOOLKIT}/nvidia-container-runtime")
    return text + "".join(_RUNTIME.format(name=name, program=program) for name, program in programs.items())


def _kubelet() -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": _AUTHORITY},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",
        # Machines with the first version of control groups are left out by default.
        "failCgroupV1": False,
        "failSwapOn": False,
        # There is no iptables here, and no DNS.
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        "clusterDomain": "cluster.local",
        # The disk is the machine's own: what others leave free of it is no reason to throw pods out.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "maxPods": _MAX_PODS,
        # As the simulated kubelets: a stack's wait for changed ConfigMaps is scaled to it (sandbox/stack/scaled.py).
        "syncFrequency": f"{SYNC_SECONDS:g}s",
    }


def _kubeconfig() -> dict[str, object]:
    cluster = {"server": f"https://127.0.0.1:{API_PORT}", "certificate-authority": _AUTHORITY}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "node",
        "clusters": [{"name": "node", "cluster": cluster}],
        "users": [{"name": "node", "user": {"client-certificate": _CERTIFICATE, "client-key": _KEY}}],
        "contexts": [{"name": "node", "context": {"cluster": "node", "user": "node"}}],
    }


def _network() -> dict[str, object]:
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": _PODS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": addresses}]}
