"""Stand-in for OpenStack Magnum: cluster templates, clusters, node groups, and its way of losing operations.

A cluster is a simulated cluster; a node group is a group of its machines, with the labels and taints that
the chosen driver puts on nodes and no others. Records are in `<state>/cloud/magnum.json`, what the other
services know in `<state>/cloud/openstack-seed.json`. What is refused is in magnum_rules.

Magnum's API accepts a second operation on a cluster while one runs; what then becomes of it is the
conductor's and the driver's affair. Here: a node group created meanwhile ends CREATE_FAILED (heat,
capi-helm) or is lost (magnum-cluster-api), a changed cluster stays as it was, a delete goes through. An
operation takes about a second, so that this happens to whoever does not chain them.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sandbox.clouds import magnum_rules as rules
from sandbox.clouds.host import Host, simulated_host
from sandbox.clouds.magnum_rules import MagnumError
from sandbox.clouds.records import Data, Records
from sandbox.machine_groups import MachineGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from sandbox.clouds.host import RunningCluster

PROJECT: Final = "00000000000000000000000000000aaa"
USER: Final = "00000000000000000000000000000bbb"
REGION: Final = "RegionOne"
KUBERNETES_VERSION: Final = "v1.36.3"
MASTER_GROUP: Final = "default-master"
WORKER_GROUP: Final = "default-worker"
OPERATION_SECONDS: Final = 1.0
_BASE32: Final = "abcdefghijklmnopqrstuvwxyz234567"
_NAMESPACE: Final = uuid.UUID("0d9e3c1a-4b0f-4a67-9f58-1f1f4a7be0aa")
_CONTROL_PLANE_TAINT: Final = {"key": "node-role.kubernetes.io/control-plane", "value": "", "effect": "NoSchedule"}

Values = dict[str, Any]
"""Properties as the plugin names them: plain, camelCase."""


@dataclass(frozen=True)
class Outcome:
    """Where an accepted operation ended.

    Attributes:
        id: what it was about.
        status: Magnum's status; DELETE_COMPLETE for what cannot be found.
    """

    id: str
    status: str


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cluster_of(group_id: str) -> str:
    return group_id.partition("/")[0]


def _stable_suffix(text: str, length: int) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_BASE32[byte % len(_BASE32)] for byte in digest[:length])


class MagnumCloud:
    """The service. Every method may raise MagnumError."""

    def __init__(
        self,
        state: Path,
        host: Host | None = None,
        *,
        driver: str = rules.HEAT,
        operation_seconds: float = OPERATION_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Open the records of a sandbox.

        Args:
            state: the sandbox's state folder.
            host: where clusters and machines come from; the simulated ones unless given.
            driver: one of magnum_rules.DRIVERS.
            operation_seconds: how long an operation on a node group takes.
            sleep: what waits that long.

        Raises:
            ValueError: no such driver.
        """
        if driver not in rules.DRIVERS:
            message = f"Magnum driver {driver!r} is none of {', '.join(rules.DRIVERS)}"
            raise ValueError(message)
        self._state = state
        self._host = host or simulated_host()
        self._driver = driver
        self._seconds = operation_seconds
        self._sleep = sleep
        self._records = Records(state / "cloud" / "magnum.json", ("templates", "clusters", "groups"))
        self._busy: set[str] = set()
        self._busy_lock = threading.Lock()

    def _seed(self) -> rules.Seed:
        return rules.read_seed(self._state / "cloud" / "openstack-seed.json")

    # ---------------------------------------------------------------- cluster templates

    def create_template(self, values: Values) -> str:
        """Create a cluster template and return its id."""
        rules.check_template(values, self._seed(), self._driver)
        id_ = str(uuid.uuid4())
        with self._records.change() as data:
            data["templates"][id_] = {**values, "createdAt": _now()}
        return id_

    def update_template(self, id_: str, values: Values) -> None:
        """Replace a template's properties, unless a cluster uses it."""
        with self._records.change() as data:
            self._template(data, id_)
            self._refuse_referenced(data, id_)
            rules.check_template(values, self._seed(), self._driver)
            data["templates"][id_] = {**values, "createdAt": data["templates"][id_]["createdAt"], "updatedAt": _now()}

    def delete_template(self, id_: str) -> None:
        """Delete a template, unless a cluster uses it; one that is gone is no error."""
        with self._records.change() as data:
            self._refuse_referenced(data, id_)
            data["templates"].pop(id_, None)

    def template(self, id_: str) -> Values | None:
        """A template as the plugin shows it."""
        found = self._all_templates(self._records.read()).get(id_)
        return None if found is None else _show_template(found)

    def find_template(self, name: str) -> tuple[str, Values]:
        """The one template of that name or id."""
        id_ = self._template(self._records.read(), name)
        return id_, self.template(id_) or {}

    def _all_templates(self, data: Data) -> dict[str, Values]:
        """The templates made here and those that the cloud's operators made (the seed's)."""
        given = {
            str(uuid.uuid5(_NAMESPACE, name)): {"coe": "kubernetes", "public": True, **values, "name": name}
            for name, values in self._seed().templates.items()
        }
        return {**given, **data["templates"]}

    def _template(self, data: Data, name_or_id: str) -> str:
        templates = self._all_templates(data)
        if name_or_id in templates:
            return name_or_id
        named = [id_ for id_, values in templates.items() if values.get("name") == name_or_id]
        if not named:
            raise MagnumError(404, f"ClusterTemplate {name_or_id} could not be found.")
        if len(named) > 1:
            message = "Multiple ClusterTemplates exist with same name. Please use the clustertemplate uuid instead."
            raise MagnumError(409, message)
        return named[0]

    def _refuse_referenced(self, data: Data, id_: str) -> None:
        if any(cluster["values"]["clusterTemplateId"] == id_ for cluster in data["clusters"].values()):
            raise MagnumError(400, f"ClusterTemplate {id_} is referenced by one or multiple clusters.")

    # ---------------------------------------------------------------- clusters

    def create_cluster(self, values: Values) -> Outcome:
        """Create a cluster with its two default node groups; returns when it is CREATE_COMPLETE."""
        id_ = str(uuid.uuid4())
        with self._records.change() as data:
            template_id = self._template(data, values["clusterTemplateId"])
            template = self._all_templates(data)[template_id]
            rules.check_cluster(values, template, self._seed(), self._driver)
            settled = _settled_cluster(values, template_id, template)
            data["clusters"][id_] = {
                "values": settled,
                "folder": f"{_dns(settled['name'])}-{id_[:6]}",
                "status": "CREATE_IN_PROGRESS",
                "createdAt": _now(),
                "apiAddress": "",
                "stackId": str(uuid.uuid4()),
                "driver": self._driver,
            }
            for group in _default_groups(settled):
                data["groups"][f"{id_}/{uuid.uuid4()}"] = {**group, "status": "CREATE_IN_PROGRESS"}
        try:
            running = self._host.boot(self._folder(id_), settled["name"])
            self._put_machines(id_)
        except BaseException:
            self._drop_cluster(id_)
            raise
        with self._records.change() as data:
            data["clusters"][id_].update(status="CREATE_COMPLETE", apiAddress=running.server)
            for key in self._group_keys(data, id_):
                data["groups"][key]["status"] = "CREATE_COMPLETE"
        return Outcome(id_, "CREATE_COMPLETE")

    def update_cluster(self, id_: str, *, node_count: int | None = None, template_id: str | None = None) -> Outcome:
        """Resize the default workers, or move to another template (upgrade); dropped while the cluster is busy."""
        with self._operation(id_) as free:
            with self._records.change() as data:
                cluster = self._cluster(data, id_)
                if not free:
                    return Outcome(id_, cluster["status"])
                if template_id is not None:
                    cluster["values"]["clusterTemplateId"] = self._template(data, template_id)
                if node_count is not None:
                    worker = self._default_worker(data, id_)
                    rules.check_resize(data["groups"][worker], node_count)
                    data["groups"][worker]["nodeCount"] = node_count
                    cluster["values"]["nodeCount"] = node_count
                cluster.update(status="UPDATE_COMPLETE", updatedAt=_now())
            self._put_machines(id_)
        return Outcome(id_, "UPDATE_COMPLETE")

    def delete_cluster(self, id_: str) -> Outcome:
        """Delete a cluster with everything in it; one that is gone is no error."""
        with self._records.change() as data:
            if id_ not in data["clusters"]:
                return Outcome(id_, "DELETE_COMPLETE")
            data["clusters"][id_]["status"] = "DELETE_IN_PROGRESS"
        self._drop_cluster(id_)
        return Outcome(id_, "DELETE_COMPLETE")

    def _drop_cluster(self, id_: str) -> None:
        self._host.erase(self._folder(id_))
        with self._records.change() as data:
            for key in self._group_keys(data, id_):
                del data["groups"][key]
            data["clusters"].pop(id_, None)

    def cluster(self, id_: str) -> Values | None:
        """A cluster as the plugin shows it, without its kubeconfig."""
        data = self._records.read()
        cluster = data["clusters"].get(id_)
        if cluster is None:
            return None
        groups = [data["groups"][key] for key in self._group_keys(data, id_)]
        masters = sum(group["nodeCount"] for group in groups if group["role"] == "master")
        workers = sum(group["nodeCount"] for group in groups if group["role"] != "master")
        values = {**cluster["values"], "nodeCount": data["groups"][self._default_worker(data, id_)]["nodeCount"]}
        return {
            **values,
            "apiAddress": cluster["apiAddress"],
            "coeVersion": values["labels"].get("kube_tag", KUBERNETES_VERSION),
            "containerVersion": "",
            "createdAt": cluster["createdAt"],
            "updatedAt": cluster.get("updatedAt", ""),
            "masterAddresses": [f"10.0.0.{4 + index}" for index in range(masters)],
            "nodeAddresses": [f"10.0.1.{4 + index}" for index in range(workers)],
            "projectId": PROJECT,
            "userId": USER,
            "stackId": cluster["stackId"],
            "discoveryUrl": "",
        }

    def kubeconfig(self, id_: str) -> tuple[RunningCluster, str]:
        """The running cluster and its kubeconfig."""
        cluster = self._host.load(self._folder(id_))
        return cluster, cluster.kubeconfig.read_text(encoding="utf-8")

    # ---------------------------------------------------------------- node groups

    def create_group(self, cluster_id: str, values: Values) -> Outcome:
        """Create a node group; the outcome says where it ended once the API had accepted it."""
        id_ = f"{cluster_id}/{uuid.uuid4()}"
        with self._operation(cluster_id) as free:
            with self._records.change() as data:
                cluster = self._cluster(data, cluster_id)
                settled = self._settled_group(data, cluster_id, values)
                fails = settled["imageId"] not in self._seed().images
                if not cluster["apiAddress"]:
                    raise MagnumError(409, "Cluster API address is not available yet")
                if not free and self._driver == rules.CLUSTER_API:
                    return Outcome(id_, "DELETE_COMPLETE")
                status = "CREATE_IN_PROGRESS" if free and not fails else "CREATE_FAILED"
                data["groups"][id_] = {**settled, "status": status, "createdAt": _now()}
            if status == "CREATE_FAILED":
                return Outcome(id_, status)
            self._sleep(self._seconds)
            self._put_machines(cluster_id, only=id_)
            return self._end(id_, "CREATE_COMPLETE")

    def _settled_group(self, data: Data, cluster_id: str, values: Values) -> Values:
        cluster = data["clusters"][cluster_id]["values"]
        template = self._all_templates(data)[cluster["clusterTemplateId"]]
        given = {key: value for key, value in values.items() if value is not None}
        settled: Values = {
            "role": "worker",
            "nodeCount": 1,
            "minNodeCount": 0,
            "flavorId": cluster["flavor"],
            "imageId": template["image"],
            **given,
            "labels": rules.effective_labels(cluster["labels"], given.get("labels"), merge=bool(given.get("mergeLabels"))),
            "default": False,
        }
        if any(data["groups"][key]["name"] == settled["name"] for key in self._group_keys(data, cluster_id)):
            message = f"A node group with name {settled['name']} already exists in the cluster {cluster['name']}."
            raise MagnumError(409, message)
        rules.check_group(settled, self._seed(), self._driver)
        return settled

    def update_group(self, id_: str, *, limits: Mapping[str, int | None], node_count: int | None) -> Outcome:
        """Change a group's limits (PATCH), then its size (resize).

        Args:
            id_: `<cluster>/<group>`.
            limits: minNodeCount, maxNodeCount as far as they change.
            node_count: the new size, None to leave it.
        """
        with self._records.change() as data:
            group = self._group(data, id_)
            if limits:
                # The plugin patches before it resizes, so the limits are judged by the size of before.
                rules.check_bounds({**group, **limits})
                group.update(limits)
            group["updatedAt"] = _now()
        if node_count is not None:
            self._resize(id_, node_count)
        return Outcome(id_, "UPDATE_COMPLETE")

    def _resize(self, id_: str, count: int) -> None:
        with self._records.change() as data:
            group = self._group(data, id_)
            rules.check_resize(group, count)
            group["nodeCount"] = count
        self._put_machines(_cluster_of(id_), only=id_)

    def upgrade_group_image(self, id_: str, image: str) -> None:
        """Move a group to another image."""
        with self._records.change() as data:
            self._group(data, id_).update(imageId=image, updatedAt=_now())

    def delete_group(self, id_: str) -> Outcome:
        """Delete a node group, whatever else runs; one that is gone is DELETE_COMPLETE."""
        with self._operation(_cluster_of(id_)):
            with self._records.change() as data:
                group = data["groups"].get(id_)
                if group is None:
                    return Outcome(id_, "DELETE_COMPLETE")
                if group["default"]:
                    raise MagnumError(400, "Deleting a default nodegroup is not supported.")
                group["status"] = "DELETE_IN_PROGRESS"
            self._sleep(self._seconds)
            self._drop_group(id_)
        return Outcome(id_, "DELETE_COMPLETE")

    def _drop_group(self, id_: str) -> None:
        cluster_id, _, group_id = id_.partition("/")
        self._host.remove(self._folder(cluster_id), group_id)
        with self._records.change() as data:
            data["groups"].pop(id_, None)

    def group(self, id_: str) -> Values | None:
        """A node group as the plugin shows it."""
        group = self._records.read()["groups"].get(id_)
        if group is None:
            return None
        hidden = {"default", "status", "mergeLabels"}
        shown = {key: value for key, value in group.items() if key not in hidden}
        return {**shown, "clusterId": _cluster_of(id_), "projectId": PROJECT, "region": REGION}

    def scale(self, cluster: str, group: str, count: int) -> None:
        """Set the size of a node group, as the cluster autoscaler does through the resize API.

        Args:
            cluster: name or id of the cluster.
            group: name of the node group.
            count: nodes wanted, within the group's limits.
        """
        data = self._records.read()
        for id_, values in data["groups"].items():
            cluster_id = _cluster_of(id_)
            names = {cluster_id, data["clusters"][cluster_id]["values"]["name"]}
            if cluster in names and values["name"] == group:
                self._resize(id_, count)
                return
        raise MagnumError(404, f"Nodegroup {group} could not be found.")

    # ---------------------------------------------------------------- after a kill

    def recover(self) -> None:
        """Bring the records in order after a kill, and start the clusters that should run.

        What was being created is undone: nobody was told of it. What was being deleted is deleted.
        """
        unfinished = {"CREATE_IN_PROGRESS", "DELETE_IN_PROGRESS"}
        for id_, cluster in self._records.read()["clusters"].items():
            if cluster["status"] in unfinished:
                self._drop_cluster(id_)
        for id_, group in self._records.read()["groups"].items():
            if group["status"] in unfinished:
                self._drop_group(id_)
        for id_, cluster in self._records.read()["clusters"].items():
            running = self._host.boot(self._folder(id_), cluster["values"]["name"])
            with self._records.change() as data:
                data["clusters"][id_]["apiAddress"] = running.server
            self._put_machines(id_)

    def made(self) -> set[str]:
        """The ids of what was asked for and is whole; the default groups come with their clusters."""
        data = self._records.read()
        groups = {id_ for id_, group in data["groups"].items() if not group["default"] and group["status"] != "CREATE_FAILED"}
        return {*data["templates"], *data["clusters"], *groups}

    def remove_unknown(self, known: Collection[str]) -> None:
        """Delete what no stack knows, made for an engine that never heard of it; and node groups that failed.

        A failed group has no machines and never will, but the plugin sees nothing to change in it.

        Args:
            known: the ids in the engine's state.
        """
        kept, data = self.made().intersection(known), self._records.read()
        for id_ in data["clusters"].keys() - kept:
            self._drop_cluster(id_)
        for id_ in self._records.read()["groups"].keys() - kept:
            if not data["groups"][id_]["default"]:
                self._drop_group(id_)
        for id_ in data["templates"].keys() - kept:
            self.delete_template(id_)

    # ---------------------------------------------------------------- inner workings

    @contextmanager
    def _operation(self, cluster_id: str) -> Iterator[bool]:
        """Run the block as an operation on the cluster; yields False when another one runs already."""
        with self._busy_lock:
            free = cluster_id not in self._busy
            self._busy.add(cluster_id)
        try:
            yield free
        finally:
            if free:
                with self._busy_lock:
                    self._busy.discard(cluster_id)

    def _end(self, id_: str, status: str) -> Outcome:
        with self._records.change() as data:
            group = data["groups"].get(id_)
            if group is None:
                return Outcome(id_, "DELETE_COMPLETE")
            group["status"] = status
        return Outcome(id_, status)

    def _folder(self, id_: str) -> Path:
        folder: str = self._records.read()["clusters"][id_]["folder"]
        return self._state / "clusters" / folder

    def _cluster(self, data: Data, id_: str) -> dict[str, Any]:
        if id_ not in data["clusters"]:
            raise MagnumError(404, f"Cluster {id_} could not be found.")
        found: dict[str, Any] = data["clusters"][id_]
        return found

    def _group(self, data: Data, id_: str) -> dict[str, Any]:
        if id_ not in data["groups"]:
            raise MagnumError(404, f"Nodegroup {id_.rpartition('/')[2]} could not be found.")
        found: dict[str, Any] = data["groups"][id_]
        return found

    def _group_keys(self, data: Data, cluster_id: str) -> list[str]:
        return [key for key in data["groups"] if key.startswith(f"{cluster_id}/")]

    def _default_worker(self, data: Data, cluster_id: str) -> str:
        return next(key for key in self._group_keys(data, cluster_id) if data["groups"][key]["name"] == WORKER_GROUP)

    def _put_machines(self, cluster_id: str, only: str | None = None) -> None:
        data = self._records.read()
        for key in self._group_keys(data, cluster_id):
            group = data["groups"][key]
            if only in {None, key} and group["status"] != "CREATE_FAILED":
                machines = machine_group(data["clusters"][cluster_id], key, group, self._seed())
                self._host.put(self._folder(cluster_id), machines)


def scale_node_group(state: Path, cluster: str, group: str, count: int) -> None:
    """Act as the cluster autoscaler of a sandbox's Magnum cluster.

    Args:
        state: the sandbox's state folder.
        cluster: name or id of the cluster.
        group: name of the node group.
        count: nodes wanted.

    Raises:
        MagnumError: there is no such group, or the count is outside its limits.
    """
    MagnumCloud(state).scale(cluster, group, count)


def machine_group(cluster: dict[str, Any], id_: str, group: dict[str, Any], seed: rules.Seed) -> MachineGroup:
    """The machines that a node group's record asks for."""
    driver, master = cluster["driver"], group["role"] == "master"
    marks = rules.node_marks(driver, group["name"], group["role"], group["labels"])
    labels, taints = marks.labels, list(marks.taints)
    if master:
        labels = {**labels, "node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/master": ""}
        taints.append(_CONTROL_PLANE_TAINT)
    return MachineGroup(
        id=id_.partition("/")[2],
        node_prefix=_node_prefix(driver, cluster, group, id_),
        count=group["nodeCount"] if marks.joins else 0,
        labels=labels,
        taints=taints,
        hardware=seed.flavors[group["flavorId"]],
        control_plane=master,
    )


def _node_prefix(driver: str, cluster: dict[str, Any], group: dict[str, Any], id_: str) -> str:
    name, kind = cluster["values"]["name"], "master" if group["role"] == "master" else "node"
    if driver == rules.CLUSTER_API:
        return f"kube-{_stable_suffix(cluster['stackId'], 5)}-{_dns(group['name'])}-{_stable_suffix(id_, 5)}-"
    if driver == rules.CAPI_HELM:
        return f"{_dns(name)}-{_stable_suffix(cluster['stackId'], 12)}-{_dns(group['name'])}-{_stable_suffix(id_, 5)}-"
    if group["default"]:
        return f"{_dns(name[:20])}-{_stable_suffix(cluster['stackId'], 12)}-{kind}-"
    return f"{_dns(name[:20])}-{_dns(group['name'][:9])}-{_stable_suffix(id_, 12)}-{kind}-"


def _dns(name: str) -> str:
    """A name as the machines' host names carry it."""
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in name.lower()).strip("-")


def _settled_cluster(values: Values, template_id: str, template: Values) -> Values:
    given = {key: value for key, value in values.items() if value is not None}
    return {
        "masterCount": 1,
        "nodeCount": 1,
        "createTimeout": 60,
        "flavor": template.get("flavor") or "m1.medium",
        "masterFlavor": template.get("masterFlavor") or template.get("flavor") or "m1.medium",
        "keypair": template.get("keypairId") or "",
        "dockerVolumeSize": template.get("dockerVolumeSize") or 0,
        "fixedNetwork": template.get("fixedNetwork") or "",
        "fixedSubnet": template.get("fixedSubnet") or "",
        "floatingIpEnabled": template.get("floatingIpEnabled", True),
        "masterLbEnabled": template.get("masterLbEnabled", False),
        "region": REGION,
        **given,
        "clusterTemplateId": template_id,
        "labels": rules.effective_labels(template.get("labels") or {}, given.get("labels"), merge=bool(given.get("mergeLabels"))),
    }


def _default_groups(cluster: Values) -> list[Values]:
    common = {"minNodeCount": 0, "labels": cluster["labels"], "default": True, "createdAt": _now()}
    return [
        {
            **common,
            "name": MASTER_GROUP,
            "role": "master",
            "nodeCount": cluster["masterCount"],
            "flavorId": cluster["masterFlavor"],
        },
        {
            **common,
            "name": WORKER_GROUP,
            "role": "worker",
            "nodeCount": cluster["nodeCount"],
            "flavorId": cluster["flavor"],
        },
    ]


def _show_template(values: Values) -> Values:
    return {
        "apiserverPort": 6443,
        "clusterDistro": "fedora-coreos",
        "dockerStorageDriver": "overlay2",
        "dnsNameserver": "8.8.8.8",
        "floatingIpEnabled": True,
        "hidden": False,
        "insecureRegistry": "",
        "labels": {},
        "masterLbEnabled": False,
        "networkDriver": "flannel",
        "public": False,
        "registryEnabled": False,
        "serverType": "vm",
        "tlsDisabled": False,
        "volumeDriver": "",
        "createdAt": "",
        "updatedAt": "",
        "projectId": PROJECT,
        "userId": USER,
        "region": REGION,
        **values,
    }
