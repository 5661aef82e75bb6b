"""How an OpenStack is asked: pages, refusals, redirections, answers that are none. Real ones are asked in tests/engine."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from keystoneauth1.access import AccessInfoV3

from gpu_pools.components.magnum import check as openstack_check
from gpu_pools.components.magnum import session as openstack_session
from gpu_pools.components.magnum.check import read_cloud
from gpu_pools.components.magnum.cluster import MagnumCluster
from gpu_pools.components.magnum.session import NotThereError, Session, UnreadError, client
from gpu_pools.components.magnum.settings import Settings
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.platforms.judgement import Unread
from gpu_pools.platforms.magnum.answers import Free, Group, MachineFlavor, Named
from gpu_pools.platforms.magnum.cloud import Need
from gpu_pools.text.errors import InvalidStackError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pulumi

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]

MINE = "9e2a8ea1-0000-4000-8000-000000000000"
TEMPLATE = {"uuid": "t-1", "name": "k8s", "flavor_id": "m2", "image_id": "fcos", "labels": {"kube_tag": "v1"}}
MAGNUM: dict[str, Any] = {
    "clusters": {"clusters": [{"uuid": MINE, "name": "mine"}]},
    f"clusters/{MINE}": {
        "cluster_template_id": "t-1",
        "keypair": "admin",
        "flavor_id": "m3",
        "master_flavor_id": "m4",
        "status": "UPDATE_FAILED",
        "status_reason": "no host",
        "labels": {"auto_scaling_enabled": "true"},
    },
    f"clusters/{MINE}/nodegroups": {"nodegroups": [{"uuid": "g-1", "name": "a", "node_count": 2}]},
    f"clusters/{MINE}/nodegroups/g-1": {
        "name": "a",
        "node_count": 2,
        "flavor_id": "g2",
        "image_id": "gpu",
        "status": "UPDATE_COMPLETE",
        "status_reason": None,
        "docker_volume_size": 50,
    },
    "clustertemplates/t-1": TEMPLATE,
    "clustertemplates/hidden%20one": {**TEMPLATE, "uuid": "t-2", "name": "hidden one"},
    "clustertemplates/detail": {"clustertemplates": [TEMPLATE]},
    "quotas/p/Cluster": {"hard_limit": 5},
}
FLAVOR = {"id": "1", "name": "m2", "vcpus": 2, "ram": 4096}
LIMITS = {
    "maxTotalInstances": 10,
    "totalInstancesUsed": 4,
    "maxTotalCores": -1,
    "totalCoresUsed": 7,
    "maxTotalRAMSize": 100,
    "totalRAMUsed": 200,
}
OTHERS: dict[str, Any] = {
    # Behind a proxy: the address of the next page is not one that could be asked.
    "nova/flavors/detail": {"flavors": [FLAVOR], "flavors_links": [{"rel": "next", "href": "http://inner/flavors?marker=1"}]},
    "nova/flavors/detail?1": {"flavors": [{**FLAVOR, "id": "2", "name": "g2"}]},
    "nova/os-keypairs": {"keypairs": [{"keypair": {"name": "admin"}}]},
    "nova/limits": {"limits": {"absolute": LIMITS}},
    "glance/v2/images": {
        "images": [{"id": "i-1", "name": "fcos", "os_distro": "fedora-coreos", "kube_version": "v1.34.2"}],
        "next": "/v2/images?marker=i-1",
    },
    "glance/v2/images?i-1": {"images": [{"id": "i-2", "name": None}]},
    f"glance/v2/images/{MINE}": {"id": MINE, "name": "community", "os_distro": "ubuntu"},
    "neutron/v2.0/networks": {"networks": [{"id": "n-1", "name": "public"}]},
}
NO_IMAGE: Any = {"image": "none", "external_network": "public", "flavor": "m2"}
ALL = {**{f"magnum/v1/{path}": answer for path, answer in MAGNUM.items()}, **OTHERS}


def logged_in(services: dict[str, str], settings: Settings = Settings()) -> Session:  # noqa: B008 - it is frozen
    return Session(client(AccessInfoV3({"token": {}}, "a-token"), settings), "p", services)


class _Cloud(ThreadingHTTPServer):
    """Answers from `answers`: an object, or a status with a Location."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, Any] = dict(ALL)
        self.headers: list[dict[str, str]] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def session(self) -> Session:
        address = f"http://127.0.0.1:{self.server_address[1]}"
        places = {"Magnum": "magnum/v1", "Nova": "nova", "Glance": "glance/v2", "Neutron": "neutron/v2.0"}
        return logged_in({name: f"{address}/{place}" for name, place in places.items()})


class _Handler(BaseHTTPRequestHandler):
    server: _Cloud

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        marker = parse_qs(address.query).get("marker")
        self.server.headers.append(dict(self.headers))
        answer = self.server.answers.get(address.path.strip("/") + (f"?{marker[0]}" if marker else ""), 404)
        self.send_response(answer if isinstance(answer, int) else 200)
        self.send_header("OpenStack-API-Maximum-Version", "container-infra 1.14")
        self.send_header("Location", "http://127.0.0.1:9/elsewhere")
        self.end_headers()
        self.wfile.write(b"" if isinstance(answer, int) else answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def cloud() -> Iterator[_Cloud]:
    server = _Cloud()
    yield server
    server.shutdown()
    server.server_close()


def test_all_pages_are_read_and_what_no_list_has(cloud: _Cloud) -> None:
    wanted = (Need("image", MINE, "a"), Need("image", "no-id", "b"), Need("cluster template", "hidden one", "c"))
    read = read_cloud(cloud.session(), wanted, "mine")
    assert read.flavors == [MachineFlavor("1", "m2", 2, 4096), MachineFlavor("2", "g2", 2, 4096)]
    assert [image.name for image in read.images] == ["fcos", "", "community"]  # type: ignore[union-attr]
    assert [image.kube_version for image in read.images] == ["v1.34.2", "", ""]  # type: ignore[union-attr]
    assert (read.keypairs, read.networks) == ([Named("admin", "admin")], [Named("n-1", "public")])
    assert read.free == Free(machines=6, vcpus=None, memory=0)
    magnum = read.magnum
    assert not isinstance(magnum, Unread)
    assert (magnum.newest, magnum.clusters, magnum.limit) == ((1, 14), ("mine",), 5)
    assert magnum.groups == {"a": Group(2, "UPDATE_COMPLETE", "", "gpu", 50, flavor="g2")}
    assert (magnum.status, magnum.reason, magnum.labels) == ("UPDATE_FAILED", "no host", {"auto_scaling_enabled": "true"})
    assert [template.labels for template in magnum.templates] == [{"kube_tag": "v1"}] * 2
    assert [template.name for template in magnum.templates] == ["k8s", "hidden one"]
    assert magnum.made_of is not None
    assert magnum.made_of.names == {"t-1", "k8s"}
    assert (magnum.made_of.says["image"], magnum.made_of.says["labels"]) == ("fcos", {"kube_tag": "v1"})
    used = {("cluster template", "t-1"), ("cluster template", "k8s"), ("image", "fcos"), ("image", "gpu"), ("keypair", "admin")}
    assert magnum.in_use == used | {("flavor", name) for name in ("m2", "m3", "m4", "g2")}
    assert {headers["X-Auth-Token"] for headers in cloud.headers} == {"a-token"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (403, "Nova answers 403"),
        (404, "Nova answers 404"),
        (302, "Nova answers 302"),
        (b"<html>", "Nova: Expecting value"),
        ([], "Nova answers no JSON object"),
        ({"keypairs": [{}]}, "the answer was not understood"),
    ],
)
def test_what_is_not_answered_is_unread_and_the_rest_is_not(cloud: _Cloud, answer: Any, why: str) -> None:
    cloud.answers["nova/os-keypairs"] = answer
    read = read_cloud(cloud.session(), (), "mine")
    assert isinstance(read.keypairs, Unread)
    assert why in read.keypairs.why
    assert not any(isinstance(one, Unread) for one in (read.magnum, read.flavors, read.images, read.networks, read.free))


@pytest.mark.parametrize("status", [401, 429, 503])
def test_a_service_that_refuses_is_asked_once(cloud: _Cloud, status: int) -> None:
    """A deploy does not wait for a cloud that cannot be asked."""
    cloud.answers["nova/limits"] = status
    with pytest.raises(UnreadError, match=f"Nova answers {status}"):
        cloud.session().get("Nova", "limits")
    assert len(cloud.headers) == 1


def test_a_service_that_does_not_answer_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openstack_session, "_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(UnreadError, match=r"^Nova: timed out$"):
            logged_in({"Nova": f"http://127.0.0.1:{silent.getsockname()[1]}"}).get("Nova", "limits")
        silent.settimeout(0)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_a_list_without_an_end_is_given_up(cloud: _Cloud) -> None:
    for page in ("nova/flavors/detail", "nova/flavors/detail?1"):
        cloud.answers[page] = OTHERS["nova/flavors/detail"]
    assert read_cloud(cloud.session(), (), "mine").flavors == Unread("Nova lists more than 20 pages")


def test_a_quota_that_may_not_be_read_is_all_that_is_missing(cloud: _Cloud) -> None:
    del cloud.answers["magnum/v1/quotas/p/Cluster"]
    magnum = read_cloud(cloud.session(), (), "other").magnum
    assert not isinstance(magnum, Unread)
    assert (magnum.limit, magnum.in_use) == (Unread("Magnum answers 404"), frozenset())


def test_a_service_that_is_not_there_is_named() -> None:
    with pytest.raises(UnreadError, match="Nova is not in the catalogue"):
        logged_in({}).get("Nova", "limits")
    with pytest.raises(UnreadError, match=r"Nova: .*refused") as refused:
        logged_in({"Nova": "http://127.0.0.1:9"}).get("Nova", "limits")
    assert not isinstance(refused.value, NotThereError)
    assert "a-token" not in repr(logged_in({}))


class TestAClusterThatIsUsedAlone:
    """It asks for itself; inside a platform that has asked, with the pools."""

    @pytest.fixture
    def asked(self, cloud: _Cloud, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
        """How often each component had its provider log in."""
        count: Counter[str] = Counter()

        def log_in(parent: pulumi.Resource) -> Session:
            count[type(parent).__name__] += 1
            return cloud.session()

        monkeypatch.setattr(openstack_check, "log_in", log_in)
        return count

    def test_what_the_cloud_lacks_is_told_in_its_own_arguments(self, run: Run, asked: Counter[str]) -> None:
        def program() -> None:
            with pytest.raises(InvalidStackError) as refused:
                MagnumCluster("c", {"name": "gpu", "driver": "heat", "template": NO_IMAGE, "keypair": "nobody"})
            found = {problem.path: problem.message for problem in refused.value.problems}
            assert list(found) == ["MagnumCluster(c).template.image", "MagnumCluster(c).keypair", "MagnumCluster(c)"]
            assert "8 more GiB of memory are asked for" in found["MagnumCluster(c)"]

        recorded = run(program)
        assert asked == {"MagnumCluster": 1}
        assert not recorded.of(":Cluster") + recorded.of(":ClusterTemplate")

    def test_it_can_be_told_not_to(self, run: Run, asked: Counter[str]) -> None:
        args: Any = {"name": "gpu", "driver": "heat", "template": NO_IMAGE, "check_cloud": False}
        assert run(lambda: MagnumCluster("c", args)).of("containerinfra/cluster:Cluster")
        assert not asked

    def test_a_platform_asks_once_for_all_of_its_parts(self, run: Run, cloud: _Cloud, asked: Counter[str]) -> None:
        cloud.answers["nova/limits"] = 403
        platform: Any = {
            "cluster": {"platform": "magnum", "name": "mine", "driver": "heat", "templateId": "k8s", "keypair": "admin"},
            "flavors": {"g2": {"gpuModel": "a100-40gb", "gpusPerNode": 1}},
            "sharing": {"whole": {"exclusive": {}}},
            "pools": [{"name": "a", "flavor": "g2", "count": 2, "sharing": "whole"}],
        }
        assert run(lambda: GpuPlatform("gpu", platform)).of("containerinfra/cluster:Cluster")
        assert asked == {"GpuPlatform": 1}
