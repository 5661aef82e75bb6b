"""Runs components against recorded mocks: what they ask of the engine is what the tests look at."""

from __future__ import annotations

import asyncio
import base64
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pulumi
import pytest
from pulumi.runtime import mocks, settings, stack
from pulumi.runtime.mocks import MockMonitor

from gpu_pools.components.proof import fixed_counts
from tests.api_server import ApiServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KUBECONFIG = """\
apiVersion: v1
kind: Config
contexts:
- {name: byo, context: {cluster: byo, user: byo}}
- {name: other, context: {cluster: byo, user: byo}}
current-context: other
users:
- {name: byo, user: {token: very-secret-token}}
"""


#: What kubelogin prints.
TOKEN = "a-token-that-nobody-keeps"  # noqa: S105
#: As AKS hands it out to users of a cluster with Entra ID.
ENTRA_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- {name: c, cluster: {server: "https://c.example", certificate-authority-data: Y2E=}}
contexts:
- {name: c, context: {cluster: c, user: u}}
current-context: c
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: kubelogin
      args: [get-token, --environment, AzurePublicCloud, --server-id, 6dae42f8-4368-4678-94ff-3960e28e3630, --login, devicecode]
"""
#: An AKS cluster that is there, as Azure shows it.
NETWORK = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/hub"
FOUND_CLUSTER: dict[str, Any] = {
    "id": "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/prod",
    "name": "prod",
    "currentKubernetesVersion": "1.34.2",
    "provisioningState": "Succeeded",
    "powerState": {"code": "Running"},
    "aadProfile": {"managed": True},
    "identityProfile": {"kubeletidentity": {"objectId": "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"}},
    "agentPoolProfiles": [{"name": "system", "mode": "System", "vnetSubnetID": f"{NETWORK}/subnets/nodes"}],
}
#: UUID of a cluster template that exists.
GIVEN_TEMPLATE = "ff441446-0e6b-52a4-bff6-b0529221ae0f"
#: UUID of a Magnum cluster that is there.
MAGNUM_CLUSTER = "5d12f6fd-a196-4bf0-ae4c-1f639a523a52"
#: The signature of a secret value on the wire.
_SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105


@dataclass(frozen=True)
class Registered:
    """A resource as the engine was asked for it."""

    type: str
    name: str
    inputs: dict[str, Any]


#: Types whose ids are read, and so have ARM's form.
_PROVIDERS: Final = {
    "azure-native:monitor:AzureMonitorWorkspace": "Microsoft.Monitor/accounts",
    "azure-native:dashboard:Grafana": "Microsoft.Dashboard/grafana",
}


@dataclass
class Recorder(pulumi.runtime.Mocks):
    """Remembers every registration with its inputs, and answers as the clouds would."""

    resources: list[Registered] = field(default_factory=list)
    requests: dict[str, Any] = field(default_factory=dict)
    #: Whether Kubernetes objects have a uid, as what a cluster has made has one.
    uids: bool = False

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[Any, Any]]:
        self.resources.append(Registered(args.typ, args.name, dict(args.inputs)))
        outputs = {**args.inputs, "name": args.inputs.get("name") or args.inputs.get("resourceName") or args.name}
        if self.uids and "metadata" in outputs:
            outputs["metadata"] = {**outputs["metadata"], "uid": f"{args.name}-uid"}
            if args.typ.endswith(":ConfigMapPatch"):
                # As the real provider answers: with all that the object had then, of an earlier stack, too.
                outputs["data"] = {**args.inputs["data"], "of-an-earlier-stack": "gone by now"}
        if args.typ == "openstack:containerinfra/cluster:Cluster":
            outputs["kubeconfig"] = {"raw_config": KUBECONFIG}
        if own := (args.inputs.get("identity") or {}).get("userAssignedIdentities"):
            # What is asked for as a list is answered as a mapping.
            outputs["identity"] = {**args.inputs["identity"], "userAssignedIdentities": {one: {} for one in own}}
        if provider := _PROVIDERS.get(args.typ):
            return f"/subscriptions/s/resourceGroups/g/providers/{provider}/{args.name}", outputs
        return f"{args.name}-id", outputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[Any, Any]:
        if args.token.endswith(":getCluster"):
            return {"id": MAGNUM_CLUSTER, "kubeconfig": {"raw_config": KUBECONFIG}, "labels": {"auto_scaling_enabled": "true"}}
        if args.token.startswith("openstack:"):
            return {"id": GIVEN_TEMPLATE, "name": args.args["name"]}
        if args.token.endswith(":getClientConfig"):
            return {"clientId": "c", "objectId": "o", "subscriptionId": "s", "tenantId": "t"}
        if args.token.endswith(":getGrafana"):
            return {"identity": {"type": "SystemAssigned", "principalId": "p", "tenantId": "t"}}
        if args.token.endswith(":getManagedCluster"):
            return dict(FOUND_CLUSTER)
        text = ENTRA_KUBECONFIG if args.args.get("format") == "exec" else KUBECONFIG
        return {"kubeconfigs": [{"name": "clusterUser", "value": base64.b64encode(text.encode()).decode()}]}

    def of(self, suffix: str) -> list[Registered]:
        """The resources whose type ends so, in the order of registration."""
        return [resource for resource in self.resources if resource.type.endswith(suffix)]

    def one(self, suffix: str, name: str | None = None) -> Registered:
        """The only resource of such a type (and name)."""
        (found,) = [resource for resource in self.of(suffix) if name in {None, resource.name}]
        return found

    def options(self, name: str, suffix: str = "") -> Any:
        """The registration request of a resource: its options as the engine gets them."""
        (found,) = [
            request
            for request in self.requests.values()
            if request.name == name and (request.custom if not suffix else request.type.endswith(suffix))
        ]
        return found

    def is_secret(self, name: str, key: str) -> bool:
        """Whether the engine was given an input as a secret."""
        return _SECRET in str(self.options(name).object[key])

    def depends_on(self, name: str, suffix: str = "") -> set[str]:
        """The names of what a resource waits for."""
        return {urn.rpartition("::")[2] for urn in self.options(name, suffix).dependencies}


class _Monitor(MockMonitor):
    """The mock monitor, keeping the requests."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self.recorder = recorder

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - gRPC's name
        self.recorder.requests[f"{request.type}::{request.name}"] = request
        return super().RegisterResource(request)


@pytest.fixture(autouse=True)
def _loops_of_threads_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closes the event loops that Pulumi's mocks make for each thread of an executor and leave open, three files each.

    A process that runs all tests of components would have more than a thousand open files, and select() takes no more.
    """
    made: set[asyncio.AbstractEventLoop] = set()
    ensure = mocks._ensure_event_loop  # type: ignore[attr-defined]

    def remember() -> None:
        ensure()
        made.add(asyncio.get_event_loop())

    monkeypatch.setattr(mocks, "_ensure_event_loop", remember)
    yield
    for loop in made:
        if not loop.is_running():
            _close(loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Close a loop of which tasks and futures may be left: what they say when they are collected would be said in another
    test."""
    loop.set_exception_handler(lambda *_: None)
    loop.close()


@pytest.fixture
def run() -> Iterator[Callable[..., Recorder]]:
    """Runs a program to its end, with every output resolved, and gives back what it registered."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def run(program: Callable[[], Any], *, preview: bool = False, uids: bool = False) -> Recorder:
        recorder = Recorder(uids=uids)
        mocks.set_mocks(recorder, project="gpu-pools", stack="test", preview=preview, monitor=_Monitor(recorder))

        async def whole() -> None:
            program()

        loop.run_until_complete(stack.run_pulumi_func(whole))
        return recorder

    yield run
    settings.reset_options()
    _close(loop)
    asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def kubelogin(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubelogin that logs in, first on PATH, in a folder of its own."""
    program = tmp_path_factory.mktemp("kubelogin") / "kubelogin"
    program.write_text(f'#!/bin/sh\necho "$@" >>{program}.calls\necho {TOKEN}\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that are missing never come in these tests, and a cluster that does not answer never will."""
    monkeypatch.setattr(fixed_counts, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(fixed_counts, "_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(fixed_counts, "_seconds", lambda _plan: 0.0)
    cluster_at = fixed_counts.cluster_at

    def of_this_machine(kubeconfig: str, context: str | None) -> Any:
        if "127.0.0.1" not in kubeconfig:
            raise ConnectionError
        return cluster_at(kubeconfig, context)

    monkeypatch.setattr(fixed_counts, "cluster_at", of_this_machine)


@pytest.fixture
def api() -> Iterator[ApiServer]:
    """A cluster that answers, as long as the test takes."""
    server = ApiServer()
    yield server
    server.shutdown()
    server.server_close()
