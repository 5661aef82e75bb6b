"""A kubelet that pulls from a registry with a log-in, by the Secret that a stack gives its pods; and that does not without.

The registry is distribution's own, on loopback, with TLS of its own authority. The node trusts that as real ones do: by a
hosts.toml for that registry, which also means that the node's usual mirror does not answer for it.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import socket
import threading
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.proof.key_wait import key_wait_spec
from gpu_pools.rendering.registry import docker_config
from gpu_pools.stack.kubernetes_names import DEVICE_PLUGIN_CONFIG_LABEL
from sandbox.cluster import control_plane
from sandbox.cluster.api import Api
from sandbox.real_node import allowed, images, node
from sandbox.real_node.place import Place
from sandbox.system import private_network, processes
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built, find_tools
from sandbox.toolchain.obtain import obtain
from sandbox.toolchain.programs import REAL_NODE
from sandbox.toolchain.tools import PLATFORM_TOOLS
from tests.registries import hand_out_to, make_trust, running
from tests.unit.stacks import existing, plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpu_pools.plan.planned import Plan
    from tests.registries import Registry

pytestmark = [pytest.mark.programs, pytest.mark.sweep]

USER, PASSWORD = "robot", "of-the-tests"
NAMESPACE: Final = "/api/v1/namespaces/default"
SECONDS: Final = 90.0


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry that knows one user, and has one image that runs."""
    if refused := allowed.obstacle():
        pytest.skip(f"real nodes were NOT tried: {refused}")
    trust = make_trust(tmp_path_factory.mktemp("registry"))
    program = find_built("registry", Progress()) / "registry"
    with running(program, trust, hand_out_to(trust, USER, PASSWORD)) as found:
        layer = images.Packed().layer(images.tools())
        config, manifest = images.described([layer.reference()], {"Cmd": ["sh"]}, {})
        for blob in (layer, config):
            found.put_blob("mirror/library/busybox", blob.content)
        found.put_manifest("mirror/library/busybox", "1.37", manifest.content, manifest.kind)
        yield found


@pytest.fixture(scope="module")
def place(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A node that can reach the registry, trusts its authority, and has a label as of a pool."""
    try:
        obtain(REAL_NODE, Progress())
    except SandboxError as error:
        pytest.skip(f"real nodes were NOT tried: {error.message}")
    cluster = tmp_path_factory.mktemp("private") / "cluster"
    control_plane.boot(cluster, "private", find_tools(Progress(), only=PLATFORM_TOOLS), machines=False)
    try:
        found = Place(cluster, "real-0")
        node.up(found, Progress())
        _trust(found.root, registry)
        api = Api.at(cluster / "kubeconfig")
        api.patch(f"/api/v1/nodes/{found.node}", {"metadata": {"labels": {DEVICE_PLUGIN_CONFIG_LABEL: "any"}}})
        with contextlib.ExitStack() as ways:
            for address in (registry.address, registry.realm.address):
                ways.enter_context(_reached(found, int(address.rpartition(":")[2])))
            yield found
    finally:
        node.down_all(cluster)
        control_plane.erase(cluster)


def _trust(root: Path, registry: Registry) -> None:
    folder = root / "etc/containerd/certs.d" / registry.address
    folder.mkdir()
    authority = folder / "ca.crt"
    shutil.copyfile(registry.trust.authority, authority)
    host = f"https://{registry.address}"
    inside = f"/{authority.relative_to(root)}"
    (folder / "hosts.toml").write_text(f'server = "{host}"\nca = "{inside}"\n[host."{host}"]\n  ca = "{inside}"\n')


@contextlib.contextmanager
def _reached(place: Place, port: int) -> Iterator[None]:
    """Has a port of this machine's 127.0.0.1 be one of the node's, too."""
    inside = private_network.listening(int((place.folder / "pid").read_text("ascii")), "127.0.0.1", port)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = inside.accept()
                threading.Thread(
                    target=private_network.carry, args=(connection, socket.create_connection(("127.0.0.1", port))), daemon=True
                ).start()

    threading.Thread(target=serve, daemon=True).start()
    with inside:
        yield


@pytest.fixture
def plan(registry: Registry) -> Plan:
    section: Any = {"mirror": f"{registry.address}/mirror", "username": USER, "password": PASSWORD}
    # The default is by digest, and nobody's content here has that.
    return plan_of(existing(registry=section, nodeFeatureDiscovery={"markerImage": _image(registry)}))


def _image(registry: Registry) -> str:
    return f"{registry.address}/mirror/library/busybox:1.37"


def _secret(plan: Plan, password: str) -> dict[str, Any]:
    text = docker_config(plan.settings.registry.server, USER, password)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": plan.settings.registry.pull_secret},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(text.encode()).decode()},
    }


def _pod(api: Api) -> dict[str, Any]:
    """The DaemonSet's only one; empty before it is there."""
    return next(iter((api.get(f"{NAMESPACE}/pods") or {})["items"]), {})


def _waiting(api: Api) -> dict[str, Any]:
    """What its container waits for."""
    containers = _pod(api).get("status", {}).get("containerStatuses") or [{}]
    return containers[0].get("state", {}).get("waiting") or {}


def _refused(api: Api) -> str:
    """What is said of a pull that was refused."""

    def refused() -> bool:
        return _waiting(api).get("reason") in {"ErrImagePull", "ImagePullBackOff"} and "Unauthorized" in _waiting(api)["message"]

    try:
        processes.wait_until(refused, timeout=SECONDS, what="a pull is refused")
    except SandboxError as error:
        raise AssertionError(f"{error}: {_pod(api).get('status')}") from error
    return str(_waiting(api)["message"])


def _again(api: Api) -> None:
    """Another pod in the place of the one that waits."""
    before = _pod(api)["metadata"]
    api.delete(f"{NAMESPACE}/pods/{before['name']}", grace_seconds=0)
    processes.wait_until(
        lambda: _pod(api).get("metadata", before)["uid"] != before["uid"], timeout=SECONDS, what="another pod is there"
    )


def test_the_pods_of_a_stack_pull_by_its_secret_and_not_without(place: Place, plan: Plan, registry: Registry) -> None:
    api = Api.at(place.cluster / "kubeconfig")
    spec = key_wait_spec(plan, plan.settings.nfd.labeller_image)
    daemon_set = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "wait"}, "spec": spec}
    api.create("/apis/apps/v1/namespaces/default/daemonsets", daemon_set)

    assert "401 Unauthorized" in _refused(api)

    api.create(f"{NAMESPACE}/secrets", _secret(plan, "another"))
    _again(api)
    assert "401 Unauthorized" in _refused(api)

    api.delete(f"{NAMESPACE}/secrets/{plan.settings.registry.pull_secret}")
    api.create(f"{NAMESPACE}/secrets", _secret(plan, PASSWORD))
    _again(api)
    processes.wait_until(
        lambda: _pod(api).get("status", {}).get("phase") == "Running", timeout=SECONDS, what=f"the pod runs: {_waiting(api)}"
    )
    assert _pod(api)["status"]["containerStatuses"][0]["image"] == _image(registry)
