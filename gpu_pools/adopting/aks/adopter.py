"""Agent pools of an AKS cluster, read from files or asked of az."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from gpu_pools.adopting.adopter import PLATFORM, Adopter, Remains, unnamed_cluster

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpu_pools.adopting.adopted import Adopted
    from gpu_pools.adopting.inside import Inside


class AksAdopter(Adopter):
    """Agent pools of an AKS cluster."""

    name: ClassVar[str] = "aks"
    says: ClassVar[str] = "agent pools of an AKS cluster"
    cluster_component: ClassVar[str] = "gpu-pools:index:ExistingAksCluster"
    remains: ClassVar[Sequence[Remains]] = (
        Remains(
            "azure-native:containerservice:AgentPool",
            "agent pools keep labels, taints and tags, and new nodes get them; a changed declaration reaches nobody",
        ),
        Remains(
            "azure-native:containerservice:ManagedCluster",
            "the cluster's Kubernetes version stays where it is, unless Azure upgrades it by itself",
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the cluster's name, or files of what az prints."""
        parser.add_argument("--resource-group", metavar="GROUP", help="of the cluster, asked of az")
        parser.add_argument("--name", metavar="NAME", help="of the cluster, asked of az")
        parser.add_argument("--subscription", metavar="ID", help="where az has several")
        parser.add_argument("--cluster", metavar="FILE", help="instead: what `az aks show --output json` prints; - for stdin")
        parser.add_argument(
            "--pools", metavar="FILE", help="what `az aks nodepool list --output json` prints; default: as the cluster has them"
        )

    def adopt(self, options: argparse.Namespace, look: Callable[[], Inside], owner: str) -> tuple[Adopted, str]:
        """Read the cluster and its agent pools, and adopt those with GPUs."""
        from gpu_pools.adopting.adopted import NotAdoptableError  # noqa: PLC0415 - see adopter.py
        from gpu_pools.adopting.aks.agent_pools import LIST, SHOW, adopt_aks  # noqa: PLC0415 - see adopter.py
        from gpu_pools.adopting.aks.asked import ask_az  # noqa: PLC0415 - see adopter.py
        from gpu_pools.adopting.documents import mapping, mappings, read_json  # noqa: PLC0415 - see adopter.py
        from gpu_pools.text.errors import together  # noqa: PLC0415 - see adopter.py

        pools: Any
        if options.cluster:
            cluster, pools, inside = together(
                NotAdoptableError,
                lambda: mapping(read_json(options.cluster, SHOW), options.cluster, SHOW),
                lambda: mappings(read_json(options.pools, LIST), options.pools, LIST) if options.pools else None,
                look,
            )
            source = " and ".join(one for one in (options.cluster, options.pools) if one)
        elif options.resource_group and options.name:
            (cluster, pools), inside = together(
                NotAdoptableError, lambda: ask_az(options.resource_group, options.name, options.subscription), look
            )
            source = f"the AKS cluster {options.name} in {options.resource_group}"
        else:
            raise unnamed_cluster("--resource-group GROUP and --name NAME, or --cluster FILE")
        return adopt_aks(cluster, pools, inside, owner, PLATFORM), source

    def marks_left(self, resources: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Yield that tags still name the stack; pools that were only held have never got one."""
        from gpu_pools.adopting.exported import pulumi_name  # noqa: PLC0415 - see adopter.py
        from gpu_pools.platforms.aks.found import OWNER_TAG  # noqa: PLC0415 - see adopter.py
        from gpu_pools.text.nested import at  # noqa: PLC0415 - see adopter.py

        tagged = [
            pulumi_name(one) for one in resources if isinstance(tags := at(one, "inputs", "tags"), dict) and OWNER_TAG in tags
        ]
        if tagged:
            names = ", ".join(tagged)
            yield f"the tag {OWNER_TAG} of {names} still names the stack: take it off before another stack adopts them"
