"""What the sandbox wants to run, and in which version: each program's Go module.

A go.mod below programs/ is the only place that says which version. Programs that share most of what they are made of share a
go.mod, too: it is then compiled once (docs/what-is-real.md says what that changes). Not here: where a program is, and how it gets
there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER: Final = Path(__file__).resolve().parents[1] / "programs"
LANGUAGE_HOST: Final = "pulumi-language-python"
WHOLE_ENGINE: Final = "pulumi-whole"
OLDER_PLUGIN: Final = "device-plugin-v0.17"
DRA_DRIVER: Final = "dra-driver"
#: The chart of the same driver, in the folder DRA_CHART of the cache folder, and the script of its init container beside it.
DRA_DRIVER_CHART: Final = "dra-driver-chart"
DRA_CHART: Final = "dra-driver-nvidia-gpu"
DRA_PRESTART: Final = "kubelet-plugin-prestart.sh"
_CLUSTER: Final = "kubernetes"
_KUBERNETES: Final = "k8s.io/kubernetes"
_OWN: Final = "gpu-pools.invalid/sandbox/"


@dataclass(frozen=True)
class ModuleFile:
    """A file or a folder that is taken as it is from the sources of a Go module.

    Attributes:
        graph: the folder below programs/ whose go.mod pins the module.
        module: the module's path.
        path: the file or folder, relative to the module's root.
    """

    graph: str
    module: str
    path: str


@dataclass(frozen=True)
class LeftOut:
    """A package that a program imports and the sandbox does not need: its files are left out, and one of ours compiled instead.

    Attributes:
        module: the module that it is of.
        package: its folder in the module.
        instead: our file in the folder left-out/ beside go.mod: as much as those who import the package name of it.
        keep: files of the package that stay.
    """

    module: str
    package: str
    instead: str
    keep: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """Programs that are built together, or files alone that a Go module has.

    Attributes:
        name: of the whole, as its folder in the cache begins.
        graph: the folder below programs/ with go.mod and go.sum.
        module: the module whose version in go.mod is the programs' version.
        packages: what to build, as program name -> Go package; none where only files are copied.
        version_symbol: the Go variable that the version is linked into; None when the program knows it.
        seconds: about how much processor time a build takes, after others of its go.mod and Go's own library
            (benchmarks/README.md).
        seconds_first: how much more where it is the first of its go.mod.
        copies: files to put beside the programs.
        linked: other Go variables that get a value as the program is linked.
        cgo: whether it needs a C compiler: NVIDIA's programs load libnvidia-ml.so.1 by way of C.
        companion: the name of another program that it cannot do without, and that its release has.
        left_out: packages that it is built without.
        tags: Go's build tags.
        libseccomp: whether it is linked with that C library, which no Go module has (sandbox/toolchain/libseccomp.py).
    """

    name: str
    graph: str
    module: str
    packages: Mapping[str, str]
    version_symbol: str | None
    seconds: float
    copies: tuple[ModuleFile, ...] = ()
    linked: Mapping[str, str] = field(default_factory=dict)
    cgo: bool = False
    companion: str | None = None
    seconds_first: float = 0
    left_out: tuple[LeftOut, ...] = ()
    tags: tuple[str, ...] = ()
    libseccomp: bool = False


_PULUMI: Final = "github.com/pulumi/pulumi/pkg/v3"
_GO_CLOUD: Final = "gocloud.dev"
#: Two fifths of what the engine takes to build: none of it is for stacks whose state is in a folder, as the sandbox's are.
_NOT_FOR_THE_SANDBOX: Final = (
    LeftOut(_PULUMI, "cmd/pulumi/cloud", "pulumi_api.go", keep=("envelope.go", "resolve.go")),
    LeftOut(_PULUMI, "secrets/cloud", "cloud_secrets.go"),
    LeftOut(_PULUMI, "authhelpers", "google_login.go"),
    LeftOut(_PULUMI, "operations", "logs.go", keep=("doc.go", "operations.go", "operations_cloud_aws.go", "resources.go")),
    LeftOut(_GO_CLOUD, "blob/azureblob", "azure_store.go"),
    LeftOut(_GO_CLOUD, "blob/gcsblob", "google_store.go"),
    LeftOut(_GO_CLOUD, "blob/s3blob", "s3_store.go"),
    LeftOut("github.com/aws/aws-sdk-go-v2/service/s3", ".", "s3_client.go"),
)


_API_SERVER: Final = "k8s.io/apiserver"
#: A twentieth of Kubernetes' sources. A cluster calls none of it but that one function.
_NOT_FOR_A_CLUSTER: Final = (
    # The controller-manager calls one function of it, of one line; it brings 138 packages of kubelet, cadvisor and containerd.
    LeftOut(_KUBERNETES, "pkg/kubelet/eviction", "pod_eviction.go"),
    # What is not kept are helpers of tests. They bring 58 packages: a client that plays an API server.
    LeftOut(
        _KUBERNETES,
        "pkg/scheduler/backend/queue",
        "queue_without_tests.go",
        keep=("active_queue.go", "backoff_queue.go", "nominator.go", "scheduling_queue.go", "unschedulable_pods.go"),
    ),
    LeftOut(
        _API_SERVER,
        "pkg/admission/plugin/policy/generic",
        "admission_without_tests.go",
        keep=(
            *("accessor.go", "composite_policy_source.go", "interfaces.go", "plugin.go"),
            *("policy_dispatcher.go", "policy_matcher.go", "policy_source.go"),
        ),
    ),
)


def _pulumi(name: str, seconds: float, left_out: tuple[LeftOut, ...] = ()) -> Program:
    """The engine."""
    return Program(
        name=name,
        graph="pulumi",
        module=_PULUMI,
        packages={"pulumi": f"{_PULUMI}/cmd/pulumi"},
        version_symbol="github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",
        seconds=seconds,
        companion=LANGUAGE_HOST,
        left_out=left_out,
    )


_DEVICE_PLUGIN: Final = "github.com/NVIDIA/k8s-device-plugin"
_MIG_PARTED: Final = "github.com/NVIDIA/mig-parted"
_DRA_DRIVER: Final = "sigs.k8s.io/dra-driver-nvidia-gpu"
_NFD: Final = "sigs.k8s.io/node-feature-discovery"
_CONTAINERD: Final = "github.com/containerd/containerd/v2"
_CONTAINER_TOOLKIT: Final = "github.com/NVIDIA/nvidia-container-toolkit"
_TOOLKIT_PROGRAMS: Final = ("nvidia-ctk", "nvidia-cdi-hook", "nvidia-container-runtime")
_PROMETHEUS: Final = "github.com/prometheus/prometheus"
_ALERTMANAGER: Final = "github.com/prometheus/alertmanager"
_PROMETHEUS_OPERATOR: Final = "github.com/prometheus-operator/prometheus-operator"
_MONITORING: Final = "monitoring.coreos.com"
_KUBE_STATE: Final = "k8s.io/kube-state-metrics/v2"
_CNI: Final = "github.com/containernetworking/plugins"


def _device_plugin(minor: str, graph: str, seconds: float, *more: str) -> Program:
    """GPU feature discovery, the device plugin and its MPS daemon, which come from one module; and more of its programs."""
    names = ("gpu-feature-discovery", "nvidia-device-plugin", "mps-control-daemon", *more)
    return Program(
        name=f"device-plugin-{minor}",
        graph=graph,
        module=_DEVICE_PLUGIN,
        packages={name: f"{_DEVICE_PLUGIN}/cmd/{name}" for name in names},
        version_symbol=f"{_DEVICE_PLUGIN}/internal/info.version",
        seconds=seconds,
        cgo=True,
        seconds_first=76,
    )


PROGRAMS: Final[tuple[Program, ...]] = (
    Program(
        name="kubernetes",
        graph=_CLUSTER,
        module=_KUBERNETES,
        packages={name: f"{_KUBERNETES}/cmd/{name}" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")},
        version_symbol="k8s.io/component-base/version.gitVersion",
        seconds=480,
        left_out=_NOT_FOR_A_CLUSTER,
    ),
    Program(
        name="nfd",
        graph=_CLUSTER,
        module=_NFD,
        packages={name: f"{_NFD}/cmd/{name}" for name in ("nfd-master", "nfd-worker")},
        version_symbol=f"{_NFD}/pkg/version.version",
        seconds=11,
        # Where nfd-worker finds the machine: its image has the machine's folders at /host-sys, /host-etc, …, and says so in the
        # same way. Here they are in the folder that it runs in.
        linked={f"{_NFD}/pkg/utils/hostpath.pathPrefix": "host-", f"{_NFD}/source/local.featureFilesDir": "features.d"},
        seconds_first=76,
    ),
    Program(
        name="config-manager",
        graph=_CLUSTER,
        module=_DEVICE_PLUGIN,
        packages={"config-manager": f"{_DEVICE_PLUGIN}/cmd/config-manager"},
        version_symbol=None,
        seconds=3,
        seconds_first=68,
    ),
    _device_plugin("v0.19", _CLUSTER, 38),
    _pulumi("pulumi", 143, _NOT_FOR_THE_SANDBOX),
    Program(
        name="helm",
        graph=_CLUSTER,
        module="helm.sh/helm/v3",
        packages={"helm": "helm.sh/helm/v3/cmd/helm"},
        version_symbol="helm.sh/helm/v3/internal/version.version",
        seconds=37,
        seconds_first=68,
    ),
    Program(
        name="etcd",
        graph=_CLUSTER,
        module="go.etcd.io/etcd/server/v3",
        packages={"etcd": "go.etcd.io/etcd/server/v3"},
        version_symbol=None,
        seconds=14,
        seconds_first=26,
    ),
    Program(
        name=LANGUAGE_HOST,
        graph=LANGUAGE_HOST,
        module="github.com/pulumi/pulumi/sdk/v3",
        packages={LANGUAGE_HOST: "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python"},
        version_symbol="github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",
        seconds=20,
        # The newest sources of the language host that the module carries are older than the engine; the
        # script that it runs programs with must be the engine's.
        copies=(
            ModuleFile(
                graph="pulumi",
                module="github.com/pulumi/pulumi/sdk/v3",
                path="python/cmd/pulumi-language-python-exec",
            ),
        ),
    ),
    # A module of its own: what it shares with the device plugin is how it speaks to NVML, and there versions matter.
    Program(
        name="mig-parted",
        graph="mig-parted",
        module=_MIG_PARTED,
        packages={"nvidia-mig-parted": f"{_MIG_PARTED}/cmd/nvidia-mig-parted"},
        version_symbol=f"{_MIG_PARTED}/internal/info.version",
        seconds=12,
        cgo=True,
    ),
    # The rest is made when somebody asks for it. For comparing with an older one, and for MPS daemons whose operator brings an
    # older one: its config-manager is that of v0.17.0 to v0.18.1.
    _device_plugin("v0.17", OLDER_PLUGIN, 70, "config-manager"),
    # For nodes whose GPUs are allocated by DRA. It needs a newer Kubernetes than the one that runs here: they share nothing.
    Program(
        name=DRA_DRIVER,
        graph=DRA_DRIVER,
        module=_DRA_DRIVER,
        packages={"gpu-kubelet-plugin": f"{_DRA_DRIVER}/cmd/gpu-kubelet-plugin"},
        version_symbol=f"{_DRA_DRIVER}/internal/info.version",
        seconds=100,
        cgo=True,
    ),
    # Its chart, which installs it, and what its image has besides. Whoever only renders the chart needs no program.
    Program(
        name=DRA_DRIVER_CHART,
        graph=DRA_DRIVER,
        module=_DRA_DRIVER,
        packages={},
        version_symbol=None,
        seconds=1,
        copies=tuple(
            ModuleFile(DRA_DRIVER, _DRA_DRIVER, path) for path in (f"deployments/helm/{DRA_CHART}", f"hack/{DRA_PRESTART}")
        ),
    ),
    # For programs that use the components from YAML.
    Program(
        name="pulumi-language-yaml",
        graph="pulumi-language-yaml",
        module="github.com/pulumi/pulumi-yaml",
        packages={"pulumi-language-yaml": "github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml"},
        version_symbol="github.com/pulumi/pulumi-yaml/pkg/version.Version",
        seconds=102,
    ),
    # For jobs that deploy (put_engine): states and secrets may be in clouds.
    _pulumi(WHOLE_ENGINE, 322),
    # For the same: the sandbox has a stand-in, since there is no Entra ID here.
    Program(
        name="kubelogin",
        graph="kubelogin",
        module="github.com/Azure/kubelogin",
        packages={"kubelogin": "github.com/Azure/kubelogin"},
        version_symbol="main.gitTag",
        seconds=153,
    ),
    # For tests that hold the stand-ins of these two to them. Each has a go.mod of its own: another line in that of Kubernetes or
    # of mig-parted would be another place in the cache for all that is made of it.
    Program(
        name="nfd-gc",
        graph="nfd-gc",
        module=_NFD,
        packages={"nfd-gc": f"{_NFD}/cmd/nfd-gc"},
        version_symbol=f"{_NFD}/pkg/version.version",
        seconds=17,
    ),
    Program(
        name="mig-manager",
        graph="mig-manager",
        module=_MIG_PARTED,
        packages={"nvidia-mig-manager": f"{_MIG_PARTED}/cmd/nvidia-mig-manager"},
        version_symbol=f"{_MIG_PARTED}/internal/info.version",
        seconds=68,
        # What it runs for each change.
        copies=(ModuleFile(graph="mig-manager", module=_MIG_PARTED, path="deployments/container/reconfigure-mig.sh"),),
    ),
    # Reads the pipelines of this repository.
    Program(
        name="actionlint",
        graph="actionlint",
        module="github.com/rhysd/actionlint",
        packages={"actionlint": "github.com/rhysd/actionlint/cmd/actionlint"},
        version_symbol="github.com/rhysd/actionlint.version",
        seconds=34,
    ),
    # Tests the rules of gpu_pools/observing. What finds targets in clouds is left out: rules need none of it.
    Program(
        name="promtool",
        graph="prometheus",
        module=_PROMETHEUS,
        packages={"promtool": f"{_PROMETHEUS}/cmd/promtool"},
        version_symbol="github.com/prometheus/common/version.Version",
        seconds=153,
        tags=("remove_all_sd",),
    ),
    # Scrapes a sandbox's nodes, and keeps what it finds. Of what finds targets it has Kubernetes' part; its web pages are npm's.
    Program(
        name="prometheus",
        graph="prometheus",
        module=_PROMETHEUS,
        packages={"prometheus": f"{_PROMETHEUS}/cmd/prometheus"},
        version_symbol="github.com/prometheus/common/version.Version",
        seconds=102,
        tags=("remove_all_sd", "enable_kubernetes_sd"),
    ),
    # Gets its alerts.
    Program(
        name="alertmanager",
        graph="alertmanager",
        module=_ALERTMANAGER,
        packages={"alertmanager": f"{_ALERTMANAGER}/cmd/alertmanager"},
        version_symbol="github.com/prometheus/common/version.Version",
        seconds=68,
        left_out=(LeftOut(_ALERTMANAGER, "ui", "web_pages.go"),),
    ),
    # Writes the Prometheus' configuration from monitors and rules, with its own definitions of these kinds.
    Program(
        name="prometheus-operator",
        graph="prometheus-operator",
        module=_PROMETHEUS_OPERATOR,
        packages={"operator": f"{_PROMETHEUS_OPERATOR}/cmd/operator"},
        version_symbol="github.com/prometheus/common/version.Version",
        seconds=153,
        copies=tuple(
            ModuleFile("prometheus-operator", _PROMETHEUS_OPERATOR, f"example/prometheus-operator-crd/{_MONITORING}_{kind}.yaml")
            for kind in ("prometheuses", "servicemonitors", "podmonitors", "probes", "scrapeconfigs", "prometheusrules")
        ),
    ),
    # Tells of a sandbox's nodes and pods.
    Program(
        name="kube-state-metrics",
        graph="kube-state-metrics",
        module=_KUBE_STATE,
        packages={"kube-state-metrics": _KUBE_STATE},
        version_symbol="github.com/prometheus/common/version.Version",
        seconds=102,
    ),
    # Has images for tests. Of the project's own main.go, which leaves the clients of three clouds out: a third of the time.
    Program(
        name="registry",
        graph="registry",
        module="github.com/distribution/distribution/v3",
        packages={"registry": "gpu-pools.invalid/sandbox/registry"},
        version_symbol="github.com/distribution/distribution/v3/version.version",
        seconds=68,
    ),
)


#: What a real node runs beside the programs above: made when one is asked for (sandbox/real_node), in this order.
REAL_NODE: Final[tuple[Program, ...]] = (
    Program(
        name="kubelet",
        graph="kubelet",
        module="k8s.io/kubernetes",
        packages={"kubelet": "k8s.io/kubernetes/cmd/kubelet"},
        version_symbol="k8s.io/component-base/version.gitVersion",
        seconds=51,
        seconds_first=204,
    ),
    Program(
        name="containerd",
        graph="containerd",
        module=_CONTAINERD,
        packages={name: f"{_CONTAINERD}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
        version_symbol=f"{_CONTAINERD}/version.Version",
        seconds=102,
        # File systems that need a library or a program of their own, and that no node here has.
        tags=("no_btrfs", "no_devmapper", "no_zfs"),
    ),
    Program(
        name="nvidia-container-toolkit",
        graph="nvidia-container-toolkit",
        module=_CONTAINER_TOOLKIT,
        packages={name: f"{_CONTAINER_TOOLKIT}/cmd/{name}" for name in _TOOLKIT_PROGRAMS},
        version_symbol=f"{_CONTAINER_TOOLKIT}/internal/info.version",
        seconds=26,
        cgo=True,
    ),
    Program(
        name="cni-plugins",
        graph="cni-plugins",
        module=_CNI,
        packages={
            **{path.rpartition("/")[2]: f"{_CNI}/plugins/{path}" for path in ("main/ptp", "main/loopback", "ipam/host-local")},
            # Of the project's own: Kubernetes' is a C program.
            "pause": f"{_OWN}cni-plugins/pause",
        },
        version_symbol=f"{_CNI}/pkg/utils/buildversion.BuildVersion",
        seconds=14,
    ),
    Program(
        name="runc",
        graph="runc",
        module="github.com/opencontainers/runc",
        packages={"runc": "github.com/opencontainers/runc"},
        version_symbol=None,
        seconds=17,
        cgo=True,
        # The kubelet asks for a seccomp profile for every pod, and a runc without fails then.
        tags=("seccomp",),
        libseccomp=True,
    ),
)


def program(name: str) -> Program:
    """The program of a name."""
    return next(one for one in (*PROGRAMS, *REAL_NODE) if one.name == name)


def pinned_version(one: Program) -> str:
    """The version that the program's go.mod requires, such as "v1.36.3"."""
    return pin(one.graph, one.module)


def pin(graph: str, module: str) -> str:
    """The version of a module in the go.mod of a folder.

    Raises:
        SandboxError: when it requires no such module.
    """
    path = FOLDER / graph / "go.mod"
    requirement = re.compile(rf"^\s*(?:require\s+)?{re.escape(module)}\s+(v\S+)", re.MULTILINE)
    match = requirement.search(path.read_text("utf-8"))
    if match is None:
        message = f"{path}: does not require {module}."
        raise SandboxError(message, "Restore the file: git checkout -- sandbox/programs")
    return match[1]


def pinned_go(graph: str) -> str:
    """The Go version that the go.mod of a folder asks for."""
    text = (FOLDER / graph / "go.mod").read_text("utf-8")
    match = re.search(r"^go\s+(\S+)", text, re.MULTILINE)
    return match[1] if match else "1.21"


def sources(one: Program) -> list[Path]:
    """The files that say what is built: most programs have no source of our own."""
    graphs = [one.graph, *(copy.graph for copy in one.copies)]
    own = [FOLDER / package.removeprefix(_OWN) for package in one.packages.values() if package.startswith(_OWN)]
    return [
        *(FOLDER / graph / name for graph in graphs for name in ("go.mod", "go.sum")),
        *(path for folder in own for path in sorted(folder.glob("*.go"))),
    ] + [FOLDER / one.graph / "left-out" / part.instead for part in one.left_out]
