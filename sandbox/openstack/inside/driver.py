"""The project's Magnum driver: a cluster is one of the sandbox's, a node group is a group of its simulated machines.

Magnum loads it where it looks for drivers, the entry points `magnum.drivers`, under the names of three real drivers; which one it
plays decides the labels that nodes get, and is the host's matter (`sandbox.openstack.host`), as is everything that touches a
cluster. Like a real driver it answers at once and finishes when Magnum asks how things stand. What is to be done stands in
Magnum's database alone, so whoever starts Magnum again after a kill goes on where it was.

What goes wrong on purpose (`sandbox.openstack.disturbances`) is read anew each time, so it can be switched while Magnum runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from magnum.common import exception
from magnum.common.x509 import operations as x509
from magnum.conductor.handlers.common import cert_manager
from magnum.drivers.common import driver
from magnum.objects.fields import ClusterStatus
from oslo_log import log

from sandbox.openstack import disturbances
from sandbox.openstack.images import images

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sandbox.openstack.disturbances import Disturbances

Context = Any
"""Magnum's request context."""
Row = Any
"""A cluster, node group or template of Magnum; its types are not where this is checked."""

_LOG: Final = log.getLogger("magnum.gpu_pools")
_ON_PURPOSE: Final = "It was switched on that this fails."
_NETWORKS: Final = ("cilium", "calico")
_TOO_FEW: Final = "Min node count must be greater than or equal to 1 for all node groups."
_LOOK_SECONDS: Final = 0.1
_FORBIDDEN: Final = "spec.version: Forbidden: cannot update Kubernetes version from {} to {}"
_BUSY: Final = "The stack has an action in progress."
_SETTINGS: Final = "GPU_POOLS_MAGNUM_SETTINGS"


class _Work:
    """Things that the host does in the background, each asked for again and again until it is done."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="host")
        self._running: dict[tuple[str, ...], Future[dict[str, Any]]] = {}

    def result(
        self, key: tuple[str, ...], function: Callable[[], dict[str, Any]], also: Collection[str] = ()
    ) -> dict[str, Any] | None:
        """Start the function unless it runs; None while it does, then what it returned or raised, once.

        Args:
            key: what it is about, and what is to be done with that. Of one thing one is done at a time: who deletes what is
                being made waits until it is made.
            function: does it.
            also: other things that must be at rest.
        """
        if key not in self._running:
            others = [other for other in self._running if other[0] in {key[0], *also}]
            if not all(self._running[other].done() for other in others):
                return None
            for other in others:
                # Nobody will ask for it any more.
                del self._running[other]
            self._running[key] = self._pool.submit(function)
        future = self._running[key]
        if not future.done():
            return None
        del self._running[key]
        return future.result()


_WORK: Final = _Work()
_TAKING_UP: Final = threading.Lock()


class HostError(Exception):
    """The host could not do it; the text is what it said last."""


class SimulatedMachines(driver.Driver):  # type: ignore[misc]  # Magnum is not where this is type-checked
    """What all three have in common."""

    plays: ClassVar[str]
    """The name that the host knows the driver by."""
    system: ClassVar[str]
    """The operating system of its images."""
    one_at_a_time: ClassVar[bool] = False
    """Whether a node group that is asked for while another is being changed fails."""
    looks_at_images: ClassVar[bool] = True
    """Whether a node group can have an image of its own."""

    @property
    def provides(self) -> list[dict[str, str]]:
        """The kind of clusters it makes."""
        return [{"server_type": "vm", "os": self.system, "coe": "kubernetes"}]

    # ---------------------------------------------------------------- what is asked for: noted, done later

    def create_cluster(self, context: Context, cluster: Row, cluster_create_timeout: object) -> None:
        """Give the cluster the id of what will be made for it."""
        cluster.stack_id = str(uuid.uuid4())

    def update_cluster(self, context: Context, cluster: Row, scale_manager: object = None, rollback: object = False) -> None:
        """Note a changed number of default workers."""
        _begin(cluster.default_ng_worker, ClusterStatus.UPDATE_IN_PROGRESS)

    def resize_cluster(
        self,
        context: Context,
        cluster: Row,
        resize_manager: object,
        node_count: object,
        nodes_to_remove: object,
        nodegroup: Row = None,
    ) -> None:
        """Nothing to note: Magnum has written the number and the status."""

    def upgrade_cluster(
        self,
        context: Context,
        cluster: Row,
        cluster_template: Row,
        max_batch_size: object,
        nodegroup: Row,
        scale_manager: object = None,
        rollback: object = False,
    ) -> None:
        """Move the cluster with all its groups to the template, as the drivers for Cluster API do whichever group is named."""
        cluster.cluster_template_id = cluster_template.uuid
        for group in cluster.nodegroups:
            self._move(group, cluster_template)
            _begin(group, ClusterStatus.UPDATE_IN_PROGRESS)

    def _move(self, group: Row, cluster_template: Row) -> None:
        """Write into a group's row what the driver takes from a new template."""

    def delete_cluster(self, context: Context, cluster: Row) -> None:
        """Nothing to note: Magnum writes the status."""

    def create_nodegroup(self, context: Context, cluster: Row, nodegroup: Row) -> None:
        """Give the group the id of what will be made for it.

        Raises:
            HostError: another group is being changed and the driver cannot do two things at once; the group becomes
                CREATE_FAILED.
        """
        with _TAKING_UP:
            # One that was asked for and is not taken up yet has no id, but for those that come with the cluster.
            busy = [group for group in cluster.nodegroups if _is_in_progress(group) and (group.stack_id or group.is_default)]
            if self.one_at_a_time and busy:
                raise HostError(_BUSY)
            nodegroup.stack_id = str(uuid.uuid4())
            nodegroup.save()

    def update_nodegroup(self, context: Context, cluster: Row, nodegroup: Row) -> None:
        """Nothing to note: Magnum writes the limits and the status."""

    def delete_nodegroup(self, context: Context, cluster: Row, nodegroup: Row) -> None:
        """Write the status, which Magnum has set but leaves to the driver to keep."""
        _begin(nodegroup, ClusterStatus.DELETE_IN_PROGRESS)

    def create_federation(self, context: Context, federation: Row) -> None:
        """Refuse: there is none."""
        raise NotImplementedError

    update_federation = create_federation
    delete_federation = create_federation

    # ---------------------------------------------------------------- how things stand

    def update_cluster_status(self, context: Context, cluster: Row, use_admin_ctx: object = False) -> None:
        """Do what is to be done and write what is done; Magnum asks until nothing is in progress."""
        try:
            if cluster.status == ClusterStatus.CREATE_IN_PROGRESS:
                self._create(context, cluster)
            elif cluster.status == ClusterStatus.DELETE_IN_PROGRESS:
                self._delete(cluster)
            else:
                self._update(cluster)
        except HostError as error:
            _LOG.warning("Cluster %s: %s", cluster.uuid, error)
            _end(cluster, _failed(cluster.status), str(error))

    def _create(self, context: Context, cluster: Row) -> None:
        if not cluster.stack_id:
            # Magnum has written the row, and is making the certificates: what create_cluster sets is not there yet.
            return
        groups = list(cluster.nodegroups)
        if cluster.name in _disturbances().fail:
            for group in groups:
                _end(group, ClusterStatus.CREATE_FAILED)
            raise HostError(_ON_PURPOSE)
        authority = cert_manager.get_cluster_ca_certificate(cluster, context=context)
        request = {
            **self._request("boot", cluster),
            "groups": [self._group(group) for group in groups],
            "ca_certificate": authority.get_certificate(),
            # Encrypted in Magnum's database; the control plane has to sign with it.
            "ca_key": _text(x509.decrypt_key(authority.get_private_key(), authority.get_private_key_passphrase())),
        }
        answer = _WORK.result((cluster.uuid, "boot"), lambda: _ask_host(request))
        if answer is None:
            return
        cluster.api_address = answer["server"]
        cluster.coe_version = answer["version"]
        for group in groups:
            _end_with_number(group, ClusterStatus.CREATE_COMPLETE, answer)
        _end(cluster, ClusterStatus.CREATE_COMPLETE)

    def _delete(self, cluster: Row) -> None:
        request = self._request("erase", cluster)
        groups = [group.uuid for group in cluster.nodegroups]
        if _WORK.result((cluster.uuid, "erase"), lambda: _ask_host(request), also=groups) is not None:
            _end(cluster, ClusterStatus.DELETE_COMPLETE)

    def _update(self, cluster: Row) -> None:
        for group in cluster.nodegroups:
            if _is_in_progress(group):
                try:
                    self._go_on(cluster, group)
                except HostError as error:
                    _LOG.warning("Node group %s: %s", group.uuid, error)
                    _end(group, _failed(group.status), str(error))
        groups = list(cluster.nodegroups)
        if not any(_is_in_progress(group) for group in groups):
            failed = any((group.status or "").endswith("_FAILED") for group in groups)
            _end(cluster, ClusterStatus.UPDATE_FAILED if failed else ClusterStatus.UPDATE_COMPLETE)

    def _go_on(self, cluster: Row, group: Row) -> None:
        """Go on with what is to be done with a group."""
        wrong, creating = _disturbances(), group.status == ClusterStatus.CREATE_IN_PROGRESS
        lost = creating and group.name in wrong.lose
        if group.status != ClusterStatus.DELETE_IN_PROGRESS and group.name in wrong.fail:
            raise HostError(_ON_PURPOSE)
        removing = lost or group.status == ClusterStatus.DELETE_IN_PROGRESS
        # The image of a new group alone is looked for: what runs needs it no more.
        wanted = self._group(group) | ({"image": group.image_id} if creating and self.looks_at_images else {})
        request = {**self._request("remove" if removing else "put", cluster), "groups": [wanted]}

        def act() -> dict[str, Any]:
            begun = time.monotonic()
            # Read again and again, so that whoever has made it slow can let it go on.
            while time.monotonic() - begun < _disturbances().seconds:
                time.sleep(_LOOK_SECONDS)
            return _ask_host(request)

        # With the number, since it may be changed again while the machines of the first change are made.
        answer = _WORK.result((group.uuid, group.status, str(group.node_count)), act)
        if answer is None:
            return
        if removing:
            group.destroy()
        elif creating:
            _end_with_number(group, ClusterStatus.CREATE_COMPLETE, answer)
        else:
            # Of a living group the real driver's monitor writes the number back, once in a minute.
            _end(group, group.status.replace("_IN_PROGRESS", "_COMPLETE"))

    def correct_address(self, cluster: Row) -> None:
        """Write where the cluster's API is, if it has moved: whoever starts it again may find its port taken."""
        record = next(Path(_settings()["clusters"]).glob(f"*-{cluster.uuid[:6]}/cluster.json"), None)
        if record is None or not cluster.api_address:
            return
        address = f"https://127.0.0.1:{json.loads(record.read_text(encoding='utf-8'))['ports']['api']}"
        if address != cluster.api_address:
            cluster.api_address = address
            cluster.save()

    # ---------------------------------------------------------------- what the host is told

    def _request(self, action: str, cluster: Row) -> dict[str, Any]:
        settings = _settings()
        own = {"uuid": cluster.uuid, "name": cluster.name, "stack_id": cluster.stack_id}
        return {
            "action": action,
            "driver": self.plays,
            "cluster": own,
            "auto_scaling_enabled": str((cluster.labels or {}).get("auto_scaling_enabled", "")),
            "clusters": settings["clusters"],
            "seed": settings["seed"],
        }

    def _group(self, group: Row) -> dict[str, Any]:
        return {
            "uuid": group.uuid,
            "name": group.name,
            "role": group.role,
            "default": group.is_default,
            "node_count": group.node_count,
            "min_node_count": group.min_node_count,
            "max_node_count": group.max_node_count,
            "flavor": group.flavor_id,
            "labels": dict(group.labels or {}),
        }


class Heat(SimulatedMachines):
    """Labels nodes as the driver for Fedora CoreOS on Heat did (Magnum up to 2026.1).

    There, node groups that are made at the same time fail (2i2c-org/infrastructure#5455).
    """

    plays = "heat"
    system = "fedora-coreos"
    one_at_a_time = True

    def upgrade_cluster(self, *given: object, **named: object) -> None:
        """Refuse, as the driver has done since Magnum 18 (2024.1); the words are its own.

        Raises:
            NotSupported: always.
        """
        raise exception.NotSupported(operation="Upgrading a cluster that uses the Magnum Heat driver")


class ClusterApi(SimulatedMachines):
    """Labels nodes as vexxhost's magnum-cluster-api does, and refuses what that refuses (3890a36, driver.py and utils.py)."""

    plays = "magnum-cluster-api"
    system = "ubuntu"

    def create_cluster(self, context: Context, cluster: Row, cluster_create_timeout: object) -> None:
        """The same, with a network that it knows.

        Raises:
            HostError: it does not; the real one says no word about it.
        """
        if cluster.cluster_template.network_driver not in _NETWORKS:
            raise HostError
        super().create_cluster(context, cluster, cluster_create_timeout)

    def update_cluster(self, context: Context, cluster: Row, scale_manager: object = None, rollback: object = False) -> None:
        """Refuse another number of default workers: only a resize can have that.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError

    def upgrade_cluster(self, context: Context, cluster: Row, cluster_template: Row, *given: Row, **named: Row) -> None:
        """The same, to a template that says its Kubernetes version in a label, and one that Cluster API takes.

        Raises:
            KeyError: it does not.
            HostError: it takes none that is older, or two minor versions newer (cluster-api, validateTopologyVersion).
        """
        old, new = cluster.labels.get("kube_tag"), cluster_template.labels["kube_tag"]
        if old and not _numbers(old) <= _numbers(new) < [_numbers(old)[0], _numbers(old)[1] + 2]:
            way = "decreased" if _numbers(new) < _numbers(old) else "increased"
            raise HostError(f'version cannot be {way} from "{old}" to "{new}"')
        cluster.labels["kube_tag"] = new
        super().upgrade_cluster(context, cluster, cluster_template, *given, **named)

    def _move(self, group: Row, cluster_template: Row) -> None:
        """Give every group the image of the template, also one that was asked for with another."""
        group.image_id = cluster_template.image_id


def _numbers(tag: str) -> list[int]:
    return [int(part) for part in tag.removeprefix("v").split(".")]


class CapiHelm(SimulatedMachines):
    """Labels nodes as magnum-capi-helm does; where the autoscaler is on it takes no group that may be empty, as that does."""

    plays = "capi-helm"
    system = "flatcar"
    looks_at_images = False

    def create_cluster(self, context: Context, cluster: Row, cluster_create_timeout: object) -> None:
        """The same, from an image that says its Kubernetes version.

        Raises:
            HostError: it does not.
        """
        _kube_version(cluster.cluster_template.image_id)
        super().create_cluster(context, cluster, cluster_create_timeout)

    def upgrade_cluster(self, context: Context, cluster: Row, cluster_template: Row, *given: Row, **named: Row) -> None:
        """The same: it asks nobody whether the cluster can go there, and is on its way when its Helm release fails.

        Raises:
            HostError: the image says no version, or one that Cluster API refuses the control plane (ae7ff047,
                controlplane/kubeadm/webhooks/admission/kubeadmcontrolplane.go, validateVersion: no step over a minor version;
                an older one it takes).
        """
        old = _kube_version(cluster.cluster_template.image_id)
        super().upgrade_cluster(context, cluster, cluster_template, *given, **named)
        cluster.status = ClusterStatus.UPDATE_IN_PROGRESS
        cluster.save()
        new = _kube_version(cluster_template.image_id)
        if _numbers(new) >= [_numbers(old)[0], _numbers(old)[1] + 2]:
            raise HostError(_FORBIDDEN.format(old, new))

    def create_nodegroup(self, context: Context, cluster: Row, nodegroup: Row) -> None:
        """The same, where its lower limit will do.

        Raises:
            HostError: it will not.
        """
        _check_limit(cluster, nodegroup)
        super().create_nodegroup(context, cluster, nodegroup)

    def update_nodegroup(self, context: Context, cluster: Row, nodegroup: Row) -> None:
        """The same, where its lower limit will do.

        Raises:
            HostError: it will not.
        """
        _check_limit(cluster, nodegroup)


def _kube_version(name: str) -> str:
    """That of an image.

    Raises:
        HostError: it has none.
    """
    seed = json.loads(Path(_settings()["seed"]).read_text(encoding="utf-8"))
    try:
        return images(seed)[name]["kube_version"]
    except KeyError:
        raise HostError(f"Image {name} does not have a kube_version property.") from None


def _check_limit(cluster: Row, group: Row) -> None:
    labels = {**(cluster.cluster_template.labels or {}), **(cluster.labels or {})}
    if str(labels.get("auto_scaling_enabled", "")).lower() == "true" and not group.min_node_count:
        raise HostError(_TOO_FEW)


def _begin(group: Row, status: str) -> None:
    group.status = status
    group.save()


def _end(row: Row, status: str, reason: str | None = None) -> None:
    row.status = status
    row.status_reason = reason
    row.save()


def _end_with_number(group: Row, status: str, answer: dict[str, Any]) -> None:
    """End with the number of machines that there are: magnum-cluster-api writes it back where an autoscaler decides it."""
    group.node_count = answer.get("counts", {}).get(group.uuid, group.node_count)
    _end(group, status)


def _is_in_progress(row: Row) -> bool:
    return bool(row.status) and row.status.endswith("_IN_PROGRESS")


def _failed(status: str) -> str:
    """CREATE_FAILED for CREATE_IN_PROGRESS, and so on."""
    return f"{status.partition('_')[0]}_FAILED"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _settings() -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(Path(os.environ[_SETTINGS]).read_text(encoding="utf-8"))
    return settings


def _disturbances() -> Disturbances:
    return disturbances.read(_settings())


def _ask_host(request: dict[str, Any]) -> dict[str, Any]:
    """Run the host in the project's own Python; what it is told goes by standard input, since there is a key in it."""
    settings = _settings()
    environment = {**os.environ, "PYTHONPATH": settings["project"]}
    done = subprocess.run(
        [settings["python"], "-m", "sandbox.openstack.host"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        cwd=settings["project"],
        env=environment,
    )
    if done.returncode:
        raise HostError(done.stderr.strip()[-2000:])
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
