"""Which claims a pod has, what keeps them from being prepared, and when ResourceSlices are deleted."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import pytest

from sandbox.cluster.api_errors import ApiError
from sandbox.cluster.machine_groups import Hardware, MachineGroup
from sandbox.machines import kubelet, objects, pod_claims
from sandbox.machines.dra_manager import WIPING_DELAY_SECONDS, ClaimRequest
from sandbox.machines.dra_messages import Claim
from sandbox.machines.machine import Machine
from sandbox.machines.pod_claims import PodClaims, is_dra_backed
from sandbox.machines.programs import Context

if TYPE_CHECKING:
    from sandbox.machines.node_programs import NodePrograms
    from sandbox.machines.outcomes import Creating
    from sandbox.machines.world import World

FAILED = "Failed to prepare dynamic resources: prepare dynamic resources: "
OWN: dict[str, Any] = {"name": "gpu", "resourceClaimName": "mine"}
MADE: dict[str, Any] = {"name": "gpu", "resourceClaimTemplateName": "template"}
EXTENDED: dict[str, Any] = {
    "resourceClaimName": "extended",
    "requestMappings": [{"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "r0"}],
}
GROUP = MachineGroup("gpu", "gpu", 1, Hardware(4, 16, "t4-16gb", "Tesla T4", 1))


def claim(
    name: str, *, reserved: str = "u", owner: str = "u", drivers: tuple[str, ...] | None = ("a", "b", "a")
) -> dict[str, Any]:
    results = None if drivers is None else {"devices": {"results": [{"driver": driver} for driver in drivers]}}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "ownerReferences": [{"uid": owner, "controller": True}]},
        "status": {"reservedFor": [{"uid": reserved}], "allocation": results},
    }


@dataclass
class Api:
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    refuses: bool = False

    def get(self, path: str) -> dict[str, Any] | None:
        assert path.startswith("/apis/resource.k8s.io/v1/namespaces/space/resourceclaims/")
        return self.claims.get(path.rpartition("/")[2])

    def delete(self, path: str) -> None:
        if self.refuses:
            raise ApiError(500, "InternalError", "no")
        self.deleted.append(unquote(path.partition("=")[2]))


@dataclass
class TestWorld:
    __test__ = False
    api: Api = field(default_factory=Api)
    machines: dict[str, Machine] = field(default_factory=lambda: {"node": Machine("node", GROUP)})
    asked: list[float] = field(default_factory=list)

    def again_in(self, seconds: float) -> None:
        self.asked.append(seconds)


@dataclass
class Programs:
    answer: str | None = ""
    wanted: list[tuple[str, tuple[ClaimRequest, ...]]] = field(default_factory=list)
    released: bool = True
    silent: dict[str, float] = field(default_factory=dict)
    kept: list[frozenset[str]] = field(default_factory=list)

    def prepare_claims(self, machine: Machine, pod: str, wanted: tuple[ClaimRequest, ...]) -> str | None:
        assert machine.node == "node"
        self.wanted.append((pod, wanted))
        return self.answer

    def release_claims(self, machine: Machine, pod: str) -> bool:
        del machine, pod
        return self.released

    def keep_claims(self, machine: Machine, pods: frozenset[str]) -> None:
        del machine
        self.kept.append(pods)

    def silent_drivers(self, machine: Machine) -> dict[str, float]:
        del machine
        return dict(self.silent)

    def forget_driver(self, machine: Machine, driver: str) -> None:
        del machine
        del self.silent[driver]


class Site:
    def __init__(self) -> None:
        self.world, self.programs = TestWorld(), Programs()
        self.claims = PodClaims(cast("NodePrograms", self.programs))

    def obstacle(self, pod: dict[str, Any]) -> Creating | None:
        world = cast("World", self.world)
        return self.claims.obstacle(Context(world, self.world.machines["node"], {}, pod, {}, {}))

    def step(self, *pods: str) -> None:
        self.claims.step(cast("World", self.world), frozenset(pods))


def pod(*entries: dict[str, Any], made: str | None = None, extended: dict[str, Any] | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {"extendedResourceClaimStatus": extended} if extended else {}
    if made is not None:
        status["resourceClaimStatuses"] = [{"name": "gpu", **({"resourceClaimName": made} if made else {})}]
    spec = {"nodeName": "node", "resourceClaims": list(entries)}
    return {"metadata": {"name": "pod", "namespace": "space", "uid": "u"}, "spec": spec, "status": status}


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.mark.parametrize(
    ("asks", "name"),
    [(pod(OWN), "mine"), (pod(MADE, made="made"), "made"), (pod(extended=EXTENDED), "extended")],
)
def test_each_kind_of_claim_is_prepared_by_its_drivers(site: Site, asks: dict[str, Any], name: str) -> None:
    site.world.api.claims = {name: claim(name)}
    assert site.obstacle(asks) is None
    assert site.programs.wanted == [("u", (ClaimRequest(Claim("space", f"uid-{name}", name), ("a", "b")),))]


def test_a_pod_without_claims_needs_no_driver(site: Site) -> None:
    assert site.obstacle(pod()) is None
    assert site.programs.wanted == []


def test_a_claim_that_a_template_did_not_make_on_purpose_is_passed_over(site: Site) -> None:
    assert site.obstacle(pod(MADE, made="")) is None
    assert site.programs.wanted == [("u", ())]


@pytest.mark.parametrize(
    ("asks", "found", "words"),
    [
        (pod(MADE), None, 'pod "space/pod": ResourceClaim not created yet'),
        (pod(OWN), None, 'fetch ResourceClaim mine: resourceclaims.resource.k8s.io "mine" not found'),
        (pod(OWN), claim("mine", drivers=None), "ResourceClaim mine: not allocated"),
        (pod(OWN), claim("mine", reserved="other"), "pod pod (u) is not allowed to use ResourceClaim mine (uid-mine)"),
        (
            pod(MADE, made="mine"),
            claim("mine", owner="other"),
            "ResourceClaim space/mine was not created for Pod space/pod (Pod is not owner)",
        ),
    ],
)
def test_a_claim_that_the_pod_cannot_use_is_said_as_a_kubelet_says_it(
    site: Site, asks: dict[str, Any], found: dict[str, Any] | None, words: str
) -> None:
    site.world.api.claims = {"mine": found} if found else {}
    outcome = site.obstacle(asks)
    assert outcome is not None
    assert (outcome.reason, outcome.event) == ("ContainerCreating", "FailedPrepareDynamicResources")
    assert outcome.message == FAILED + words
    assert site.programs.wanted == []


def test_somebody_else_s_claim_that_is_named_may_be_of_any_owner(site: Site) -> None:
    site.world.api.claims = {"mine": claim("mine", owner="other")}
    assert site.obstacle(pod(OWN)) is None


def test_while_drivers_prepare_nothing_is_said_and_claims_are_read_once(site: Site) -> None:
    site.world.api.claims, site.programs.answer = {"mine": claim("mine")}, None
    outcome = site.obstacle(pod(OWN))
    assert outcome is not None
    assert (outcome.reason, outcome.message) == ("ContainerCreating", "")
    site.world.api.claims = {}
    site.programs.answer = "no room"
    outcome = site.obstacle(pod(OWN))
    assert outcome is not None
    assert outcome.message == f"{FAILED}no room"
    # Read anew after a failure.
    site.programs.answer = ""
    outcome = site.obstacle(pod(OWN))
    assert outcome is not None
    assert "not found" in outcome.message


def test_a_pod_is_asked_for_again_until_its_claims_are_given_back(site: Site) -> None:
    site.programs.released = False
    world = cast("World", site.world)
    assert (site.claims.released(world, pod(OWN)), len(site.world.asked)) == (False, 1)
    assert site.claims.released(world, pod()), "it has none"
    site.programs.released = True
    assert site.claims.released(world, pod(OWN))
    site.programs.released, site.world.machines = False, {}
    assert site.claims.released(world, pod(OWN)), "its node is gone"


def test_what_was_prepared_for_pods_that_are_gone_is_given_back(site: Site) -> None:
    site.step("u", "v")
    assert site.programs.kept == [frozenset({"u", "v"})]


def test_slices_go_once_their_driver_has_been_silent_for_half_a_minute(site: Site) -> None:
    now = time.monotonic()
    site.programs.silent = {"long": now - WIPING_DELAY_SECONDS - 1, "short": now}
    site.world.api.refuses = True
    site.step()
    assert (site.world.api.deleted, set(site.programs.silent)) == ([], {"long", "short"})
    site.world.api.refuses = False
    site.step()
    assert site.world.api.deleted == ["spec.nodeName=node,spec.driver=long"]
    assert set(site.programs.silent) == {"short"}
    assert all(0 < seconds <= WIPING_DELAY_SECONDS for seconds in site.world.asked)
    assert WIPING_DELAY_SECONDS == 30


def test_a_machine_that_is_new_begins_without_slices(site: Site) -> None:
    world = cast("World", site.world)
    site.world.machines["plain"] = Machine("plain", MachineGroup("plain", "plain", 1, Hardware(4, 16)))
    for _ in range(2):
        site.claims.begin(world)
    assert site.world.api.deleted == ["spec.nodeName=node"]
    kept, site.world.machines = site.world.machines, {}
    site.claims.begin(world)
    site.world.machines = kept
    site.claims.begin(world)
    assert site.world.api.deleted == ["spec.nodeName=node"] * 2


def test_a_resource_that_dra_has_allocated_is_no_device_plugin_s_matter() -> None:
    backed = pod(extended=EXTENDED)
    assert is_dra_backed(backed, "main", "nvidia.com/gpu")
    assert not is_dra_backed(backed, "main", "nvidia.com/mig-1g.10gb")
    assert not is_dra_backed(backed, "other", "nvidia.com/gpu")
    assert not is_dra_backed(pod(OWN), "main", "nvidia.com/gpu")
    assert pod_claims.has_claims(backed)


@pytest.mark.parametrize(("extended", "rejected"), [(None, True), (EXTENDED, False)])
def test_two_of_a_shared_resource_are_refused_by_a_device_plugin_alone(
    site: Site,
    extended: dict[str, Any] | None,
    rejected: bool,  # noqa: FBT001
) -> None:
    asks = pod(extended=extended)
    asks["spec"]["containers"] = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]
    machine = Machine("node", GROUP, one_per_request=("nvidia.com/gpu",))
    outcome = kubelet._rejected(Context(cast("World", site.world), machine, {}, asks, {}, {}))
    assert (outcome is not None) is rejected


def test_a_pod_with_claims_counts_as_one_that_holds_a_gpu() -> None:
    plain = {"spec": {"containers": [{"name": "main"}]}}
    assert not objects.requests_gpu(plain)
    assert objects.requests_gpu({"spec": {**plain["spec"], "resourceClaims": [OWN]}})
