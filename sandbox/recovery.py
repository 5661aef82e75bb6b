"""Mends what an interrupted run left, with the engine's own means; and the few things done to a sandbox from outside.

A killed engine leaves creates that it began and never saw end. Its state names them; whether they happened is asked of the
stand-in clouds, and the engine then imports those that exist and forgets the others (`pulumi refresh`). On a real cloud the
engine asks the user the same question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpus.clusters import AksSettings, MagnumSettings
from sandbox import cluster as clusters
from sandbox import inventory, machine_groups, stand_ins
from sandbox.clouds import azure, lookup
from sandbox.clouds.magnum import scale_node_group
from sandbox.clouds.refusal import Refusal
from sandbox.engine import Engine
from sandbox.errors import SandboxError
from sandbox.machines.api import Api, ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpus.plan import Plan
    from sandbox.state import Sandbox

    Inputs = Mapping[str, Any]


def recover(engine: Engine, plan: Plan) -> Engine:
    """Settle the creates that an earlier run left open; returns the engine to go on with.

    Raises:
        SandboxError: if the engine cannot be helped.
    """
    pending = engine.exported().get("pending_operations") or []
    if not pending:
        return engine
    # A stand-in may still be at work for the engine that died; starting it anew completes or undoes that.
    stand_ins.stop(engine.sandbox)
    driver = getattr(plan.settings.cluster, "driver", None)
    engine = Engine(engine.sandbox, engine.tools, stand_ins.start(engine.sandbox, engine.tools, magnum_driver=driver))
    arguments = ["refresh", "--yes", "--skip-preview", "--clear-pending-creates", "--suppress-outputs"]
    for operation in pending:
        resource = operation["resource"]
        found = _existing_id(engine.sandbox, resource["type"], resource.get("inputs") or {})
        if operation["type"] == "creating" and found:
            arguments += ["--import-pending-creates", resource["urn"], "--import-pending-creates", found]
    engine.output(*arguments)
    return engine


def scale_in_cloud(sandbox: Sandbox, plan: Plan, pool: str, count: int) -> None:
    """Change a pool's node count as an autoscaler would: through the cloud, not through the engine.

    Raises:
        SandboxError: if the cloud refuses.
    """
    known = [planned.name for planned in plan.pools]
    if pool not in known:
        message = f'{sandbox.stack} has no pool "{pool}".'
        raise SandboxError(message, f"Choose one of {', '.join(known)}.")
    cluster = plan.settings.cluster
    try:
        if isinstance(cluster, AksSettings):
            azure.scale_node_pool(sandbox.folder, cluster.name, pool, count)
        elif isinstance(cluster, MagnumSettings):
            scale_node_group(sandbox.folder, cluster.name, pool, count)
        else:
            machine_groups.scale(sandbox.existing_cluster, pool, count)
    except Refusal as error:
        raise SandboxError(str(error), "Choose a count within the pool's bounds.") from error


def check_nothing_left(engine: Engine) -> None:
    """Compare what is there after a destroy with what was there before.

    Raises:
        SandboxError: naming what is left.
    """
    sandbox = engine.sandbox
    left = [entry["urn"] for entry in engine.exported().get("resources") or []]
    left += lookup.everything(sandbox.folder)
    if (sandbox.existing_cluster / "cluster.json").exists():
        left += inventory.left_behind(sandbox.existing_cluster)
    if left:
        message = "After the destroy these are left:\n  " + "\n  ".join(left)
        raise SandboxError(message, "Run `make down` again; `make clean` throws the sandbox away.")


def _existing_id(sandbox: Sandbox, type_: str, inputs: Inputs) -> str | None:
    """The id under which a resource with these inputs exists, None if it does not."""
    package = type_.partition(":")[0]
    if package == "azure-native":
        return lookup.azure_id(sandbox.folder, type_, inputs)
    if package == "openstack":
        return lookup.magnum_id(sandbox.folder, type_, inputs)
    if package == "kubernetes":
        return _kubernetes_id(sandbox, type_, inputs)
    return None


def _kubernetes_id(sandbox: Sandbox, type_: str, inputs: Inputs) -> str | None:
    for folder in sandbox.clusters.iterdir() if sandbox.clusters.is_dir() else ():
        api = Api(clusters.load(folder).kubeconfig)
        if type_ == "kubernetes:helm.sh/v3:Release":
            namespace, name = inputs.get("namespace", "default"), inputs.get("name", "")
            labels = f"owner%3Dhelm%2Cname%3D{name}"
            if api.list(f"/api/v1/namespaces/{namespace}/secrets?labelSelector={labels}").get("items"):
                return f"{namespace}/{name}"
            continue
        metadata = inputs.get("metadata") or {}
        path = _object_path(api, type_, metadata)
        if path and api.get(path):
            return "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
    return None


def _object_path(api: Api, type_: str, metadata: Mapping[str, Any]) -> str | None:
    """Where the API server keeps an object of a type token such as ``kubernetes:apps/v1:DaemonSet``."""
    _, version, kind = type_.split(":")
    group_version = version.removeprefix("core/")
    prefix = f"/api/{group_version}" if version.startswith("core/") else f"/apis/{group_version}"
    try:
        resources = api.list(prefix)["resources"]
    except ApiError:
        return None
    plural = next((entry["name"] for entry in resources if entry["kind"] == kind and "/" not in entry["name"]), None)
    if plural is None or "name" not in metadata:
        return None
    namespace = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{prefix}{namespace}/{plural}/{metadata['name']}"
