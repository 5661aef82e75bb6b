"""A simulated cluster is a folder: a real Kubernetes control plane with its keys, data and logs.

etcd, API server, controller-manager and scheduler are the real programs; the nodes are `sandbox.machines`.
Nothing listens outside 127.0.0.1, and every port wants a certificate of this cluster (the API server takes a token, too). There
is no network, no DNS, no kube-proxy and no kubelet here: what a node would do is the machines' matter.

`boot` may be called at any time and by several at once: what runs is kept, what died is started again.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import shutil
import ssl
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.cluster import node_tools
from sandbox.system import cgroups, processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import explained, locked, make_folder, read_json, write_atomic, write_json
from sandbox.system.own_code import own_code
from sandbox.system.pki import Pki, make_pki

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.toolchain.tools import Tools

_RECORD = "cluster.json"
_KUBECONFIG = "kubeconfig"
_OTHER_CLIENTS = "other-clients.crt"
# One of these says that a folder is a cluster's. The lock is made first and goes last.
_KNOWN = (_RECORD, "machines.json", "processes.json", f".{_RECORD}.lock")
_ETCD, _API, _CONTROLLERS, _SCHEDULER, _MACHINES = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "machines",
)
#: In a cluster's folder, where the API server works: by it go its connections to kubelets (sandbox/real_node/egress.py).
EGRESS_SOCKET = "kubelets.sock"
_EGRESS = "egress.json"
_PARTS = (_ETCD, _API, _CONTROLLERS, _SCHEDULER, _MACHINES)
_PORT_NAMES = ("api", "etcd", "etcd_peer")
_SERVICE_RANGE = "10.96.0.0/16"
_SERVICE_ADDRESS = "10.96.0.1"
_READY_SECONDS = 60.0
_REQUEST_SECONDS = 5.0
_GRACE_SECONDS = 5.0
#: A control plane that starts spends a fifth of its processor time on garbage otherwise.
_SELDOM_COLLECTED = {"GOGC": "400"}
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Cluster:
    """How to reach a cluster as its administrator.

    Attributes:
        folder: the cluster's folder.
        name: its name; also the kubeconfig's context.
        server: the API's address.
        kubeconfig: a file that kubectl and helm take.
        ca_pem: the authority that signed the API's certificate.
        client_cert_pem: the administrator's certificate.
        client_key_pem: its key; a secret.
    """

    folder: Path
    name: str
    server: str
    kubeconfig: Path
    ca_pem: str
    client_cert_pem: str
    client_key_pem: str = field(repr=False)


def boot(folder: Path, name: str, tools: Tools, *, machines: bool = True) -> Cluster:
    """Make a cluster run.

    Args:
        folder: the cluster's folder; created when missing.
        name: the cluster's name.
        tools: the programs.
        machines: whether the nodes run too; without them no pod ever leaves Pending.

    Returns:
        The cluster, its API ready and its controllers at work.

    Raises:
        SandboxError: when the folder belongs to another cluster, or a part does not come up.
    """
    folder = make_folder(folder).resolve()
    with locked(folder / _RECORD):
        record = _prepare(folder, name, tools)
        pki = make_pki(folder / "pki", _SERVICE_ADDRESS)
        ports = record["ports"]
        alive = processes.running(folder)
        _start(folder, alive, _ETCD, _etcd(folder, pki, tools, ports))
        write_json(folder / _EGRESS, _egress())
        _start(folder, alive, _API, _api_server(pki, tools, ports))
        _write_kubeconfig(folder, name, pki, ports["api"])
        cluster = load(folder)
        _await_ready(cluster, pki)
        _check_identity(cluster, pki, record)
        _start(folder, alive, _CONTROLLERS, _controller_manager(cluster, pki, tools))
        _start(folder, alive, _SCHEDULER, _scheduler(cluster, tools))
        if machines:
            command = [sys.executable, "-m", "sandbox.machines", str(folder)]
            _start(folder, alive, _MACHINES, command, env=_python_environment())
        if not {_CONTROLLERS, _SCHEDULER} <= alive.keys():
            _await_controllers(cluster, pki)
    return cluster


def load(folder: Path) -> Cluster:
    """Return the cluster of a folder, whether it runs or not.

    Raises:
        SandboxError: when the folder holds no cluster.
    """
    folder = folder.resolve()
    record = read_json(folder / _RECORD)
    pki = Pki(folder / "pki")
    if not record or not pki["sa.pub"].exists():
        message = f"{folder}: holds no cluster (no {_RECORD} or no keys)."
        raise SandboxError(message, "Start the sandbox: make up STACK=<stack>.")
    with explained(pki.folder, "read"):
        return Cluster(
            folder=folder,
            name=record["name"],
            server=_server(record["ports"]["api"]),
            kubeconfig=folder / _KUBECONFIG,
            ca_pem=pki.text("ca.crt"),
            client_cert_pem=pki.text("admin.crt"),
            client_key_pem=pki.text("admin.key"),
        )


def trust_clients(folder: Path, authority: str) -> None:
    """Have the API of a cluster trust clients of another authority beside its own; one that runs is ended, for the next boot.

    Args:
        folder: the cluster's folder; it may be one that is yet to be booted.
        authority: a certificate.
    """
    place = make_folder(make_folder(folder) / "pki") / _OTHER_CLIENTS
    with locked(folder / _RECORD):
        if place.exists() and place.read_text(encoding="ascii") == authority:
            return
        write_atomic(place, authority)
        processes.stop(folder, [_API])


def died(folder: Path) -> list[str]:
    """Return the names of the parts that ended by themselves; waits while somebody boots or erases the cluster."""
    with locked(folder / _RECORD):
        return [name for name in processes.died(folder) if name in _PARTS]


def shut_down(folder: Path) -> None:
    """Stop everything that runs for a cluster; its data stays, and boot brings it back.

    Raises:
        SandboxError: when a process cannot be stopped.
    """
    if not folder.exists():
        return
    with locked(folder / _RECORD):
        _stop_all(folder, _GRACE_SECONDS)


def erase(folder: Path) -> None:
    """Stop everything that runs for a cluster and delete its folder.

    Raises:
        SandboxError: when the folder is something else than a cluster's, or cannot be deleted.
    """
    if not folder.exists():
        return
    if any(folder.iterdir()) and not any((folder / name).exists() for name in _KNOWN):
        message = f"{folder}: not deleted, it is not a cluster's folder (none of {', '.join(_KNOWN)} is in it)."
        raise SandboxError(message, "Delete it yourself if nothing in it is needed.")
    with locked(folder / _RECORD):
        # Nothing is kept, so nobody gets time to write it down.
        _stop_all(folder, grace=0.0)
        with explained(folder, "delete"):
            _delete(folder)


def _delete(folder: Path) -> None:
    """Delete a folder, what makes it a cluster's last: whoever is killed meanwhile can be followed by another."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name not in _KNOWN:
            path.unlink()
    shutil.rmtree(folder)


# --- what the cluster is ----------------------------------------------------------------------------------


def _prepare(folder: Path, name: str, tools: Tools) -> dict[str, Any]:
    """Read the cluster's record or begin one; see that the ports are ours or free."""
    record = read_json(folder / _RECORD)
    if record and record["name"] != name:
        message = f"{folder}: belongs to the cluster {record['name']!r}, not to {name!r}."
        raise SandboxError(message, "Give each cluster a folder of its own, or remove this one: make clean.")
    before = dict(record)
    record = {
        "name": name,
        "ports": record.get("ports", {}),
        "kube_system_uid": record.get("kube_system_uid"),
        # For sandbox.machines, which stands in for nodes and for what runs on them.
        "tools": {name: str(getattr(tools, name)) for name in ("helm", "nfd_master", "nfd_worker", "etcd")},
        node_tools.RECORD: node_tools.as_json(tools),
        node_tools.OPERATOR: node_tools.operator_as_json(tools),
        "code": own_code(),
    }
    if not _ports_usable(folder, record["ports"]):
        _stop_all(folder, _GRACE_SECONDS)
        record["ports"] = dict(zip(_PORT_NAMES, processes.free_ports(len(_PORT_NAMES)), strict=True))
    if record != before:
        if any(record[name] != before.get(name) for name in (node_tools.RECORD, node_tools.OPERATOR, "code")):
            # The nodes read all of it when they start.
            processes.stop(folder, [_MACHINES])
        write_json(folder / _RECORD, record)
    return record


def _ports_usable(folder: Path, ports: Mapping[str, int]) -> bool:
    """Say whether each port is used by its own process or by nobody."""
    alive = processes.running(folder)
    owners = {"api": _API, "etcd": _ETCD, "etcd_peer": _ETCD}
    return set(ports) == set(owners) and all(
        owners[name] in alive or processes.port_is_free(port) for name, port in ports.items()
    )


def _check_identity(cluster: Cluster, pki: Pki, record: dict[str, Any]) -> None:
    """See that the API serves the data of this cluster: the kube-system namespace keeps its uid for life."""
    uid = _get(cluster, pki, "/api/v1/namespaces/kube-system")["metadata"]["uid"]
    if record["kube_system_uid"] is None:
        record["kube_system_uid"] = uid
        write_json(cluster.folder / _RECORD, record)
    elif record["kube_system_uid"] != uid:
        message = (
            f"{cluster.folder / 'etcd'}: holds the data of another cluster: kube-system has uid {uid}, "
            f"{_RECORD} says {record['kube_system_uid']}."
        )
        raise SandboxError(message, "Remove the sandbox and start again: make clean, then make up.")


def _write_kubeconfig(folder: Path, name: str, pki: Pki, port: int) -> None:
    """Write a kubeconfig for the administrator; its one context has the cluster's name."""
    entry = json.dumps(name)
    text = f"""\
apiVersion: v1
kind: Config
current-context: {entry}
clusters:
- name: {entry}
  cluster:
    server: {_server(port)}
    certificate-authority-data: {_base64(pki, "ca.crt")}
users:
- name: {entry}
  user:
    client-certificate-data: {_base64(pki, "admin.crt")}
    client-key-data: {_base64(pki, "admin.key")}
contexts:
- name: {entry}
  context:
    cluster: {entry}
    user: {entry}
"""
    write_atomic(folder / _KUBECONFIG, text)


def _base64(pki: Pki, name: str) -> str:
    return base64.b64encode(pki.text(name).encode("ascii")).decode("ascii")


def _server(port: int) -> str:
    return f"https://127.0.0.1:{port}"


# --- what runs --------------------------------------------------------------------------------------------


def _etcd(folder: Path, pki: Pki, tools: Tools, ports: Mapping[str, int]) -> list[str]:
    client, peer = _server(ports["etcd"]), _server(ports["etcd_peer"])
    security = {
        "cert-file": pki["etcd.crt"],
        "key-file": pki["etcd.key"],
        "trusted-ca-file": pki["etcd-ca.crt"],
    }
    return [
        str(tools.etcd),
        "--name=default",
        f"--data-dir={make_folder(folder / 'etcd')}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--client-cert-auth",
        "--peer-client-cert-auth",
        *(f"--{flag}={path}" for flag, path in security.items()),
        *(f"--peer-{flag}={path}" for flag, path in security.items()),
        # The data outlives a killed process; only a crash of the whole machine could lose some.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _api_server(pki: Pki, tools: Tools, ports: Mapping[str, int]) -> list[str]:
    return [
        str(tools.kube_apiserver),
        f"--etcd-servers={_server(ports['etcd'])}",
        f"--etcd-cafile={pki['etcd-ca.crt']}",
        f"--etcd-certfile={pki['etcd.crt']}",
        f"--etcd-keyfile={pki['etcd.key']}",
        "--etcd-prefix=default",
        "--bind-address=127.0.0.1",
        f"--secure-port={ports['api']}",
        # The `kubernetes` service gets no endpoint: a loopback address is not allowed as one, and no pod
        # could use it.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={pki['apiserver.crt']}",
        f"--tls-private-key-file={pki['apiserver.key']}",
        f"--client-ca-file={_client_authorities(pki)}",
        f"--service-account-key-file={pki['sa.pub']}",
        f"--service-account-signing-key-file={pki['sa.key']}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        "--authorization-mode=Node,RBAC",
        # Not even its version to who has no certificate or token: any user of this machine can connect.
        "--anonymous-auth=false",
        f"--service-cluster-ip-range={_SERVICE_RANGE}",
        "--allow-privileged=true",
        "--profiling=false",
        f"--egress-selector-config-file={pki.folder.parent / _EGRESS}",
        f"--kubelet-client-certificate={pki['admin.crt']}",
        f"--kubelet-client-key={pki['admin.key']}",
    ]


def _egress() -> dict[str, Any]:
    """How the API server reaches nodes; everything else it reaches by itself."""
    way = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": EGRESS_SOCKET}}}
    return {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": way}],
    }


def _client_authorities(pki: Pki) -> Path:
    """Whose clients the API takes: its own authority's, and another's where there is one."""
    if not pki[_OTHER_CLIENTS].exists():
        return pki["ca.crt"]
    write_atomic(pki["clients.crt"], f"{pki.text('ca.crt')}{pki.text(_OTHER_CLIENTS)}")
    return pki["clients.crt"]


def _controller_manager(cluster: Cluster, pki: Pki, tools: Tools) -> list[str]:
    return [
        str(tools.kube_controller_manager),
        f"--kubeconfig={cluster.kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--use-service-account-credentials=false",
        f"--root-ca-file={pki['ca.crt']}",
        f"--service-account-private-key-file={pki['sa.key']}",
        f"--cluster-signing-cert-file={pki['ca.crt']}",
        f"--cluster-signing-key-file={pki['ca.key']}",
        "--profiling=false",
    ]


def _scheduler(cluster: Cluster, tools: Tools) -> list[str]:
    return [
        str(tools.kube_scheduler),
        f"--kubeconfig={cluster.kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--profiling=false",
    ]


def _python_environment() -> dict[str, str]:
    """Return an environment in which Python finds this package from any folder."""
    paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _start(
    folder: Path,
    alive: Mapping[str, processes.Process],
    name: str,
    argv: list[str],
    env: Mapping[str, str] | None = None,
) -> None:
    if name not in alive:
        processes.spawn(folder, name, argv, env={**os.environ, **_SELDOM_COLLECTED} if env is None else env, cwd=folder)


def _stop_all(folder: Path, grace: float) -> None:
    """Stop the nodes first: they might start again what they see ending. Of a real one that was killed, groups are left."""
    processes.stop(folder, [_MACHINES], grace=grace)
    processes.stop(folder, grace=grace)
    cgroups.remove(folder)


# --- waiting for it ---------------------------------------------------------------------------------------


def _await_ready(cluster: Cluster, pki: Pki) -> None:
    def is_ready() -> bool:
        _expect_alive(cluster.folder, (_ETCD, _API))
        return _request(cluster, pki, "/readyz")[0] == http.HTTPStatus.OK

    processes.wait_until(is_ready, timeout=_READY_SECONDS, what=f"The API of cluster {cluster.name} is ready")


def _await_controllers(cluster: Cluster, pki: Pki) -> None:
    """Wait for the first thing that the controllers do and that pods need: default's service account."""

    def are_working() -> bool:
        _expect_alive(cluster.folder, (_ETCD, _API, _CONTROLLERS, _SCHEDULER))
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        return _request(cluster, pki, path)[0] == http.HTTPStatus.OK

    what = f"The controllers of cluster {cluster.name} are at work"
    processes.wait_until(are_working, timeout=_READY_SECONDS, what=what)


def _expect_alive(folder: Path, names: tuple[str, ...]) -> None:
    """Give up waiting when a part has died, with its last words."""
    alive = processes.running(folder)
    for name in names:
        if name in alive:
            continue
        tail = processes.describe_end(folder, name)
        message = f"{folder}: {name} ended while the cluster was starting. Its last output:\n{tail}"
        if "address already in use" in tail:
            raise SandboxError(message, "Another program took the port just now. Run the command again.")
        raise SandboxError(message, f"The whole output is in {folder / 'logs' / name}.log.")


def _get(cluster: Cluster, pki: Pki, path: str) -> Any:  # noqa: ANN401 a JSON document
    """Read an object from the API."""
    status, body = _request(cluster, pki, path)
    if status != http.HTTPStatus.OK:
        message = f"{cluster.server}{path}: answered {status}: {body[:200].decode(errors='replace')}"
        raise SandboxError(message, f"The API server's log is {cluster.folder / 'logs' / _API}.log.")
    return json.loads(body)


def _request(cluster: Cluster, pki: Pki, path: str) -> tuple[int, bytes]:
    """Ask the API; status 0 when it does not answer, or not with a certificate of this cluster."""
    context = ssl.create_default_context(cafile=str(pki["ca.crt"]))
    context.load_cert_chain(pki["admin.crt"], pki["admin.key"])
    address = cluster.server.removeprefix("https://")
    connection = http.client.HTTPSConnection(address, timeout=_REQUEST_SECONDS, context=context)
    with contextlib.closing(connection):
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
