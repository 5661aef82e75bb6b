"""What a stack finds in place before its deploy: the cloud's catalogue, or a cluster with nodes that exists already.

Derived from the stack file, so that any stack runs here unchanged: the flavors, images, key pairs and networks that it names
exist in the sandbox's OpenStack; the nodes that its selectors describe exist in the "existing" cluster, and so do the operator
and the NFD that it wants to find there.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.aks.placement import AksPlacement
from gpu_pools.platforms.existing.cluster import ExistingSettings
from gpu_pools.platforms.existing.placement import ExistingPlacement
from gpu_pools.platforms.magnum.cluster import MagnumSettings
from gpu_pools.platforms.magnum.placement import MagnumPlacement
from sandbox.clouds.azure import AzureCloud
from sandbox.clouds.azure_ids import network_id
from sandbox.clouds.refusal import Refusal
from sandbox.cluster import add_ons, machine_groups
from sandbox.cluster import control_plane as clusters
from sandbox.cluster.add_ons import AddOns
from sandbox.cluster.machine_groups import Hardware, MachineGroup, RealNodes
from sandbox.nvml.known_models import record_of
from sandbox.openstack.magnum_api import MagnumError
from sandbox.stack import inventory
from sandbox.system.errors import SandboxError
from sandbox.system.files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.stack.node_hardware import Flavor
    from sandbox.openstack.magnum_api import MagnumApi
    from sandbox.stack.state import Sandbox
    from sandbox.toolchain.tools import Tools

_CPU_FLAVOR: Final = {"vcpus": 4, "ramMiB": 8192, "gpuModel": None, "gpuProduct": None, "gpus": 0}
#: A template of the cloud's operators, which a stack names but does not describe. Magnum refuses every cluster of a template
#: without a flavor for masters ("Unable to find flavor None"), so no cloud offers one.
_GIVEN_TEMPLATE: Final[dict[str, Any]] = {
    "image": "fedora-coreos",
    "flavor": "m1.medium",
    "masterFlavor": "m1.medium",
    "masterLbEnabled": True,
    # What both Magnum and magnum-cluster-api take; that driver upgrades by the label.
    "networkDriver": "calico",
    "labels": {"kube_tag": "v1.36.3"},
}
#: Of a Magnum cluster that was there.
_PLATFORM_TEMPLATE: Final = "platform"
_APPS: Final = "apps"
#: Of an AKS cluster that was there, and who administers it.
_REGION: Final = "westeurope"
_ADMINS: Final = "7b1f2c5e-3d84-4f7a-9a53-1c6d0e2b8f94"
_WORKER: Final = Hardware(cpus=4, memory_gib=16)
_GPU_NODE: Final = Hardware(cpus=32, memory_gib=256)


def seed_openstack(sandbox: Sandbox, plan: Plan) -> None:
    """Write what the sandbox's OpenStack has besides Magnum."""
    cluster = plan.settings.cluster
    if not isinstance(cluster, MagnumSettings):
        return
    template = cluster.template
    named = _PLATFORM_TEMPLATE if cluster.existing else cluster.template_id
    given = {named: _GIVEN_TEMPLATE} if named else {}
    of_template = (template.flavor, template.master_flavor) if template else (_GIVEN_TEMPLATE["flavor"],)
    flavors = {str(name): _CPU_FLAVOR for name in (*of_template, cluster.worker_flavor) if name}
    flavors |= {name: _flavor(flavor) for name, flavor in plan.settings.flavors.items()}
    networks = (cluster.options.fixed_network, cluster.options.fixed_subnet)
    image = template.image if template else _GIVEN_TEMPLATE["image"]
    images = [p.pool.placement.image for p in plan.pools if isinstance(p.pool.placement, MagnumPlacement)]
    write_json(
        sandbox.openstack_seed,
        {
            "flavors": flavors,
            "images": sorted({str(name) for name in [*images, image] if name}),
            "keypairs": [cluster.keypair] if cluster.keypair else [],
            "networks": [name for name in (template and template.external_network, *networks) if name],
            "templates": given,
            # What the stack does not say to be switched off is there.
            "addOns": AddOns(plan.settings.nfd.install is not True, plan.settings.operator.install is not True).as_json(),
        },
    )


def offer_sizes(sandbox: Sandbox, plan: Plan) -> None:
    """Have the sandbox's Azure offer the VM sizes that no table has, with the GPUs that the stack declares of them.

    What was offered stays, since there may be pools of it.
    """
    if not isinstance(plan.settings.cluster, AksSettings):
        return
    declared = {p.pool.placement.vm_size: p.hardware for p in plan.pools if isinstance(p.pool.placement, AksPlacement)}
    offered = {
        size: Hardware(
            cpus=_GPU_NODE.cpus,
            memory_gib=_GPU_NODE.memory_gib,
            gpu_model=hardware.model.key,
            gpu_product=hardware.product,
            gpus=hardware.gpus,
            declared=record_of(hardware.model),
        )
        for size, hardware in declared.items()
        if not hardware.known_size
    }
    if offered:
        before = read_json(sandbox.azure_sizes)
        write_json(sandbox.azure_sizes, before | {size: asdict(hardware) for size, hardware in offered.items()})


def give_aks_cluster(sandbox: Sandbox, plan: Plan) -> None:
    """Have the AKS cluster that a stack adds its pools to, as platform teams run one.

    It is of Entra ID only, private, and in a network of theirs. Its private address is the machine's own: that nobody else
    reaches it is not played.

    Raises:
        SandboxError: if the stack names what no cluster can be called.
    """
    cluster = plan.settings.cluster
    if not isinstance(cluster, AksSettings) or cluster.existing is None:
        return
    group, network = cluster.resource_group, f"{cluster.name}-network"
    subnet = f"{network_id(group, network)}/subnets/nodes"
    of_all = {"osType": "Linux", "type": "VirtualMachineScaleSets", "vmSize": "Standard_D4s_v5", "vnetSubnetID": subnet}
    body = {
        "location": _REGION,
        "dnsPrefix": cluster.name[:54],
        "sku": {"name": "Base", "tier": "Standard"},
        "identity": {"type": "SystemAssigned"},
        "enableRBAC": True,
        "networkProfile": {"networkPlugin": "azure", "networkPluginMode": "overlay"},
        "aadProfile": {"managed": True, "adminGroupObjectIDs": [_ADMINS], "enableAzureRBAC": False},
        "disableLocalAccounts": True,
        "apiServerAccessProfile": {"enablePrivateCluster": True},
        "agentPoolProfiles": [
            {"name": "system", "mode": "System", "count": 1, **of_all},
            {"name": "apps", "mode": "User", "count": 1, **of_all},
        ],
    }
    space = {
        "addressSpace": {"addressPrefixes": ["10.40.0.0/16"]},
        "subnets": [{"name": "nodes", "addressPrefix": "10.40.0.0/20"}],
    }
    try:
        folder = AzureCloud(sandbox.folder).give(group, (network, {"location": _REGION, **space}), (cluster.name, body))
    except Refusal as error:
        message = f"the cluster that gpu-pools:cluster.existing names cannot be in the sandbox's Azure: {error}"
        raise SandboxError(message, "Correct resourceGroup or name.") from error
    inventory.remember(folder)


def give_magnum_cluster(sandbox: Sandbox, plan: Plan, magnum: MagnumApi | None) -> None:
    """Have the Magnum cluster that a stack adds its node groups to, with a group of somebody else's.

    Raises:
        SandboxError: if there cannot be one.
    """
    cluster = plan.settings.cluster
    if not isinstance(cluster, MagnumSettings) or cluster.existing is None or magnum is None:
        return
    try:
        if not magnum.has_cluster(cluster.name):
            if cluster.existing.uuid:
                message = f"the sandbox's Magnum has no cluster {cluster.name}, and gives those that it makes UUIDs of its own"
                raise SandboxError(message, "Write gpu-pools:cluster.existing.name.")
            magnum.create_cluster({"name": cluster.name, "clusterTemplateId": _PLATFORM_TEMPLATE})
        id_, _ = magnum.find_cluster(cluster.name)
        if magnum.find_group(id_, _APPS) is None:
            magnum.create_group(id_, {"name": _APPS, "nodeCount": 1})
        write_json(sandbox.openstack_others, {"ids": [id_, magnum.find_group(id_, _APPS)]})
    except MagnumError as error:
        message = f"the cluster that gpu-pools:cluster.existing names cannot be in the sandbox's Magnum: {error}"
        raise SandboxError(message, "Correct its name; `make clean` starts over.") from error
    for folder in sandbox.clusters.glob(f"*-{id_[:6]}"):
        inventory.remember(folder)


def boot_existing_cluster(sandbox: Sandbox, plan: Plan, tools: Tools, real: Mapping[str, RealNodes]) -> None:
    """Bring up the cluster that a stack for an existing cluster expects, with nodes as its selectors describe.

    Args:
        sandbox: where.
        plan: of the stack.
        tools: the programs.
        real: pool -> which of its nodes are real ones, whom somebody else starts.

    Raises:
        SandboxError: if the stack names a kubeconfig file, which the sandbox cannot replace.
    """
    cluster = plan.settings.cluster
    if not isinstance(cluster, ExistingSettings):
        return
    if cluster.kubeconfig:
        message = f"gpu-pools:cluster.kubeconfig names {cluster.kubeconfig}; the sandbox deploys to a cluster of its own only."
        raise SandboxError(message, "Leave `kubeconfig` out of the stack and set KUBECONFIG for the real cluster.")
    folder = sandbox.existing_cluster
    running = clusters.boot(folder, cluster.context or "existing", tools)
    machine_groups.put(folder, MachineGroup(id="workers", node_prefix="worker-", count=2, hardware=_WORKER))
    for pool_plan in plan.pools:
        chosen = real.get(pool_plan.name, RealNodes())
        machine_groups.put(folder, replace(_group(pool_plan), real=chosen.count, own_gpus=chosen.own_gpus))
    add_ons.install(running, tools.helm, AddOns(plan.settings.nfd.adopted, plan.settings.operator.adopted))
    inventory.remember(folder)


def _group(pool_plan: PoolPlan) -> MachineGroup:
    placement = pool_plan.pool.placement
    if not isinstance(placement, ExistingPlacement):
        message = f"pool {pool_plan.name} is not of an existing cluster"
        raise TypeError(message)
    hardware = Hardware(
        cpus=_GPU_NODE.cpus,
        memory_gib=_GPU_NODE.memory_gib,
        gpu_model=pool_plan.hardware.model.key,
        gpu_product=pool_plan.hardware.product,
        gpus=pool_plan.hardware.gpus,
        declared=record_of(pool_plan.hardware.model),
    )
    return MachineGroup(
        id=pool_plan.name,
        node_prefix=f"{pool_plan.name}-",
        count=max(pool_plan.pool.min_nodes, 1),
        hardware=hardware,
        labels=dict(placement.node_selector),
        taints=[{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in pool_plan.taints],
        driver_preinstalled=pool_plan.driver == "preinstalled",
    )


def _flavor(flavor: Flavor) -> dict[str, Any]:
    hardware = flavor.hardware
    return {
        "vcpus": flavor.vcpus or _GPU_NODE.cpus,
        "ramMiB": int((flavor.memory_gib or _GPU_NODE.memory_gib) * 1024),
        "gpuModel": hardware.model.key if hardware else None,
        "gpuProduct": hardware.product if hardware else None,
        "gpus": hardware.gpus if hardware else 0,
        "declared": record_of(hardware.model) if hardware else None,
    }
