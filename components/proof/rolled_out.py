"""Waits for a pool's `rollout`, so that the first node that fails ends the deploy, and not the end of its whole time.

Pools with MPS are waited for in the same way, with `rollout` or without it: an operator that cannot serve MPS is reported by the
verifiers within seconds, and waiting changes nothing about it (W49).

The Kubernetes provider waits for a DaemonSet until its time is over, and cannot be told that nothing comes any more. So the
DaemonSet says that it is not to be waited for, and a ConfigMap says of which declaration the nodes are proven, by the uid and
the generation of the DaemonSet. It is due whenever that is another one than was proven last. The hook before it is written waits
(gpu_pools/proof/rollout_wait.py). Where the hook fails the ConfigMap is not written, so the next deploy waits again, even if it
changes nothing else. What comes after the proof depends on the ConfigMap.

Not by `pulumi.com/skipAwait`: with that nobody would wait for the end of the verifiers when they are deleted, either
(pulumi-kubernetes, provider/pkg/metadata/overrides.go), and what they write onto their nodes would come after what cleans up.
`pulumi.com/waitFor` with something that is always there is about creating and updating alone.

Where the program cannot reach the cluster, although the engine has just written into it, the annotation is left out: the provider
waits, as it does for pools without `rollout`, and the deploy says so.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

import pulumi
from pulumi_kubernetes.apps.v1 import DaemonSet
from pulumi_kubernetes.core.v1 import ConfigMap

from gpu_pools.components.engine import log
from gpu_pools.components.engine.not_known_yet import not_known_yet
from gpu_pools.components.kubernetes.ask_first import cluster_at, reason
from gpu_pools.components.proof.why import Failed, in_vain, why
from gpu_pools.kubernetes_api.cluster_api import ClusterApi
from gpu_pools.plan.planned import PoolPlan
from gpu_pools.proof.rollout_wait import NotRolledOutError, Place, RolloutWait
from gpu_pools.proof.verifier_pods import VERIFIER_APP
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from gpu_pools.stack.rollout import Rollout
from gpu_pools.verifier.api import ApiError
from gpu_pools.verifier.changer.windows import opens_in, read_window

_NOT_WAITED_FOR: Final = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}
_TRIES, _PAUSE_SECONDS = 3, 5.0


class RolledOut:
    """Of one pool with `rollout` or MPS, in a cluster that can be reached."""

    def __init__(self, name: str, planned: PoolPlan, facts: pulumi.Output[Failed], seconds: int, first_seconds: int) -> None:
        """What is needed for it.

        Args:
            name: unique in the program.
            planned: the pool.
            facts: how to reach the cluster, and where the verifiers are.
            seconds: how long the rollout may take.
            first_seconds: how long the first proof of a node may take that nobody changes.
        """
        self._name = name
        self._planned = planned
        self._facts = facts
        self._seconds, self._first_seconds = seconds, first_seconds
        #: Whether the DaemonSet becomes another one in this run; whether the provider waits for it.
        self._changes = False
        self._waited_for = False

    def annotations(self, after: pulumi.Resource) -> pulumi.Output[Mapping[str, str]]:
        """Of the DaemonSet.

        Args:
            after: what the engine writes into the same cluster before; only then it is asked.
        """
        # What follows from the kubeconfig here is no secret, so it must not come as an Output that does.
        return pulumi.Output.from_input(self._asked(after))

    async def _asked(self, after: pulumi.Resource) -> Mapping[str, str]:
        if pulumi.runtime.is_dry_run():
            return _NOT_WAITED_FOR
        await after.urn.future()
        try:
            await asyncio.to_thread(_reach, await self._known())
        except Exception as error:  # noqa: BLE001 - whatever it is, the provider can wait
            self._waited_for = True
            log.warn(
                f"pool {self._planned.name}: the program cannot reach the cluster ({reason(error)}), so a node that fails "
                f"is reported only when the time is over, after {self._seconds} s"
            )
            return {}
        return _NOT_WAITED_FOR

    def notes(self) -> pulumi.ResourceHook:
        """For before the DaemonSet is made or changed, in previews too."""

        def note(change: pulumi.ResourceHookArgs) -> None:
            # What stands beside the spec is no new generation.
            self._changes = (change.old_inputs or {}).get("spec") != (change.new_inputs or {}).get("spec")

        return pulumi.ResourceHook(f"{self._name}-changes", note, pulumi.ResourceHookOptions(on_dry_run=True))

    def written(self, proof: DaemonSet, opts: pulumi.ResourceOptions) -> ConfigMap:
        """What is there once the rollout is over.

        Args:
            proof: the DaemonSet.
            opts: of the ConfigMap.
        """
        wait = pulumi.ResourceHook(f"{self._name}-rolled-out", self._wait)
        hooks = pulumi.ResourceHookBinding(before_create=[wait], before_update=[wait])
        return ConfigMap(
            f"{self._name}-rolled-out",
            metadata={"name": f"rollout-of-{self._planned.name}", "namespace": VERIFIER_NAMESPACE},
            data=proof.metadata.apply(lambda made: self._proven(made.uid, made.generation)),
            opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[proof], hooks=hooks)),
        )

    def _proven(self, uid: str | None, generation: int | None) -> "dict[str, str] | pulumi.Output[Any]":
        """A preview knows no generation of what it would change, and an engine that is held to its plan takes no other one."""
        if self._changes and pulumi.runtime.is_dry_run():
            return not_known_yet()
        return {"daemonSet": uid or "", "generation": str(generation or 0)}

    async def _wait(self, _change: pulumi.ResourceHookArgs) -> None:
        if self._waited_for:
            return
        failed = await self._known()
        waiting = await asyncio.to_thread(self._waiting, failed)
        try:
            # Slept outside of the thread, so that no thread is held by each pool that waits.
            while left := await asyncio.to_thread(waiting.look):  # noqa: ASYNC110 - what it waits for is in a cluster
                await asyncio.sleep(left)
        except NotRolledOutError:
            log.error(await asyncio.to_thread(why, failed))
            raise

    async def _known(self) -> Failed:
        failed = await self._facts.future()
        if failed is None:
            message = "the cluster is not known"
            raise ValueError(message)
        return failed

    def _waiting(self, failed: Failed) -> RolloutWait:
        (pool,) = failed.reports["pools"].values()
        nodes = ",".join(f"{key}={value}" for key, value in pool["nodeSelector"].items())
        place = Place(VERIFIER_NAMESPACE, f"{VERIFIER_APP}-{failed.pool}", pool["podSelector"], nodes)
        rollout = self._planned.pool.rollout or Rollout()
        windows = [read_window(str(one)) for one in rollout.windows]
        return RolloutWait(
            _api(failed),
            failed.pool,
            place,
            rollout.max_unavailable,
            float(self._seconds),
            float(self._first_seconds),
            log.info,
            # By the clock of the machine that deploys, as components/proof/window.py has it.
            lambda: opens_in(windows, time.time()),
            (lambda: in_vain(failed)) if self._planned.sharing.needs_mps_daemon else lambda: "",
            rolls=self._planned.pool.rollout is not None,
        )


def _api(failed: Failed) -> ClusterApi:
    return cluster_at(failed.kubeconfig or "", failed.reports["context"])


def _reach(failed: Failed) -> None:
    """Ask the cluster for something.

    Raises:
        ApiError: it does not answer, or does not allow it.
    """
    api = _api(failed)
    for left in reversed(range(_TRIES)):
        try:
            api.get("/api/v1/nodes", limit="1")
        except ApiError:
            if not left:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return
