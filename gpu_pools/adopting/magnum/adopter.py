"""Node groups of a Magnum cluster, read from files or asked of openstack."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from gpu_pools.adopting.adopter import PLATFORM, Adopter, Remains, unnamed_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_pools.adopting.adopted import Adopted
    from gpu_pools.adopting.inside import Inside
    from gpu_pools.adopting.magnum.node_groups import Gpus


class MagnumAdopter(Adopter):
    """Node groups of a Magnum cluster."""

    name: ClassVar[str] = "magnum"
    says: ClassVar[str] = "node groups of an OpenStack Magnum cluster"
    cluster_component: ClassVar[str] = "gpu-pools:index:ExistingMagnumCluster"
    remains: ClassVar[Sequence[Remains]] = (
        Remains(
            "openstack:containerinfra/nodeGroup:NodeGroup",
            "node groups keep their labels for good; their nodes get labels as long as NFD and the labellers run",
        ),
        Remains(
            "pulumi:index:Stash",
            "the administrator's kubeconfig goes with the state: `openstack coe cluster config` creates a new one",
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the cluster's name, or files of what openstack prints; and what OpenStack does not tell."""
        parser.add_argument("--name", metavar="NAME", help="of the cluster, or its UUID, asked of openstack")
        parser.add_argument(
            "--driver", required=True, choices=("heat", "magnum-cluster-api", "capi-helm"), help="Magnum's driver in this cloud"
        )
        parser.add_argument("--cluster", metavar="FILE", help="instead: what `openstack coe cluster show --format json` prints")
        parser.add_argument(
            "--groups", metavar="FILE", nargs="+", help="what `openstack coe nodegroup show --format json` prints, one or a list"
        )
        parser.add_argument(
            "--gpus",
            metavar="FLAVOR=MODEL:COUNT",
            type=_read_gpus,
            action="append",
            default=[],
            help="the GPUs of a flavor, which OpenStack does not tell, e.g. g2.5xlarge=a100-40gb:1; "
            "default: by the nodes' labels",
        )

    def adopt(self, options: argparse.Namespace, look: Callable[[], Inside], owner: str) -> tuple[Adopted, str]:  # noqa: ARG002
        """Read the cluster and its node groups, and adopt those with GPUs; a group has nowhere to note its owner."""
        from gpu_pools.adopting.adopted import NotAdoptableError  # noqa: PLC0415 - see adopter.py
        from gpu_pools.adopting.documents import mapping, read_json  # noqa: PLC0415 - see adopter.py
        from gpu_pools.adopting.magnum.asked import ask_openstack  # noqa: PLC0415 - see adopter.py
        from gpu_pools.adopting.magnum.node_groups import SHOW, MagnumCluster, adopt_magnum  # noqa: PLC0415 - see adopter.py
        from gpu_pools.text.errors import together  # noqa: PLC0415 - see adopter.py

        if options.cluster and options.groups:
            cluster, inside, *read = together(
                NotAdoptableError,
                lambda: mapping(read_json(options.cluster, SHOW), options.cluster, SHOW),
                look,
                *(partial(_read_groups, file) for file in options.groups),
            )
            groups = [one for found in read for one in found]
            source = f"{options.cluster} and {', '.join(options.groups)}"
        elif options.name:
            (cluster, groups), inside = together(NotAdoptableError, lambda: ask_openstack(options.name), look)
            source = f"the Magnum cluster {options.name}"
        else:
            raise unnamed_cluster("--name NAME, or --cluster FILE and --groups FILE")
        found = MagnumCluster(cluster, groups, options.driver)
        return adopt_magnum(found, dict(options.gpus), inside, PLATFORM), source


def _read_groups(file: str) -> list[dict[str, Any]]:
    from gpu_pools.adopting.documents import mappings, read_json  # noqa: PLC0415 - see adopter.py
    from gpu_pools.adopting.magnum.node_groups import SHOW_GROUPS  # noqa: PLC0415 - see adopter.py

    found = read_json(file, SHOW_GROUPS)
    return mappings(found if isinstance(found, list) else [found], file, SHOW_GROUPS)


def _read_gpus(text: str) -> tuple[str, Gpus]:
    from gpu_pools.adopting.magnum.node_groups import Gpus  # noqa: PLC0415 - see adopter.py

    flavor, _, rest = text.partition("=")
    model, _, count = rest.rpartition(":")
    if not (flavor and model and count.isdigit() and int(count) > 0):
        message = f"{text!r} is not FLAVOR=MODEL:COUNT, e.g. g2.5xlarge=a100-40gb:1"
        raise argparse.ArgumentTypeError(message)
    return flavor, Gpus(model, int(count))
