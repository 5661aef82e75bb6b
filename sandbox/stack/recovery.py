"""Mends what an interrupted run left; and the few things done to a sandbox from outside.

An engine that was killed leaves what it had asked for and never heard of: no state knows it, and the next run would find the
names taken. There is one rule for all providers: what no state knows is taken away, what was being deleted is deleted, and the
engine then looks at what there is (`pulumi refresh`). So nothing half made is ever taken for whole. On a real cloud this is the
user's work; `pulumi refresh` asks there what became of each pending create.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.magnum.cluster import MagnumSettings
from gpu_pools.stack.kubernetes_names import POOL_LABEL, REPLACEMENT_LABEL
from sandbox.clouds import azure, lookup
from sandbox.clouds.refusal import Refusal
from sandbox.cluster import control_plane as clusters
from sandbox.cluster import machine_groups
from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError, UnreachableError
from sandbox.openstack import replicas
from sandbox.providers.kube_objects import Objects
from sandbox.stack import checkpoint, inventory, missing_objects, stand_ins
from sandbox.system import processes
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from gpu_pools.plan.planned import Plan
    from sandbox.openstack.magnum_api import MagnumApi
    from sandbox.stack.engine import Engine
    from sandbox.stack.state import Sandbox
    from sandbox.system.progress import Progress

    Resource = Mapping[str, Any]

#: How long an engine without its command may go on with what it is doing, after it was asked to end.
_ENGINE_SECONDS: Final = 60.0
_GONE_SECONDS: Final = 60.0
_RELEASE: Final = "kubernetes:helm.sh/v3:Release"
_SERVER: Final = re.compile(r"https://127\.0\.0\.1:\d+")


def take_over(engine: Engine) -> bool:
    """Make the state this run's own: its lock is open, the stack exists; says whether there was a lock.

    Raises:
        SandboxError: if the engine refuses.
    """
    unlocked = engine.release_locks()
    engine.select_stack()
    return unlocked


def recover(engine: Engine) -> Engine:
    """Take away what an earlier run left unfinished; returns the engine to go on with.

    The state file is read as it is: to decrypt its secrets takes the engine most of a second, and they are needed only where
    something is refreshed.

    Raises:
        SandboxError: if the engine cannot be helped.
    """
    sandbox, state = engine.sandbox, checkpoint.latest(engine.sandbox)
    magnum = stand_ins.magnum(sandbox)
    resources, pending = state.get("resources") or [], state.get("pending_operations") or []
    known = lookup.known_ids(resources)
    with _magnums_refusals():
        if not pending and lookup.agree(sandbox.folder, magnum, known):
            refusing = [one["urn"] for one in resources if one["type"].startswith("openstack:")]
            stale = refusing if engine.failed_last() else []
            stale += missing_objects.urns_of_missing(resources, _clusters(sandbox))
            if stale:
                _refresh(with_program_if_moved(engine), *stale)
            return engine
        # A stand-in may still be at work for the engine that died.
        stand_ins.stop(sandbox)
        lookup.remove_unknown(sandbox.folder, magnum, known)
    managers = {str(one["outputs"]["__fieldManager"]) for one in resources if "__fieldManager" in (one.get("outputs") or {})}
    for operation in pending:
        if operation["resource"]["type"].startswith("kubernetes:"):
            for folder in _clusters(sandbox):
                mend_object(engine, folder / "kubeconfig", operation["resource"], operation["type"], managers)
    engine = replace(engine, attached=stand_ins.start(sandbox, engine.tools, engine.attached.login))
    _refresh(with_program_if_moved(engine))
    return engine


def with_program_if_moved(engine: Engine) -> Engine:
    """Return the engine as a refresh or a destroy needs it: with the program where the state leads to other addresses.

    Raises:
        SandboxError: if the engine cannot read its state.
    """
    resources = engine.exported(show_secrets=True).get("resources") or []
    return replace(engine, run_program=_has_moved(engine.sandbox, resources))


def _refresh(engine: Engine, *urns: str) -> None:
    """Have the engine look at what there is: at everything, or at these resources.

    Objects that no cluster has any more are looked at in any case (missing_objects.py).

    After an update that only failed it looks at what is in OpenStack: its plugin may have kept in the state what was refused, as
    those bridged from Terraform do, and the next update would find nothing to do. It must not look at Helm releases then: the
    Kubernetes provider reads one that failed as if it were whole, and the engine forgets that it is to be tried again.
    """
    targets = [argument for urn in urns for argument in ("--target", urn)]
    engine.output("refresh", "--yes", "--skip-preview", "--clear-pending-creates", "--suppress-outputs", *targets)


def _in_azure(sandbox: Sandbox, plan: Plan, pool: str) -> str:
    """What Azure calls the pool; one with `replace` is known by the labels of its nodes, as far as it is deployed so."""
    (pool_plan,) = [one for one in plan.pools if one.name == pool]
    labels = {POOL_LABEL: pool, REPLACEMENT_LABEL: pool_plan.replacement_id}
    made = azure.AzureCloud(sandbox.folder).read()["pools"].values() if pool_plan.replacement_id else ()
    return next((one["name"] for one in made if labels.items() <= (one["body"].get("nodeLabels") or {}).items()), pool)


def _in_magnum(magnum: MagnumApi, cluster: str, plan: Plan, pool: str) -> str:
    """What Magnum calls the pool; one that was there before `replace` has kept its name."""
    (pool_plan,) = [one for one in plan.pools if one.name == pool]
    made = f"{pool_plan.stem}{pool_plan.replacement_id}" if pool_plan.replacement_id else pool
    return made if magnum.find_group(cluster, made) else pool


def _scale_node_group(sandbox: Sandbox, magnum: MagnumApi, cluster: MagnumSettings, group: str, count: int) -> None:
    """As the autoscaler does it: by Magnum, or past it where the driver does not read the number that Magnum is asked for.

    Raises:
        Refusal: if the number is outside of the group's limits.
    """
    found = magnum.get(f"clusters/{cluster.name}")
    if not replicas.goes_by_limits(str(cluster.driver), str((found.get("labels") or {}).get("auto_scaling_enabled", ""))):
        magnum.scale(cluster.name, group, count)
        return
    row = magnum.get(f"clusters/{found['uuid']}/nodegroups/{group}")
    fewest, most = replicas.limits(row)
    if not fewest <= count <= most:
        raise Refusal(f"the autoscaler keeps {group} between {fewest} and {most} nodes")
    folder = next(sandbox.clusters.glob(f"*-{found['uuid'][:6]}"))
    machine_groups.scale(folder, row["uuid"], count)


def scale_in_cloud(sandbox: Sandbox, plan: Plan, pool: str, count: int) -> None:
    """Change a pool's node count as an autoscaler would: through the cloud, not through the engine.

    Raises:
        SandboxError: if the cloud refuses.
    """
    known = [pool_plan.name for pool_plan in plan.pools]
    if pool not in known:
        message = f'{sandbox.stack} has no pool "{pool}".'
        raise SandboxError(message, f"Choose one of {', '.join(known)}.")
    cluster, magnum = plan.settings.cluster, stand_ins.magnum(sandbox)
    try:
        if isinstance(cluster, AksSettings):
            azure.scale_node_pool(sandbox.folder, cluster.name, _in_azure(sandbox, plan, pool), count)
        elif isinstance(cluster, MagnumSettings) and magnum:
            _scale_node_group(sandbox, magnum, cluster, _in_magnum(magnum, cluster.name, plan, pool), count)
        else:
            machine_groups.scale(sandbox.existing_cluster, pool, count)
    except Refusal as error:
        raise SandboxError(str(error), "Choose a count within the pool's bounds.") from error


def unprotect(engine: Engine) -> bool:
    """Take the protection off what is to be destroyed; says whether there was any.

    With it the engine would first destroy everything else and then refuse. Here `down` means the copy on this machine.
    """
    if not any(entry.get("protect") for entry in engine.exported().get("resources") or []):
        return False
    engine.output("state", "unprotect", "--all", "--yes")
    return True


def check_nothing_left(engine: Engine) -> None:
    """Compare what is there after a destroy with what was there before.

    Raises:
        SandboxError: naming what is left.
    """
    sandbox = engine.sandbox
    left = [entry["urn"] for entry in engine.exported().get("resources") or []]
    with _magnums_refusals():
        left += lookup.everything(sandbox.folder, stand_ins.magnum(sandbox))
    for folder in sandbox.cluster_folders():
        if inventory.is_remembered(folder):
            left += inventory.left_behind(folder)
    if left:
        message = "After the destroy these are left:\n  " + "\n  ".join(left)
        raise SandboxError(message, "Run `make down` again; `make clean` throws the sandbox away.")


@contextlib.contextmanager
def _magnums_refusals() -> Iterator[None]:
    """Turn what Magnum refuses into what a command fails with."""
    try:
        yield
    except Refusal as error:
        message = f"What an interrupted run left cannot be mended: {error}"
        raise SandboxError(message, "Run the command again; `make clean` starts over.") from error


# --- engines whose command was killed ---------------------------------------------------------------------


def end_engines(sandbox: Sandbox, progress: Progress) -> None:
    """End what still runs of an earlier engine; the caller holds the sandbox, so nobody waits for it."""
    engines = [pid for pid, program in _engine_processes(sandbox).items() if program.endswith("/pulumi")]
    for pid in engines:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
    if engines:
        what = "The end of an engine that was left running"
        with progress.step("Ending an engine that was left running"), contextlib.suppress(SandboxError):
            processes.wait_until(lambda: not {*engines} & {*_engine_processes(sandbox)}, timeout=_ENGINE_SECONDS, what=what)
    for pid in _engine_processes(sandbox):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _engine_processes(sandbox: Sandbox) -> dict[int, str]:
    """The engine, its language host and the program: all of them know where the state lies."""
    return processes.carrying("PULUMI_BACKEND_URL", f"file://{sandbox.backend}")


# --- what is in the clusters ------------------------------------------------------------------------------


def _clusters(sandbox: Sandbox) -> Iterator[Path]:
    return (path.parent for path in sandbox.clusters.glob("*/cluster.json"))


def _has_moved(sandbox: Sandbox, resources: Iterable[Resource]) -> bool:
    """Whether the state leads to an API server that is elsewhere by now, because its port was taken meanwhile.

    Only the program then knows the way: without it the engine uses the addresses of the state.
    """
    providers = [entry for entry in resources if entry["type"] == "pulumi:providers:kubernetes"]
    servers = {server for entry in providers for server in _SERVER.findall(json.dumps(entry.get("inputs")))}
    return not servers <= {clusters.load(folder).server for folder in _clusters(sandbox)}


def mend_object(engine: Engine, kubeconfig: Path, resource: Resource, doing: str, managers: Collection[str]) -> None:
    """Undo what an interrupted operation did to an object or a release, so that the engine can do it.

    Args:
        engine: whose helm is used.
        kubeconfig: of the cluster.
        resource: as the state has it.
        doing: what was being done.
        managers: the field managers of everything that the state knows.

    Raises:
        SandboxError: if that fails.
    """
    inputs = resource.get("inputs") or {}
    if resource["type"] == _RELEASE:
        _mend_release(engine, kubeconfig, str(inputs["name"]), str(inputs["namespace"]), doing)
    elif doing in {"creating", "deleting"}:
        try:
            objects = Objects(Api.at(kubeconfig))
            if str(resource["type"]).endswith(f":{inputs['kind']}Patch"):
                _give_fields_up(objects, inputs, managers)
            else:
                _remove_object(objects, inputs, doing)
        except (ApiError, UnreachableError) as error:
            message = f"{inputs['kind']} {inputs['metadata']['name']}, which an interrupted run left, cannot be mended: {error}"
            raise SandboxError(message, "Run the command again; `make clean` starts over.") from error


def _give_fields_up(objects: Objects, inputs: Mapping[str, Any], managers: Collection[str]) -> None:
    """Give up the fields of somebody else's object that an interrupted run has set, and no state knows of.

    The provider makes a manager up for each such resource. It would make up another one, and the first one's fields would stay.

    Args:
        objects: of the cluster.
        inputs: of the Patch resource.
        managers: the field managers of everything that the state knows.
    """
    metadata = inputs["metadata"]
    found = objects.get(inputs["apiVersion"], inputs["kind"], metadata.get("namespace", ""), metadata["name"])
    entries = found["metadata"].get("managedFields") or [] if found else []
    place = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    for manager in {str(entry["manager"]) for entry in entries if entry.get("operation") == "Apply"} - {*managers}:
        if manager.startswith("pulumi-kubernetes-"):
            objects.apply({"apiVersion": inputs["apiVersion"], "kind": inputs["kind"], "metadata": place}, manager=manager)


def _remove_object(objects: Objects, inputs: Mapping[str, Any], doing: str) -> None:
    """Delete an object, and wait until it is gone."""
    metadata = inputs["metadata"]
    place, name = (inputs["apiVersion"], inputs["kind"], metadata.get("namespace", "")), metadata["name"]
    found = objects.get(*place, name)
    # An object of this name that somebody else has made is left for the engine to complain about.
    if found is None or (doing == "creating" and not _made_by_engine(found)):
        return
    objects.delete(found, "Foreground")
    what = f"The end of {inputs['kind']} {name}, which an interrupted run left"
    processes.wait_until(lambda: objects.get(*place, name) is None, timeout=_GONE_SECONDS, what=what)


def _made_by_engine(found: Mapping[str, Any]) -> bool:
    managers = [str(entry.get("manager")) for entry in found["metadata"].get("managedFields") or []]
    return any(manager.startswith("pulumi-kubernetes") for manager in managers)


def _mend_release(engine: Engine, kubeconfig: Path, name: str, namespace: str, doing: str) -> None:
    """Take a release away that is made anew; bring one back that hangs in an upgrade, which helm never goes on with."""
    helm = _Helm(str(engine.tools.helm), kubeconfig, name, namespace)
    if doing in {"creating", "deleting"}:
        helm.run("uninstall", "--ignore-not-found", "--wait")
    elif helm.status() in {"pending-upgrade", "pending-rollback"}:
        helm.run("rollback")


@dataclass(frozen=True)
class _Helm:
    """Helm, for one release."""

    program: str
    kubeconfig: Path
    name: str
    namespace: str

    def status(self) -> str:
        """What state it is in; "" where there is none."""
        done = self._call("status", "--output", "json")
        return str(json.loads(done.stdout)["info"]["status"]) if done.returncode == 0 else ""

    def run(self, command: str, *flags: str) -> None:
        """Do something with it.

        Raises:
            SandboxError: if helm refuses.
        """
        done = self._call(command, *flags)
        if done.returncode != 0:
            message = (
                f"Release {self.namespace}/{self.name}, which an interrupted run left, cannot be mended: {done.stderr.strip()}"
            )
            raise SandboxError(message, "Run the command again; `make clean` starts over.")

    def _call(self, command: str, *flags: str) -> subprocess.CompletedProcess[str]:
        arguments = [self.program, command, self.name, "--namespace", self.namespace, *flags]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        return subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
