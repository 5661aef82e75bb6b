"""A cluster is a folder: it boots, is kept, comes back with its data, and leaves nothing behind."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sandbox.cluster import control_plane as cluster
from sandbox.system import processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import read_json, write_json
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from sandbox.toolchain.tools import PLATFORM_TOOLS, Tools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PARTS = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        },
    },
}


def call(at: cluster.Cluster, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Call the API with nothing but what the Cluster says."""

    context = ssl.create_default_context(cadata=at.ca_pem)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    pem = at.folder / "client.pem"
    pem.write_text(at.client_cert_pem + at.client_key_pem)
    context.load_cert_chain(pem)
    connection = http.client.HTTPSConnection(at.server.removeprefix("https://"), timeout=10, context=context)
    headers = {"Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def boot(folder: Path, name: str = "one") -> cluster.Cluster:
    tools = find_tools(Progress(), only=PLATFORM_TOOLS)
    return cluster.boot(folder, name, tools, machines=False)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Cluster]:
    folder = tmp_path_factory.mktemp("clusters") / "one"
    yield boot(folder)
    cluster.erase(folder)


def test_a_folder_without_a_cluster_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="holds no cluster"):
        cluster.load(tmp_path)


def test_erasing_or_stopping_what_is_not_there_is_fine(tmp_path: Path) -> None:
    cluster.erase(tmp_path / "missing")
    cluster.shut_down(tmp_path / "missing")


def test_a_folder_of_something_else_is_never_erased(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SandboxError, match="not deleted"):
        cluster.erase(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxError, match="cannot create it"):
        cluster.boot(tmp_path / "file" / "one", "one", Tools(), machines=False)


def test_missing_programs_are_an_error_and_nothing_runs(tmp_path: Path) -> None:
    tools = Tools(etcd=tmp_path / "etcd")
    with pytest.raises(SandboxError, match="etcd: cannot start it"):
        cluster.boot(tmp_path / "one", "one", tools, machines=False)
    assert processes.running(tmp_path / "one") == {}
    cluster.erase(tmp_path / "one")


def test_a_part_that_ends_is_shown_with_its_describe_end(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho listen tcp: bind: address already in use\n")
    program.chmod(0o755)
    tools = Tools(etcd=program, kube_apiserver=program)
    with pytest.raises(SandboxError, match=r"etcd ended while .*\n.*address already in use") as caught:
        cluster.boot(tmp_path / "one", "one", tools, machines=False)
    assert "took the port" in caught.value.remedy


def test_a_name_is_for_life(tmp_path: Path) -> None:
    write_json(tmp_path / "cluster.json", {"name": "one", "ports": {}, "kube_system_uid": None})
    with pytest.raises(SandboxError, match="belongs to the cluster 'one', not to 'two'"):
        cluster.boot(tmp_path, "two", Tools(), machines=False)


@pytest.mark.programs
def test_all_parts_run_and_only_the_owner_can_read(shared: cluster.Cluster) -> None:
    assert list(processes.running(shared.folder)) == PARTS
    assert shared.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert shared.folder.stat().st_mode & 0o777 == 0o700
    assert shared.client_key_pem not in repr(shared)


@pytest.mark.programs
def test_secrets_are_no_arguments(shared: cluster.Cluster) -> None:
    key = "".join(shared.client_key_pem.splitlines()[1:-1])
    for process in processes.running(shared.folder).values():
        with open(f"/proc/{process.pid}/cmdline") as stream:  # noqa: PTH123
            assert key not in stream.read()


@pytest.mark.programs
def test_a_stranger_gets_no_answer(shared: cluster.Cluster) -> None:
    ports = read_json(shared.folder / "cluster.json")["ports"]
    for port in ports.values():
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET /version HTTP/1.0\r\n\r\n")
            assert b"200 OK" not in connection.recv(100)


@pytest.mark.programs
def test_the_controllers_make_pods(shared: cluster.Cluster) -> None:
    assert call(shared, "POST", "/apis/apps/v1/namespaces/default/deployments", DEPLOYMENT)[0] == 201
    path = "/api/v1/namespaces/default/pods?labelSelector=app%3Dweb"
    processes.wait_until(lambda: len(call(shared, "GET", path)[1]["items"]) == 2, timeout=20, what="Two pods")


@pytest.mark.programs
def test_a_second_boot_changes_nothing(shared: cluster.Cluster) -> None:
    before = processes.running(shared.folder)
    assert boot(shared.folder) == shared
    assert processes.running(shared.folder) == before


@pytest.mark.programs
def test_what_died_is_started_again_and_the_rest_is_kept(shared: cluster.Cluster) -> None:
    before = processes.running(shared.folder)
    os.kill(before["kube-scheduler"].pid, signal.SIGKILL)
    processes.wait_until(lambda: "kube-scheduler" not in processes.running(shared.folder), timeout=60, what="The end")
    boot(shared.folder)
    after = processes.running(shared.folder)
    assert {name for name in PARTS if before[name] != after[name]} == {"kube-scheduler"}


@pytest.mark.programs
def test_the_kubeconfig_names_the_cluster(shared: cluster.Cluster) -> None:

    config = yaml.safe_load(shared.kubeconfig.read_text())
    assert config["current-context"] == "one"
    assert config["clusters"][0]["cluster"]["server"] == shared.server


@pytest.mark.sweep
@pytest.mark.programs
def test_data_outlives_a_stop_and_a_taken_port_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    try:
        first = boot(folder)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}}
        assert call(first, "POST", "/api/v1/namespaces", namespace)[0] == 201
        # As a machine that is switched off: nobody says goodbye.
        processes.stop(folder, grace=0.0)
        second = boot(folder)
        assert second.server == first.server
        assert call(second, "GET", "/api/v1/namespaces/kept")[0] == 200
        cluster.shut_down(folder)
        assert processes.running(folder) == {}
        with socket.create_server(("127.0.0.1", read_json(folder / "cluster.json")["ports"]["api"])):
            third = boot(folder)
            assert third.server != first.server
            assert third.server in third.kubeconfig.read_text()
            assert call(third, "GET", "/api/v1/namespaces/kept")[0] == 200
    finally:
        cluster.erase(folder)
    assert not folder.exists()
    listing = subprocess.run(["/bin/ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(folder) not in listing


@pytest.mark.sweep
@pytest.mark.programs
def test_the_data_of_another_cluster_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    try:
        boot(folder)
        cluster.shut_down(folder)
        record = read_json(folder / "cluster.json")
        write_json(folder / "cluster.json", {**record, "kube_system_uid": "other"})
        with pytest.raises(SandboxError, match="holds the data of another cluster"):
            boot(folder)
    finally:
        cluster.erase(folder)
