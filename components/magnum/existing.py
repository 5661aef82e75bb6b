"""A Magnum cluster that is there already: read, never managed. Node groups are added to it by MagnumGpuNodePool.

It is read in previews, too; what does not go together with it the check of the cloud says (components/magnum/check.py). A
preview of somebody who has not logged in knows nothing of the cluster, and warns. Of the cluster only a kubeconfig comes into the
state: Magnum keeps none, and signs another certificate for whoever asks, so that a new one at each `up` would look like a change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import pulumi
from pulumi_openstack import containerinfra

from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.stack import ExistingMagnumClusterArgs
from gpu_pools.components.arguments.to_stack import ALONE, located_in, stack_keys
from gpu_pools.components.engine import log
from gpu_pools.components.engine.not_known_yet import not_known_yet
from gpu_pools.components.engine.options import child_options
from gpu_pools.components.engine.stack_owner import stack_owner
from gpu_pools.components.kubernetes.provider import kubernetes_provider
from gpu_pools.components.magnum.check import check_cloud
from gpu_pools.components.magnum.cluster import MagnumGpuNodePoolArgs
from gpu_pools.platforms.known import parse_cluster
from gpu_pools.platforms.magnum.answers import AUTOSCALER, is_on
from gpu_pools.platforms.magnum.cluster import MagnumSettings
from gpu_pools.platforms.magnum.existing import BESIDE, ExistingMagnum
from gpu_pools.platforms.magnum.found import OWNER_LABEL
from gpu_pools.stack.pools import Pool
from gpu_pools.text.errors import InvalidStackError, Problem, Problems

__all__ = ["ExistingMagnumCluster", "ExistingMagnumClusterArgs"]

#: How gophercloud says that Magnum has no such cluster, or several of that name.
_NOT_THIS_ONE = ("but got 404", "but got 409")


@dataclass(frozen=True)
class _Found:
    """What of it the stack uses."""

    uuid: str
    kubeconfig: str
    labels: Mapping[str, str]


class ExistingMagnumCluster(pulumi.ComponentResource):
    """A cluster by Magnum that exists."""

    cluster_id: pulumi.Output[str]
    """The cluster's UUID; unknown in a preview that cannot read it."""
    cluster_name: pulumi.Output[str]
    """Its name, or its UUID where it is named by that."""
    kubeconfig: pulumi.Output[str]
    """A kubeconfig of an administrator; a secret."""

    def __init__(
        self,
        name: str,
        args: ExistingMagnumClusterArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: MagnumSettings | None = None,
        pools: Sequence[Pool] = (),
        inside: bool = True,
    ) -> None:
        """Read the cluster.

        Args:
            name: of the component.
            args: which cluster.
            opts: options of the component.
            planned: what the arguments mean, where they were checked with a whole stack.
            pools: all that the stack adds to it, where a whole stack is.
            inside: whether anything is put into it but groups; else no kubeconfig comes into the state.

        Raises:
            InvalidStackError: with everything that does not go together with the cluster; outside of previews also if it cannot
                be read.
        """
        what = f"ExistingMagnumCluster({name})"
        args = known_args(what, args, ExistingMagnumClusterArgs)
        settings = planned or _settings(what, args)
        asked = settings.existing or ExistingMagnum()
        super().__init__("gpu-pools:index:ExistingMagnumCluster", name, None, opts)
        #: Nothing of this cluster is ours, so nothing goes away with it.
        self.resource: pulumi.Resource | None = None
        with located_in(what, ALONE):
            check_cloud(settings, pools, self)
        found = _found(what, asked.named, self)
        self.autoscales = found is not None and is_on(found.labels.get(AUTOSCALER, ""))
        self.cluster_name = pulumi.Output.from_input(asked.named)
        self.cluster_id = pulumi.Output.from_input(found.uuid) if found else _unknown()
        if found and inside:
            self.kubeconfig = self._kept(name, found, opts)
        else:
            self.kubeconfig = pulumi.Output.secret(found.kubeconfig if found else _unknown())
        #: For everything that is put into this cluster.
        self.kubernetes = kubernetes_provider(name, self, self.kubeconfig, self.cluster_id, given=opts) if inside else None
        self.register_outputs({"cluster_id": self.cluster_id, "cluster_name": self.cluster_name, "kubeconfig": self.kubeconfig})

    def pool_args(self, args: MagnumGpuNodePoolArgs) -> MagnumGpuNodePoolArgs:
        """The arguments of a node group in this cluster: with the label by which the stack knows its own.

        Args:
            args: those of a group in any cluster.
        """
        return {**args, "autoscaling": self.autoscales, "labels": {OWNER_LABEL: stack_owner()}}

    def _kept(self, name: str, found: _Found, opts: pulumi.ResourceOptions | None) -> pulumi.Output[str]:
        """The kubeconfig of the first deploy: another cluster of that name, which has another UUID, begins anew."""
        stash = pulumi.Stash(
            f"{name}-kubeconfig-{found.uuid}",
            child_options(self, opts, ignore_changes=["input"]),
            pulumi.Output.secret(found.kubeconfig),
        )
        return pulumi.Output.secret(stash.output)


def _settings(what: str, args: ExistingMagnumClusterArgs) -> MagnumSettings:
    keys: dict[str, object] = {**stack_keys(args)}
    beside: dict[str, object] = {key: keys.pop(key) for key in BESIDE if key in keys}
    problems = Problems()
    section: dict[str, object] = {"platform": "magnum", **beside, "existing": keys}
    settings = parse_cluster(section, what, problems, complete=True)
    problems.raise_if_any()
    return cast("MagnumSettings", settings)


def _found(what: str, named: str, parent: pulumi.Resource) -> _Found | None:
    try:
        answer = containerinfra.get_cluster(name=named, opts=pulumi.InvokeOptions(parent=parent))
    except Exception as error:  # noqa: BLE001 - the SDK has no kind of its own for what a provider answers
        problem = _unread(what, named, " ".join(str(error).split()))
        if not pulumi.runtime.is_dry_run() or any(words in problem.message for words in _NOT_THIS_ONE):
            raise InvalidStackError([problem]) from None
        log.warn(f"a deploy would stop here: {problem.message}. {problem.remedy}", parent)
        return None
    return _Found(answer.id, answer.kubeconfig["raw_config"], {**(answer.labels or {})})


def _unread(what: str, named: str, said: str) -> Problem:
    return Problem(
        what,
        f"the cluster {named} cannot be read: {said}",
        "a cluster of the project that you have logged in for, by whose owner or with a role that may have certificates signed",
        f"`openstack coe cluster show {named}` tells whether it is there.",
    )


def _unknown() -> pulumi.Output[str]:
    return pulumi.Output.from_input("").apply(lambda _: not_known_yet())
