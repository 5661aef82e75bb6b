"""Which types of arguments the components have, and the classes of settings whose rows are in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpu_pools.platforms.aks.access import ApiServer, Identity, KubeletIdentity
from gpu_pools.platforms.aks.cluster import AksSettings, SystemPool
from gpu_pools.platforms.aks.entra import EntraSettings
from gpu_pools.platforms.aks.existing import ExistingAks
from gpu_pools.platforms.aks.network import LoadBalancer, Network
from gpu_pools.platforms.aks.options import AksClusterOptions, KeyVaultSecrets, Monitoring
from gpu_pools.platforms.aks.placement import AksPlacement, Spot
from gpu_pools.platforms.aks.pool_options import AksPoolOptions, KubeletConfig, LinuxOsConfig, UpgradeSettings
from gpu_pools.platforms.aks.upkeep import Autoscaler, Maintenance, Upgrades, Window
from gpu_pools.platforms.existing.cluster import ExistingSettings
from gpu_pools.platforms.existing.placement import ExistingPlacement
from gpu_pools.platforms.magnum.cluster import BootVolume, MagnumOptions, MagnumSettings, MagnumTemplate
from gpu_pools.platforms.magnum.existing import BESIDE, ExistingMagnum
from gpu_pools.platforms.magnum.placement import MagnumPlacement
from gpu_pools.reading.fields import Kind, Row, flag, rows
from gpu_pools.sharing.mps import Mps
from gpu_pools.sharing.needs import Needs
from gpu_pools.sharing.time_slicing import TimeSlicing
from gpu_pools.stack.acknowledged import Acknowledgement
from gpu_pools.stack.azure_monitor import AzureMonitorSettings
from gpu_pools.stack.charts import ChartSettings, ChartSource, NfdSettings, OperatorSettings
from gpu_pools.stack.dra_driver import DraDriverSettings
from gpu_pools.stack.driver_upgrade import DriverUpgrade
from gpu_pools.stack.node_hardware import DeclaredHardware
from gpu_pools.stack.observability import ObservabilitySettings
from gpu_pools.stack.pools import Minimum, Pool
from gpu_pools.stack.registry import RegistrySettings
from gpu_pools.stack.rollout import Rollout, RolloutWindow
from gpu_pools.stack.verification import VerificationSettings


@dataclass(frozen=True)
class Args:
    """A type of arguments: its description, the classes whose rows it has, for which platform, what it lacks, and more.

    Without a description it has that of its first class.
    """

    name: str
    says: str
    of: tuple[type, ...]
    platform: str = "all"
    lacks: tuple[str, ...] = ()
    more: tuple[Row, ...] = ()


_STACK: Final = "In the section `observability`: the chart kube-prometheus-stack."
#: What stands beside `existing` of Magnum.
_BESIDE_MAGNUM: Final = tuple(one for one in rows(MagnumSettings) if one.key in BESIDE and one.key != "existing")
#: What a pool of AKS has beside `AksPlacement`.
POOL_CLASSES: Final = (AksPoolOptions,)
_POOLS: Final = (Pool, AksPlacement, *POOL_CLASSES, MagnumPlacement, ExistingPlacement, DeclaredHardware)
TYPES: Final = (
    Args("SystemPoolArgs", "The pool for the cluster's own pods; `count` or `nodes`.", (SystemPool,), "aks"),
    Args(
        "EntraArgs",
        "Users log in with Entra ID, by kubelogin; certificates of administrators cannot be had.",
        (EntraSettings,),
        "aks",
    ),
    Args("LoadBalancerArgs", "How nodes reach outside through the cluster's load balancer.", (LoadBalancer,), "aks"),
    Args("NetworkArgs", "Where nodes and pods lie, and how they talk.", (Network,), "aks"),
    Args("ApiServerArgs", "Who can reach the API server.", (ApiServer,), "aks"),
    Args("KubeletIdentityArgs", "The identity as which nodes pull images.", (KubeletIdentity,), "aks"),
    Args("IdentityArgs", "As whom the cluster acts in Azure.", (Identity,), "aks"),
    Args("KeyVaultSecretsArgs", "Secrets of Azure Key Vault as volumes.", (KeyVaultSecrets,), "aks"),
    Args("UpgradesArgs", "Upgrades that Azure makes by itself.", (Upgrades,), "aks"),
    Args("WindowArgs", "When Azure may do it: weekly, or daily where no day is named.", (Window,), "aks"),
    Args("MaintenanceArgs", "When Azure may upgrade by itself.", (Maintenance,), "aks"),
    Args("AutoscalerArgs", "The cluster autoscaler, the same for all pools.", (Autoscaler,), "aks"),
    Args("MonitoringArgs", "Logs and metrics in Azure Monitor.", (Monitoring,), "aks"),
    Args("AksClusterArgs", "An AKS cluster.", (AksSettings, AksClusterOptions), "aks", lacks=("existing",)),
    Args("ExistingAksClusterArgs", "An AKS cluster that is there.", (ExistingAks,), "aks"),
    Args("MagnumTemplateArgs", "A cluster template to make.", (MagnumTemplate,), "magnum"),
    Args("BootVolumeArgs", "A volume as the machines' disk.", (BootVolume,), "magnum"),
    Args(
        "MagnumClusterArgs",
        "A Magnum cluster; `template` or `template_id`.",
        (MagnumSettings, MagnumOptions),
        "magnum",
        lacks=("existing",),
    ),
    Args(
        "ExistingMagnumClusterArgs",
        "A Magnum cluster that is there, by `name` or `uuid`.",
        (ExistingMagnum,),
        "magnum",
        more=_BESIDE_MAGNUM,
    ),
    Args("ExistingClusterArgs", "How to reach the cluster.", (ExistingSettings,), "existing"),
    Args(
        "RolloutWindowArgs", "When changes of nodes may begin: weekly, or daily where no day is named.", (RolloutWindow,), "all"
    ),
    Args("DriverUpgradeArgs", "How the operator replaces drivers on living nodes.", (DriverUpgrade,)),
    Args("RolloutArgs", "How the pool's living nodes change in place.", (Rollout,)),
    Args("MinimumArgs", "What a node's driver must be at least; the verification holds each node against it.", (Minimum,)),
    Args("SpotArgs", "Spot VMs.", (Spot,), "aks"),
    Args("UpgradeSettingsArgs", "How nodes are replaced in an upgrade.", (UpgradeSettings,), "aks"),
    Args("KubeletConfigArgs", "Settings of the kubelets.", (KubeletConfig,), "aks"),
    Args("LinuxOsConfigArgs", "Settings of the nodes' kernels.", (LinuxOsConfig,), "aks"),
    Args("AksPoolArgs", "A GPU pool; the same fields as a pool of a stack file.", (Pool, AksPlacement, *POOL_CLASSES), "aks"),
    Args(
        "FlavorArgs",
        "What a Nova flavor has; OpenStack has no field that names the GPU model.",
        (DeclaredHardware,),
        "magnum",
    ),
    Args(
        "MagnumPoolArgs",
        "A GPU node group; the same fields as a pool of a stack file.",
        (Pool, MagnumPlacement),
        "magnum",
    ),
    Args(
        "ExistingPoolArgs",
        "A pool of an existing cluster; the same fields as in a stack file.",
        (Pool, ExistingPlacement, DeclaredHardware),
        "existing",
        # Labels alone make no node and prove none.
        lacks=("count", "nodes", "minimum"),
    ),
    Args(
        "ExistingArgs",
        "A cluster of a cloud that is there: by `resource_group` and `name` on AKS, by `name` or `uuid` on Magnum.",
        (ExistingAks, ExistingMagnum),
        "any",
    ),
    Args(
        "ClusterArgs",
        "A stack file's section `cluster`: the platform, and what making or reaching the cluster needs there.",
        (AksSettings, AksClusterOptions, MagnumSettings, MagnumOptions, ExistingSettings),
        "any",
        more=(
            Row("platform", "aks, magnum or existing.", Kind(flag().read, "str"), needed=True),
            Row("existing", "A cluster that is there, instead of one that is made.", Kind(flag().read, "ExistingArgs")),
        ),
    ),
    Args("PoolArgs", "A GPU pool of any platform.", _POOLS, "any"),
    Args(
        "NamedPoolArgs",
        "A stack file's entry of `pools`: a GPU pool of any platform.",
        _POOLS,
        "any",
        lacks=("sharing",),
        more=(Row("sharing", "The name of a declaration.", Kind(flag().read, "str"), needed=True),),
    ),
    Args("ChartSourceArgs", "", (ChartSource,)),
    Args("OperatorSectionArgs", "", (OperatorSettings, ChartSettings), "gpu-operator"),
    Args("NodeFeatureDiscoverySectionArgs", "", (NfdSettings, ChartSettings), "node-feature-discovery"),
    Args("DraDriverSectionArgs", "", (DraDriverSettings, ChartSettings), "dra-driver-nvidia-gpu"),
    Args("PrometheusStackArgs", _STACK, (ChartSettings,), "kube-prometheus-stack"),
    Args("AzureMonitorArgs", "", (AzureMonitorSettings,)),
    Args("ObservabilitySectionArgs", "", (ObservabilitySettings,)),
    Args("VerificationSectionArgs", "", (VerificationSettings,)),
    Args("RegistrySectionArgs", "", (RegistrySettings,)),
    Args("AcknowledgementArgs", "", (Acknowledgement,)),
)
MODE_TYPES: Final = (
    Args("NeedsArgs", "What each pod needs; the plan holds it against the GPUs of every pool.", (Needs,)),
    Args("SlicesArgs", "How pods take turns.", (TimeSlicing,)),
    Args("SideBySideArgs", "How pods run side by side.", (Mps,)),
)
