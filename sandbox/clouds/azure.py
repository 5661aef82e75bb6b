"""Stand-in for Azure Resource Manager as far as resource groups, virtual networks, managed clusters and agent pools go.

A managed cluster is a simulated cluster (booted when it is created, erased when it is deleted); an agent
pool is a group of its machines (azure_machines). Records are in `<state>/cloud/azure.json`. What is refused is in azure_rules,
what is answered in azure_answers.

Labels and taints of a pool are one set each: what Azure puts in at first (a spot pool's) is in it, and a request that names
the set replaces it whole (Azure/AKS#3152); one that names none keeps it (cluster-api-provider-azure#2859).

A request answers when the thing is done, and another one meanwhile is refused; only that for an agent pool can be answered before
(azure_rest). An upgrade of a pool fails where the subscription's file says that its nodes cannot be emptied. A pool that has
failed keeps its version; what AKS shows of one was not to be read.

Deliberately not modelled: several subscriptions, and the spread of a pool over several zones (all its machines are in the first).
"""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sandbox.clouds import azure_beside as beside
from sandbox.clouds import azure_networks as networks
from sandbox.clouds import azure_observing as observing
from sandbox.clouds import azure_rules as rules
from sandbox.clouds import azure_versions as versions
from sandbox.clouds.azure_answers import not_found, show_cluster, show_group, show_pool, user_kubeconfig, version_of
from sandbox.clouds.azure_cluster_options import check_cluster_change, check_cluster_options, merged_cluster
from sandbox.clouds.azure_errors import AzureError
from sandbox.clouds.azure_ids import assignment_id, cluster_id, digest, group_id, network_id, parts, pool_id, window_id
from sandbox.clouds.azure_machines import machine_group
from sandbox.clouds.azure_pool_options import check_autoscalers, check_with_cluster
from sandbox.clouds.azure_subscription import Subscription, check_room, read_subscription
from sandbox.clouds.entra import Tenant
from sandbox.clouds.host import Host, simulated_host
from sandbox.clouds.records import Data, Records

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from sandbox.clouds.azure_observing import ObservingKind
    from sandbox.clouds.azure_rules import Body

#: What has no machines: kind of record -> ARM's type.
_BESIDE: Final = {
    "windows": "Microsoft.ContainerService/managedClusters/maintenanceConfigurations",
    "assignments": "Microsoft.Authorization/roleAssignments",
}
_PODS_OF_FLAT: Final = 30
_PODS_OF_SUBNET: Final = 110
_GROUP_NAME: Final = re.compile(r"[-\w.()]{0,89}[-\w()]")


def _has_metrics(body: Mapping[str, Any]) -> bool:
    metrics = (body.get("azureMonitorProfile") or {}).get("metrics") or {}
    return metrics.get("enabled") is True


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class AzureCloud:
    """The service. Every method may raise AzureError."""

    def __init__(self, state: Path, host: Host | None = None) -> None:
        """Open the records of a sandbox.

        Args:
            state: the sandbox's state folder.
            host: where clusters and machines come from; the simulated ones unless given.
        """
        self._state = state
        self._host = host or simulated_host()
        self._records = Records(
            state / "cloud" / "azure.json", ("groups", "networks", "clusters", "pools", "windows", "assignments", "observing")
        )
        self._tenant = Tenant(state)

    # ---------------------------------------------------------------- resource groups

    def put_group(self, name: str, body: Body) -> Body:
        """Create or change a resource group and return it."""
        if not _GROUP_NAME.fullmatch(name):
            message = f"The provided resource group name '{name}' has these invalid characters or is too long."
            raise AzureError(400, "InvalidResourceGroup", message)
        if not body.get("location"):
            raise AzureError(400, "LocationRequired", "The location property is required for this definition.")
        rules.check_location(body["location"], "resource group")
        key = group_id(name).lower()
        with self._records.change() as data:
            existing = data["groups"].get(key)
            if existing is not None and existing["body"]["location"] != body["location"]:
                raise AzureError(
                    409,
                    "InvalidResourceGroupLocation",
                    f"Invalid resource group location '{body['location']}'. The Resource group already exists in "
                    f"location '{existing['body']['location']}'.",
                )
            data["groups"][key] = {**(existing or {}), "name": name, "body": body}
        return self.get(group_id(name)) or {}

    def delete_group(self, name: str) -> None:
        """Delete a resource group and, as ARM does, everything in it."""
        key = group_id(name).lower()
        for cluster in [item for item in self._records.read()["clusters"].values() if item["group"] == key]:
            self.delete_cluster(name, cluster["name"])
        for network in [item for item in self._records.read()["networks"].values() if item["group"] == key]:
            self.delete_network(name, network["name"])
        with self._records.change() as data:
            for inside in [one for one, record in data["observing"].items() if observing.belongs_to(record, name)]:
                del data["observing"][inside]
            data["groups"].pop(key, None)

    # ---------------------------------------------------------------- virtual networks

    def put_network(self, group: str, name: str, body: Body) -> Body:
        """Create or change a virtual network with its subnets, and return it."""
        id_ = network_id(group, name)
        networks.check_network(name, body)
        with self._records.change() as data:
            self._require_group(data, group)
            existing = data["networks"].get(id_.lower())
            if existing:
                networks.check_network_change(id_, existing["body"], body, data["pools"].values())
            found = {"id": id_, "name": name, "group": group_id(group).lower(), "body": body}
            data["networks"][id_.lower()] = {**(existing or {}), **found}
        return self.get(id_) or {}

    def delete_network(self, group: str, name: str) -> None:
        """Delete a virtual network; one that does not exist is not an error."""
        id_ = network_id(group, name)
        with self._records.change() as data:
            network = data["networks"].get(id_.lower())
            if network:
                networks.check_network_change(id_, network["body"], None, data["pools"].values())
                del data["networks"][id_.lower()]

    # ---------------------------------------------------------------- managed clusters

    def put_cluster(self, group: str, name: str, body: Body) -> Body:
        """Create a managed cluster with its inline pools, or change it, and return it."""
        id_ = cluster_id(group, name)
        if id_.lower() in self._records.read()["clusters"]:
            return self._change_cluster(id_, body)
        rules.check_cluster(name, body)
        check_cluster_options(body)
        versions.check_new_cluster(name, body.get("kubernetesVersion"))
        version = versions.full(body.get("kubernetesVersion"))
        pools = {pool["name"]: _settled(pool, body) for pool in body["agentPoolProfiles"]}
        for pool_name, pool in pools.items():
            rules.check_pool(pool_name, pool, body["location"], self.subscription().offered)
            check_with_cluster(pool, body)
            versions.check_pool(pool.get("orchestratorVersion"), version, version)
        check_autoscalers(body, pools)
        folder = f"{re.sub(r'[^A-Za-z0-9-]', '-', name)}-{digest(id_)[:6]}"
        with self._records.change() as data:
            self._require_group(data, group)
            self._check_room(data, body["location"], pools)
            networks.check_pools(data["networks"].values(), pools)
            networks.check_addresses(data["networks"].values(), pools, body)
            self._refuse_busy(data, id_)
            data["clusters"][id_.lower()] = {
                "id": id_,
                "name": name,
                "group": group_id(group).lower(),
                "groupName": group,
                "folder": folder,
                "created": _now(),
                "state": "Creating",
                "version": version,
                "body": {key: value for key, value in body.items() if key != "agentPoolProfiles"},
            }
            for pool_name, pool in pools.items():
                record = _pool_record(id_, pool_name, pool, version, inline=True)
                data["pools"][pool_id(group, name, pool_name).lower()] = record
        try:
            self._boot(self._folder(folder), name, body)
            self._put_machines(id_)
        except BaseException:
            self._drop_cluster(id_)
            raise
        self._set_state(id_, "Succeeded")
        return self.get(id_) or {}

    def _change_cluster(self, id_: str, body: Body) -> Body:
        with self._records.change() as data:
            self._refuse_busy(data, id_)
            cluster = data["clusters"][id_.lower()]
            rules.check_cluster(cluster["name"], body)
            check_cluster_change(cluster["body"], body)
            wanted = merged_cluster(cluster["body"], {key: value for key, value in body.items() if value is not None})
            check_cluster_options(wanted)
            pools = {**_bodies(data, cluster), **{pool["name"]: pool for pool in body["agentPoolProfiles"]}}
            check_autoscalers(wanted, pools, both_before=_has_both(data, cluster))
            self._change_version(data, cluster, body)
            group, name = parts(id_)
            for profile in body["agentPoolProfiles"]:
                pool = data["pools"].get(pool_id(group, name, profile["name"]).lower())
                if pool is None:
                    message = (
                        "A new agent pool was introduced. Adding agent pools to an existing cluster is not allowed "
                        "through managed cluster operations. For agent pool specific change, please use per agent "
                        "pool operations: https://aka.ms/agent-pool-rest-api"
                    )
                    raise AzureError(400, "InvalidParameter", message, "agentPoolProfiles")
                _change_pool(pool, profile, cluster, self.subscription().offered)
            rules.check_entra_change(cluster["body"], body)
            wanted["location"] = cluster["body"]["location"]
            if body.get("aadProfile"):
                wanted["aadProfile"] = body["aadProfile"]
            cluster["body"] = {key: value for key, value in wanted.items() if key != "agentPoolProfiles"}
            folder, name, now = self._folder(cluster["folder"]), cluster["name"], cluster["body"]
            # An operation of the cluster is one of all its pools (pulumi-azure-native#4264).
            _set_states(data, id_, "Updating")
        if now.get("aadProfile") or _has_metrics(now):
            self._boot(folder, name, now)
        self._put_machines(id_)
        self._set_state(id_, "Succeeded")
        return self.get(id_) or {}

    def _boot(self, folder: Path, name: str, body: Body) -> None:
        """Start a cluster; one with Entra ID lets in whom its tenant lets in."""
        profile = body.get("aadProfile")
        if not profile:
            self._host.boot(folder, name)
        else:
            self._boot_with_entra(folder, name, profile)
        if _has_metrics(body):
            self._host.define(folder)

    def _boot_with_entra(self, folder: Path, name: str, profile: Mapping[str, Any]) -> None:
        groups = profile.get("adminGroupObjectIDs") or []
        self._tenant.join(groups)
        self._host.trust(folder, self._tenant.authority())
        self._host.boot(folder, name)
        self._host.administer(folder, groups)

    def _change_version(self, data: Data, cluster: dict[str, Any], body: Body) -> None:
        """Move the control plane on; the pools stay where they are."""
        wanted, running = body.get("kubernetesVersion"), version_of(cluster)
        pools = {pool["name"]: version_of(pool, cluster) for pool in _pools_of(data, cluster)}
        versions.check_control_plane(cluster["name"], running, wanted, pools.values())
        known = [profile for profile in body["agentPoolProfiles"] if profile["name"] in pools]
        asked = [profile.get("orchestratorVersion") for profile in known]
        versions.check_inline(asked, [pools[profile["name"]] for profile in known], len(pools), wanted)
        if wanted is not None and not running.startswith(f"{wanted}."):
            cluster["version"], cluster["versionSince"] = versions.full(wanted), datetime.now(UTC).isoformat()

    def delete_cluster(self, group: str, name: str) -> None:
        """Delete a managed cluster with all its pools; one that does not exist is not an error."""
        id_ = cluster_id(group, name)
        with self._records.change() as data:
            cluster = data["clusters"].get(id_.lower())
            if cluster is None:
                return
            cluster["state"] = "Deleting"
        self._drop_cluster(id_)

    def _drop_cluster(self, id_: str) -> None:
        cluster = self._records.read()["clusters"][id_.lower()]
        self._host.erase(self._folder(cluster["folder"]))
        with self._records.change() as data:
            data["clusters"].pop(id_.lower(), None)
            for table in ("windows", "observing"):
                for key in [key for key in data[table] if key.startswith(f"{id_.lower()}/")]:
                    del data[table][key]
            for key in [key for key, pool in data["pools"].items() if pool["cluster"] == id_.lower()]:
                del data["pools"][key]

    def give(self, group: str, network: tuple[str, Body], cluster: tuple[str, Body]) -> Path:
        """Have a cluster that no stack makes: it was there before, and is the sandbox's own afterwards.

        Args:
            group: the resource group of all.
            network: name and properties of the virtual network that it lies in.
            cluster: name and properties.

        Returns:
            Its folder.
        """
        id_ = cluster_id(group, cluster[0])
        if self.get(id_) is None:
            self._give(group, network, cluster)
        return self._folder(self._records.read()["clusters"][id_.lower()]["folder"])

    def _give(self, group: str, network: tuple[str, Body], cluster: tuple[str, Body]) -> None:
        self.put_group(group, {"location": cluster[1]["location"]})
        self.put_network(group, *network)
        self.put_cluster(group, *cluster)
        theirs = [pool_id(group, cluster[0], pool["name"]) for pool in cluster[1]["agentPoolProfiles"]]
        for id_ in (group_id(group), network_id(group, network[0]), cluster_id(group, cluster[0]), *theirs):
            self.belongs_to_others(id_)

    def credentials(self, group: str, name: str, *, admin: bool) -> str:
        """The kubeconfig of a cluster, base64, as listCluster...Credentials returns it.

        With Entra ID that of a user says how to log in; without, it is an administrator's, too (azure-aks-docs,
        control-kubeconfig-access).
        """
        cluster = self._records.read()["clusters"].get(cluster_id(group, name).lower())
        if cluster is None:
            raise not_found(f"managedClusters/{name}", group)
        body = cluster["body"]
        if admin and body.get("disableLocalAccounts"):
            message = "Getting static credential is not allowed because this cluster is set to disable local accounts."
            raise AzureError(400, "BadRequest", message)
        running = self._host.load(self._folder(cluster["folder"]))
        if body.get("aadProfile") and not admin:
            text = user_kubeconfig(cluster, running).encode()
        else:
            text = running.kubeconfig.read_bytes()
        return base64.b64encode(text).decode()

    # ---------------------------------------------------------------- agent pools

    def put_pool(self, group: str, cluster_name: str, name: str, body: Body) -> Body:
        """Create an agent pool or change it, and return it."""
        self.begin_pool(group, cluster_name, name, body)()
        return self.get(pool_id(group, cluster_name, name)) or {}

    def begin_pool(self, group: str, cluster_name: str, name: str, body: Body) -> Callable[[], None]:
        """Take a request for an agent pool.

        Returns:
            The rest of the work, which may fail; the pool is not to be changed meanwhile.
        """
        parent, id_ = cluster_id(group, cluster_name), pool_id(group, cluster_name, name)
        with self._records.change() as data:
            cluster = data["clusters"].get(parent.lower())
            if cluster is None:
                raise AzureError(
                    404,
                    "ParentResourceNotFound",
                    f"Failed to perform 'write' on resource(s) of type 'managedClusters/agentPools', because the "
                    f"parent resource '{parent}' could not be found.",
                )
            existing = data["pools"].get(id_.lower())
            # Of a pool that is not there yet none is in progress: the others may be made at the same time.
            self._refuse_busy(data, parent, [existing] if existing else [])
            if existing is None:
                settled = _settled(body, cluster["body"])
                rules.check_pool(name, settled, cluster["body"]["location"], self.subscription().offered)
                check_with_cluster(settled, cluster["body"])
                beside = _bodies(data, cluster)
                check_autoscalers(cluster["body"], {name: settled}, both_before=_has_both(data, cluster))
                self._check_room(data, cluster["body"]["location"], {name: settled})
                networks.check_pools(data["networks"].values(), {**beside, name: settled})
                networks.check_addresses(data["networks"].values(), {**beside, name: settled}, cluster["body"])
                version = settled.get("orchestratorVersion")
                versions.check_pool(version, None, version_of(cluster))
                version = versions.resolved(version, version_of(cluster)) if version else version_of(cluster)
                data["pools"][id_.lower()] = _pool_record(parent, name, settled, version, inline=False)
            else:
                _refuse_last_system(data, existing, body.get("mode", "User"))
                before, running = existing["count"], version_of(existing, cluster)
                check_autoscalers(cluster["body"], {name: body}, both_before=_has_both(data, cluster))
                _change_pool(existing, body, cluster, self.subscription().offered)
                # Its nodes get it in the rest of the work.
                existing["reaching"], existing["version"] = version_of(existing, cluster), running
                if existing["count"] > before:
                    grown = {**existing["body"], "count": existing["count"]}
                    self._check_room(data, cluster["body"]["location"], {name: grown}, id_)
                existing["state"] = "Updating"
        return partial(self._finish_pool, parent, id_)

    def _finish_pool(self, parent: str, id_: str) -> None:
        blocked = None
        with self._records.change() as data:
            pool = data["pools"][id_.lower()]
            if _is_upgraded(pool) and pool["name"] in self.subscription().blocked:
                pool["state"], blocked = "Failed", _drain_failure(pool["name"])
        if blocked:
            raise blocked
        self._put_machines(parent, only=id_)
        with self._records.change() as data:
            pool = data["pools"][id_.lower()]
            _reach(pool)
            pool["state"] = "Succeeded"

    def delete_pool(self, group: str, cluster_name: str, name: str) -> None:
        """Delete an agent pool; one that does not exist is not an error."""
        id_ = pool_id(group, cluster_name, name)
        with self._records.change() as data:
            pool = data["pools"].get(id_.lower())
            if pool is None:
                return
            self._refuse_busy(data, pool["cluster"], [pool])
            _refuse_last_system(data, pool, None)
            pool["state"] = "Deleting"
        self._drop_pool(id_)

    def _drop_pool(self, id_: str) -> None:
        data = self._records.read()
        pool = data["pools"][id_.lower()]
        self._host.remove(self._folder(data["clusters"][pool["cluster"]]["folder"]), pool["name"])
        with self._records.change() as changed:
            changed["pools"].pop(id_.lower(), None)

    def scale(self, cluster_name: str, pool_name: str, count: int) -> None:
        """Set the number of nodes of a pool, as the cluster autoscaler or `az aks nodepool scale` does.

        Args:
            cluster_name: name of the managed cluster.
            pool_name: name of the agent pool.
            count: nodes wanted; within min and max where the pool is autoscaled.
        """
        with self._records.change() as data:
            pool = _find_pool(data, cluster_name, pool_name)
            body = {**pool["body"], "count": count}
            location = data["clusters"][pool["cluster"]]["body"]["location"]
            rules.check_pool(pool_name, body, location, self.subscription().offered)
            if count > pool["count"]:
                self._check_room(data, location, {pool_name: body}, pool["id"])
            pool["count"] = count
            if not body.get("enableAutoScaling"):
                # Nobody but the request for the pool has set it, so the next one that says another number changes it.
                pool["body"] = body
            cluster, id_ = data["clusters"][pool["cluster"]]["id"], pool["id"]
        self._put_machines(cluster, only=id_)

    def raise_image(self, cluster_name: str, pool_name: str, image: str) -> None:
        """Show a newer image of a pool's nodes, as after an upgrade by Azure's channel; the simulated nodes have none."""
        with self._records.change() as data:
            _find_pool(data, cluster_name, pool_name)["image"] = image

    # ---------------------------------------------------------------- beside a cluster

    def put_window(self, group: str, cluster_name: str, name: str, body: Body) -> Body:
        """Create or change a maintenance window, and return it."""
        beside.check_window(name, body)
        parent, id_ = cluster_id(group, cluster_name), window_id(group, cluster_name, name)
        with self._records.change() as data:
            if parent.lower() not in data["clusters"]:
                raise not_found(f"managedClusters/{cluster_name}", group)
            data["windows"][id_.lower()] = {"id": id_, "name": name, "body": body}
        return self.get(id_) or {}

    def delete_window(self, group: str, cluster_name: str, name: str) -> None:
        """Delete a maintenance window; one that does not exist is not an error."""
        with self._records.change() as data:
            data["windows"].pop(window_id(group, cluster_name, name).lower(), None)

    def put_assignment(self, scope: str, name: str, body: Body) -> Body:
        """Create a role assignment, and return it."""
        id_ = assignment_id(scope, name)
        with self._records.change() as data:
            old = data["assignments"].get(id_.lower())
            beside.check_assignment(name, body, old and old["body"])
            data["assignments"][id_.lower()] = {"id": id_, "name": name, "body": {**body, "scope": scope}}
        return self.get(id_) or {}

    def delete_assignment(self, scope: str, name: str) -> None:
        """Delete a role assignment; one that does not exist is not an error."""
        with self._records.change() as data:
            data["assignments"].pop(assignment_id(scope, name).lower(), None)

    # ---------------------------------------------------------------- Azure Monitor and Managed Grafana

    def put_observing(self, kind: ObservingKind, parent: str, name: str, body: Body) -> Body:
        """Create or change what collects, evaluates or shows metrics, and return it."""
        id_ = observing.id_of(kind, parent, name)
        observing.check(kind, parent, body, lambda other: self.get(other) is not None)
        with self._records.change() as data:
            if kind is not observing.ASSOCIATION:
                self._require_group(data, parent)
                rules.check_location(body["location"], kind.type)
            data["observing"][id_.lower()] = {"id": id_, "name": name, "type": kind.type, "body": body}
        return self.get(id_) or {}

    def delete_observing(self, kind: ObservingKind, parent: str, name: str) -> None:
        """Delete it; what does not exist is not an error."""
        with self._records.change() as data:
            data["observing"].pop(observing.id_of(kind, parent, name).lower(), None)

    # ---------------------------------------------------------------- all resources

    def get(self, id_: str) -> Body | None:
        """A resource as ARM returns it, None where it does not exist."""
        data, key = self._records.read(), id_.lower()
        if key in data["groups"]:
            return show_group(data["groups"][key])
        if key in data["networks"]:
            return networks.shown(data["networks"][key])
        if key in data["clusters"]:
            return show_cluster(data, data["clusters"][key])
        for kind, type_ in _BESIDE.items():
            if key in data[kind]:
                record = data[kind][key]
                return {"id": record["id"], "name": record["name"], "type": type_, **record["body"]}
        if key in data["pools"]:
            pool = data["pools"][key]
            return show_pool(pool, data["clusters"][pool["cluster"]])
        return observing.shown(data["observing"][key]) if key in data["observing"] else None

    def recover(self) -> None:
        """Bring the records in order after a kill, and start the clusters that should run.

        What was being created is undone: nobody was told of it. What was being deleted is deleted. What was being changed is.
        """
        for cluster in self._records.read()["clusters"].values():
            if cluster["state"] in {"Creating", "Deleting"}:
                self._drop_cluster(cluster["id"])
        for pool in self._records.read()["pools"].values():
            if pool["state"] in {"Creating", "Deleting"}:
                self._drop_pool(pool["id"])
        with self._records.change() as data:
            for pool in data["pools"].values():
                _reach(pool)
        for cluster in self._records.read()["clusters"].values():
            self._boot(self._folder(cluster["folder"]), cluster["name"], cluster["body"])
            self._put_machines(cluster["id"])
            self._set_state(cluster["id"], "Succeeded")

    def made(self) -> set[str]:
        """The ids of what was asked for, in lower case; pools in their cluster's request, and what is others', left out."""
        data = self._records.read()
        return {key for table in data.values() for key, one in table.items() if not one.get("inline") and not one.get("others")}

    def belongs_to_others(self, id_: str) -> None:
        """Say that somebody else has made it: no stack need know of it, and none takes it away."""
        with self._records.change() as data:
            for table in data.values():
                if id_.lower() in table:
                    table[id_.lower()]["others"] = True

    def remove_unknown(self, known: Collection[str]) -> None:
        """Delete what no stack knows, made for an engine that never heard of it.

        Args:
            known: the ids in the engine's state.
        """
        data = self._records.read()
        kept = {id_.lower() for id_ in known} | {
            key for table in data.values() for key, one in table.items() if one.get("others")
        }
        for key in data["clusters"].keys() - kept:
            self._drop_cluster(data["clusters"][key]["id"])
        for key, pool in self._records.read()["pools"].items():
            if key not in kept and not pool["inline"]:
                self._drop_pool(pool["id"])
        for kind, delete in (("windows", self.delete_window), ("assignments", self.delete_assignment)):
            for key in self._records.read()[kind].keys() - kept:
                delete(*parts(data[kind][key]["id"]))
        with self._records.change() as changed:
            for key in changed["observing"].keys() - kept:
                del changed["observing"][key]
        for key in data["networks"].keys() - kept:
            self.delete_network(*parts(data["networks"][key]["id"]))
        for key in data["groups"].keys() - kept:
            self.delete_group(data["groups"][key]["name"])

    def read(self) -> Data:
        """All records as they are now; changing the result changes nothing."""
        return self._records.read()

    def subscription(self) -> Subscription:
        """What the subscription may have; a file that is changed counts from the next question on."""
        return read_subscription(self._state)

    # ---------------------------------------------------------------- inner workings

    def _folder(self, name: str) -> Path:
        return self._state / "clusters" / name

    def _require_group(self, data: Data, group: str) -> None:
        if group_id(group).lower() not in data["groups"]:
            raise AzureError(404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found.")

    def _check_room(self, data: Data, region: str, pools: Mapping[str, Body], own: str = "") -> None:
        """Refuse pools for which the subscription has no size, zone or quota; a pool that grows does not count beside itself."""
        there = {key for key, cluster in data["clusters"].items() if cluster["body"]["location"] == region}
        others = [one for key, one in data["pools"].items() if one["cluster"] in there and key != own.lower()]
        subscription = self.subscription()
        for name, body in pools.items():
            check_room(subscription, name, body, region, others)
            others.append({"body": body, "count": body["count"]})

    def _refuse_busy(self, data: Data, id_: str, pools: Collection[dict[str, Any]] | None = None) -> None:
        """One operation at a time on a cluster and on each pool; one of the cluster (None) is one of all pools (both seen)."""
        cluster = data["clusters"].get(id_.lower())
        if cluster is None:
            return
        if cluster["state"] != "Succeeded":
            message = (
                f"Operation is not allowed because there's an in progress {cluster['state'].lower()} managed cluster "
                f"operation on the managed cluster {cluster['name']}. Please wait for it to finish before starting a "
                "new operation. See https://aka.ms/aks-pending-operation for more details"
            )
            raise AzureError(409, "OperationNotAllowed", message)
        for other in _pools_of(data, cluster) if pools is None else pools:
            # One that has failed is asked for again.
            if other["state"] not in {"Succeeded", "Failed"}:
                message = (
                    f"Another agentpool operation ({other['name']} - {other['state']}) is in progress, please wait for it to "
                    "finish before starting a new operation. See https://aka.ms/aks-pending-operation for more details"
                )
                raise AzureError(409, "OperationNotAllowed", message)

    def _set_state(self, id_: str, state: str) -> None:
        with self._records.change() as data:
            _set_states(data, id_, state)

    def _put_machines(self, id_: str, only: str | None = None) -> None:
        data = self._records.read()
        cluster = data["clusters"][id_.lower()]
        folder = self._folder(cluster["folder"])
        for key, pool in data["pools"].items():
            if pool["cluster"] == id_.lower() and (only is None or key == only.lower()):
                self._host.put(folder, machine_group(cluster, pool, self.subscription().offered))


def scale_node_pool(state: Path, cluster: str, pool: str, count: int) -> None:
    """Act as the cluster autoscaler of a sandbox's managed cluster.

    Args:
        state: the sandbox's state folder.
        cluster: name of the managed cluster.
        pool: name of the agent pool.
        count: nodes wanted.

    Raises:
        AzureError: there is no such pool, or the count is outside what the pool allows.
    """
    AzureCloud(state).scale(cluster, pool, count)


def _settled(body: Body, cluster: Body) -> Body:
    """A new pool's properties with what AKS fills in, some of it by its cluster."""
    given = {key: value for key, value in body.items() if value is not None and key != "name"}
    settled = {**rules.POOL_DEFAULTS, "vmSize": rules.DEFAULT_VM_SIZE, **_max_pods(body, cluster), **given}
    if "count" not in settled:
        settled["count"] = settled.get("minCount", 1) if settled["enableAutoScaling"] else 1
    if settled.get("scaleSetPriority") == "Spot":
        settled.setdefault("spotMaxPrice", -1)
        settled.setdefault("scaleSetEvictionPolicy", "Delete")
        taints = settled.get("nodeTaints") or []
        settled["nodeLabels"] = {**(settled.get("nodeLabels") or {}), rules.SPOT_KEY: "spot"}
        settled["nodeTaints"] = taints if rules.SPOT_TAINT in taints else [*taints, rules.SPOT_TAINT]
    return settled


def _max_pods(body: Body, cluster: Body) -> Body:
    """By the network of the cluster (azure-aks-docs, concepts-network-ip-address-planning); nothing said is overlay here."""
    profile = cluster.get("networkProfile") or {}
    if profile.get("networkPlugin") in {None, "none"} or profile.get("networkPluginMode") == "overlay":
        return {}
    flat = profile["networkPlugin"] == "azure" and not body.get("podSubnetID")
    return {"maxPods": _PODS_OF_FLAT if flat else _PODS_OF_SUBNET}


def _pool_record(cluster: str, name: str, body: Body, version: str, *, inline: bool) -> dict[str, Any]:
    group, cluster_name = parts(cluster)
    return {
        "id": pool_id(group, cluster_name, name),
        "name": name,
        "cluster": cluster.lower(),
        "inline": inline,
        "state": "Creating",
        "count": body["count"],
        "version": version,
        "body": body,
    }


def _is_upgraded(pool: dict[str, Any]) -> bool:
    return "reaching" in pool and bool(pool["reaching"] != pool["version"])


def _reach(pool: dict[str, Any]) -> None:
    """Give a pool the version that it was on the way to."""
    if _is_upgraded(pool):
        pool["version"], pool["versionSince"] = pool["reaching"], datetime.now(UTC).isoformat()
    pool.pop("reaching", None)


def _drain_failure(name: str) -> AzureError:
    """A node that cannot be emptied; seen."""
    message = (
        f"Drain node aks-{name}-vmss000000 failed when evicting pod coredns failed with Too Many Requests error. This is often "
        "caused by a restrictive Pod Disruption Budget (PDB) policy. See http://aka.ms/aks/debugdrainfailures."
    )
    return AzureError(400, "UpgradeFailed", message)


def _pools_of(data: Data, cluster: dict[str, Any]) -> list[dict[str, Any]]:
    return [pool for pool in data["pools"].values() if pool["cluster"] == cluster["id"].lower()]


def _set_states(data: Data, id_: str, state: str) -> None:
    cluster = data["clusters"][id_.lower()]
    for record in (cluster, *_pools_of(data, cluster)):
        record["state"] = state


def _change_pool(pool: dict[str, Any], body: Body, cluster: dict[str, Any], offered: rules.Offered) -> None:
    """Apply a PUT to a pool's record. An unchanged count does not undo what the autoscaler did."""
    old, location = pool["body"], cluster["body"]["location"]
    new = {key: value for key, value in body.items() if value is not None and key != "name"}
    rules.check_pool_change(old, new)
    version = new.get("orchestratorVersion")
    versions.check_pool(version, version_of(pool, cluster), version_of(cluster))
    recreated = {key: old[key] for key in old if key not in {"minCount", "maxCount", "tags"}}
    merged = {**recreated, "enableAutoScaling": False, **new}
    if new.get("upgradeSettings") is not None:
        # What a request leaves out stays as it was (azure-rest-api-specs#27373).
        merged["upgradeSettings"] = {**(old.get("upgradeSettings") or {}), **new["upgradeSettings"]}
    count = pool["count"] if merged["count"] == old["count"] else merged["count"]
    if merged["enableAutoScaling"] and merged["count"] == old["count"]:
        low, high = merged.get("minCount", count), merged.get("maxCount", count)
        count = max(low, min(high, count))
    rules.check_pool(pool["name"], {**merged, "count": count}, location, offered)
    check_with_cluster(merged, cluster["body"])
    pool["body"], pool["count"] = merged, count
    if version is not None and not version_of(pool, cluster).startswith(f"{version}."):
        pool["version"] = versions.resolved(version, version_of(cluster))


def _bodies(data: Data, cluster: dict[str, Any]) -> dict[str, Body]:
    """Name -> properties of each pool of a cluster."""
    return {pool["name"]: pool["body"] for pool in _pools_of(data, cluster)}


def _has_both(data: Data, cluster: dict[str, Any]) -> bool:
    """Whether a cluster has node auto-provisioning and an autoscaled pool already."""
    provisioning = (cluster["body"].get("nodeProvisioningProfile") or {}).get("mode") == "Auto"
    return provisioning and any(pool.get("enableAutoScaling") for pool in _bodies(data, cluster).values())


def _refuse_last_system(data: Data, pool: dict[str, Any], new_mode: str | None) -> None:
    """Refuse that the cluster is left without a System pool (both texts were seen)."""
    if pool["body"]["mode"] != "System" or new_mode == "System":
        return
    others = [item for item in data["pools"].values() if item["cluster"] == pool["cluster"] and item is not pool]
    if not others:
        raise AzureError(400, "OperationNotAllowed", "There has to be at least one agent pool.")
    if not any(item["body"]["mode"] == "System" for item in others):
        raise AzureError(400, "OperationNotAllowed", "There has to be at least one system agent pool.")


def _find_pool(data: Data, cluster_name: str, pool_name: str) -> dict[str, Any]:
    for pool in data["pools"].values():
        if pool["name"] == pool_name and data["clusters"][pool["cluster"]]["name"] == cluster_name:
            found: dict[str, Any] = pool
            return found
    raise not_found(f"managedClusters/{cluster_name}/agentPools/{pool_name}", "")
