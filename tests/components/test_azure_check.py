"""How Azure is asked, over TLS on loopback: pages, refusals, throttling, redirections, answers that are none."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from gpu_pools.components.aks import check as azure_check
from gpu_pools.components.aks import session as azure_session
from gpu_pools.components.aks.check import read_azure
from gpu_pools.components.aks.cluster import AksCluster
from gpu_pools.components.aks.session import NotThereError, Session, UnreadError, log_in, resource_manager
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.plan.planning import plan_config
from gpu_pools.platforms.aks.answers import MadeCluster, MadePool, Reservation, Size, Subnet, Usage, Version
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.judgement import Unread
from gpu_pools.text.errors import InvalidStackError
from sandbox.system.pki import make_server_pki

from .conftest import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pulumi

    from gpu_pools.stack.settings import Settings

    Run = Callable[..., Recorder]

TOKEN = "a-token"  # noqa: S105
A100 = "Standard_NC24ads_A100_v4"
NETWORK = "/subscriptions/s/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/Hub"
GROUP = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/capacityReservationGroups/Kept"
CLUSTER = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/prod"


def sku(name: str, **more: Any) -> dict[str, Any]:
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "family": "F",
        "locations": ["WestEurope"],
        "locationInfo": [{"location": "WestEurope", "zones": ["2", "1"], "zoneDetails": []}],
        "capabilities": [{"name": "vCPUs", "value": "24"}, {"name": "LowPriorityCapable", "value": "False"}],
        "restrictions": [],
        **more,
    }


RESTRICTED = [
    {
        "type": "Zone",
        "values": ["WestEurope"],
        "restrictionInfo": {"locations": ["WestEurope"], "zones": ["1"]},
        "reasonCode": "NotAvailableForSubscription",
    },
    {
        "type": "Location",
        "values": ["westus"],
        "restrictionInfo": {"locations": ["westus"]},
        "reasonCode": "NotAvailableForSubscription",
    },
]
REGION = "/subscriptions/s/providers/Microsoft.Compute/locations/westeurope"
ANSWERS: dict[str, Any] = {
    "/subscriptions/s/locations": {
        "value": [
            {"name": "westeurope", "metadata": {"regionType": "Physical"}},
            {"name": "europe", "metadata": {"regionType": "Logical"}},
        ]
    },
    "/subscriptions/s/providers/Microsoft.Compute/skus": {
        "value": [{"resourceType": "disks", "name": "Premium_LRS"}, sku(A100, restrictions=RESTRICTED)],
        "nextLink": "HERE/subscriptions/s/providers/Microsoft.Compute/skus?page=2",
    },
    "/subscriptions/s/providers/Microsoft.Compute/skus?2": {
        "value": [sku("Standard_D4s_v5", capabilities=[{"name": "vCPUs", "value": "4"}])],
        "nextLink": None,
    },
    f"{REGION}/usages": {
        "value": [
            {
                "currentValue": 4,
                "limit": 10,
                "name": {"value": "cores", "localizedValue": "Total Regional vCPUs"},
                "unit": "Count",
            }
        ]
    },
    "/subscriptions/s/providers/Microsoft.ContainerService/locations/westeurope/kubernetesVersions": {
        "values": [
            {
                "version": "1.34",
                "isDefault": True,
                "capabilities": {"supportPlan": ["KubernetesOfficial"]},
                "patchVersions": {"1.34.2": {"upgrades": []}},
            },
            {"version": "1.36", "isPreview": True, "patchVersions": {}},
        ]
    },
    CLUSTER: {
        "location": "West Europe",
        "properties": {
            "currentKubernetesVersion": "1.34.2",
            "networkProfile": {"networkPlugin": "azure", "networkPluginMode": "overlay"},
            "agentPoolProfiles": [
                {"name": "system", "vmSize": "Standard_D4s_v5", "count": 3, "vnetSubnetID": f"{NETWORK}/subnets/nodes"},
                {"name": "cheap", "vmSize": A100, "count": 1, "scaleSetPriority": "Spot"},
            ],
        },
    },
    f"{CLUSTER}/agentPools": {
        "value": [
            {"name": "system", "properties": {}},
            {"name": "theirs", "properties": {"gpuProfile": {"nvidia": {"managementMode": "Managed"}}}},
            {"name": "plain", "properties": {"gpuProfile": {"driver": "Install"}}},
        ]
    },
    f"{NETWORK.lower()}/usages": {
        "value": [
            {"id": f"{NETWORK}/subnets/nodes", "currentValue": 9.0, "limit": 251.0, "name": {"value": "SubnetSpace"}},
            {"id": f"{NETWORK}/subnets/GatewaySubnet", "currentValue": -1, "limit": -1, "name": {"value": "SubnetSpace"}},
        ]
    },
    f"{NETWORK}/subnets/unused": {"id": "x"},
    f"{GROUP}/capacityReservations": {
        "value": [{"sku": {"name": A100, "capacity": 2}, "zones": ["1"]}, {"sku": {"name": "Standard_D4s_v5"}}]
    },
}


class _Azure(ThreadingHTTPServer):
    """Answers from `answers`: an object, bytes, or a status with what Azure says, or several of them one after the other."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        pki = make_server_pki(folder, "azure", ("127.0.0.1",))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki["azure.crt"], pki["azure.key"])
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.trusted = str(pki["ca.crt"])
        self.answers: dict[str, Any] = dict(ANSWERS)
        self.asked: list[tuple[str, dict[str, str], dict[str, str]]] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self.server_address[1]}"

    def session(self) -> Session:
        return Session(self.address, "s", TOKEN)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not trust it says so itself."""


class _Handler(BaseHTTPRequestHandler):
    server: _Azure

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = dict(parse_qsl(address.query))
        self.server.asked.append((address.path, query, dict(self.headers)))
        answer = self.server.answers.get(
            address.path + (f"?{query['page']}" if "page" in query else ""), (404, "ResourceNotFound", "")
        )
        answer = answer.pop(0) if isinstance(answer, list) and answer and isinstance(answer[0], (tuple, dict)) else answer
        status, content, more = self._content(answer)
        self.send_response(status)
        for name, value in {"Location": "https://127.0.0.1:9/elsewhere", **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _content(self, answer: Any) -> tuple[int, bytes, dict[str, str]]:
        if isinstance(answer, bytes):
            return 200, answer, {}
        if isinstance(answer, tuple):
            status, code, message, *wait = answer
            told = {"error": {"code": code, "message": message}}
            return status, json.dumps(told).encode(), {"Retry-After": wait[0]} if wait else {}
        text = json.dumps(answer).replace("HERE", self.server.address).encode()
        return 200, gzip.compress(text), {"Content-Encoding": "gzip"}

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Azure]:
    server = _Azure(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", server.trusted)
    for variable in ("ARM_METADATA_HOSTNAME", "ARM_ENVIRONMENT", "AZURE_ENVIRONMENT"):
        monkeypatch.delenv(variable, raising=False)
    yield server
    server.shutdown()
    server.server_close()


def settings(existing: bool = False, **pool: Any) -> Settings:  # noqa: FBT001, FBT002 - of a test
    made = {
        "name": "prod",
        "resourceGroup": "rg",
        "location": "westeurope",
        "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1},
    }
    own = {
        "identity": {
            "userAssigned": "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i"
        }
    }
    there = {"existing": {"resourceGroup": "rg", "name": "prod"}}
    config = {
        "gpu-pools:cluster": {"platform": "aks", **(there if existing else {**made, **own})},
        "gpu-pools:sharing": {"w": {"exclusive": {}}},
        "gpu-pools:pools": [{"name": "gpu", "vmSize": A100, "count": 1, "sharing": "w", **pool}],
    }
    return plan_config(config, complete=False).settings


def read(azure: _Azure, stack: Settings) -> Any:
    assert isinstance(stack.cluster, AksSettings)
    return read_azure(azure.session(), stack.cluster, stack.pools)


# --- what is asked -----------------------------------------------------------------------------------------


def test_everything_is_read_with_all_pages(azure: _Azure) -> None:
    subnets = {"subnet": f"{NETWORK}/subnets/nodes", "podSubnet": f"{NETWORK}/subnets/unused"}
    found = read(azure, settings(existing=True, **subnets, capacityReservationGroup=GROUP))
    assert found.regions == ["westeurope"]
    assert found.sizes == {
        A100.lower(): Size(A100, "F", 24, frozenset("12"), withheld_zones=frozenset("1"), spot=False),
        "standard_d4s_v5": Size("Standard_D4s_v5", "F", 4, frozenset("12")),
    }
    assert found.usages == {"cores": Usage(4, 10)}
    assert found.versions == [Version("1.34", ("1.34.2",), default=True), Version("1.36", (), preview=True, plans=())]
    assert found.cluster == MadeCluster(
        "westeurope",
        "1.34.2",
        {"system": MadePool("standard_d4s_v5", 3), "cheap": MadePool(A100.lower(), 1, spot=True)},
        mode="overlay",
        subnets={"system": (f"{NETWORK}/subnets/nodes", ""), "cheap": ("", "")},
    )
    assert found.managed == ["theirs"]
    assert found.subnets == {
        f"{NETWORK}/subnets/nodes".lower(): Subnet(9, 251),
        f"{NETWORK}/subnets/unused".lower(): Subnet(None, None),
    }
    assert found.reservations == {
        GROUP.lower(): [Reservation(A100.lower(), 2, frozenset("1")), Reservation("standard_d4s_v5", 0)],
    }
    assert {headers["Authorization"] for _, _, headers in azure.asked} == {f"Bearer {TOKEN}"}
    assert all("api-version" in query or "page" in query for _, query, _ in azure.asked)
    (filtered,) = [query["$filter"] for path, query, _ in azure.asked if path.endswith("/skus") and "page" not in query]
    assert filtered == "location eq 'westeurope'"


def test_a_cluster_that_is_not_there_yet_is_none(azure: _Azure) -> None:
    del azure.answers[CLUSTER]
    found = read(azure, settings())
    assert (found.cluster, found.managed) == (None, ())
    assert not [path for path, *_ in azure.asked if path.endswith("/agentPools")]


def test_what_is_not_there_is_told_from_what_is_not_known(azure: _Azure) -> None:
    gone, full = f"{NETWORK}/subnets/gone", f"{NETWORK}/subnets/nodes"
    assert read(azure, settings(existing=True, subnet=gone, capacityReservationGroup=GROUP + "x")).subnets == {gone.lower(): None}
    assert read(azure, settings(existing=True, capacityReservationGroup=GROUP + "x")).reservations == {f"{GROUP}x".lower(): None}
    azure.answers[f"{NETWORK.lower()}/usages"] = (404, "ResourceNotFound", "")
    assert read(azure, settings(existing=True, subnet=full)).subnets == {full.lower(): None}
    azure.answers[f"{NETWORK.lower()}/usages"] = (503, "ServerBusy", "")
    assert read(azure, settings(existing=True, subnet=full)).subnets == {full.lower(): Unread("Azure answers 503 ServerBusy")}


def test_a_cluster_that_is_there_and_cannot_be_read_hides_its_region(azure: _Azure) -> None:
    azure.answers[CLUSTER] = (403, "AuthorizationFailed", "")
    found = read(azure, settings(existing=True))
    assert found.cluster == Unread("Azure answers 403 AuthorizationFailed")
    assert found.sizes == found.usages == found.versions == Unread("the region of the cluster is not known")
    assert found.regions == ["westeurope"]


# --- what is refused ---------------------------------------------------------------------------------------

FORBIDDEN = (
    "The client 'c' does not have authorization to perform action 'Microsoft.Compute/locations/usages/read' over scope '/s'."
)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            (403, "AuthorizationFailed", FORBIDDEN),
            "Azure answers 403 AuthorizationFailed: the right Microsoft.Compute/locations/usages/read is missing",
        ),
        ((401, "InvalidAuthenticationToken", "x"), "Azure answers 401 InvalidAuthenticationToken"),
        ((404, "NoRegisteredProviderFound", "x"), "Azure answers 404"),
        ((302, "", ""), "Azure answers 302"),
        ((500, None, None), "Azure answers 500"),
        (b"<html>", "Azure: Expecting value: line 1 column 1 (char 0)"),
        (b"[]", "Azure answers no JSON object"),
        ({"value": [{}]}, "the answer was not understood: KeyError('name')"),
        ({"value": 7}, "the answer was not understood: TypeError"),
    ],
)
def test_what_is_not_answered_is_unread_and_the_rest_is_not(azure: _Azure, answer: Any, why: str) -> None:
    azure.answers[f"{REGION}/usages"] = answer
    found = read(azure, settings())
    assert isinstance(found.usages, Unread)
    assert found.usages.why.startswith(why)
    assert not [one for one in (found.regions, found.sizes, found.versions, found.cluster) if isinstance(one, Unread)]


def test_who_is_throttled_for_a_moment_asks_once_more(azure: _Azure) -> None:
    busy = (429, "SubscriptionRequestsThrottled", "x", "0.01")
    azure.answers[f"{REGION}/usages"] = [busy, ANSWERS[f"{REGION}/usages"]]
    assert azure.session().get(f"{REGION}/usages", "v")["value"]
    azure.answers[f"{REGION}/usages"] = [busy, busy, busy]
    with pytest.raises(UnreadError, match=r"^Azure answers 429 SubscriptionRequestsThrottled: come again after 0.01 s$"):
        azure.session().get(f"{REGION}/usages", "v")
    assert len(azure.asked) == 2 + 2


@pytest.mark.parametrize("wait", ["600", "soon"])
def test_who_is_throttled_for_long_does_not_wait(azure: _Azure, wait: str) -> None:
    azure.answers[f"{REGION}/usages"] = (429, "TooManyRequests", "x", wait)
    with pytest.raises(UnreadError, match=f"come again after {wait} s"):
        azure.session().get(f"{REGION}/usages", "v")
    assert len(azure.asked) == 1


def test_a_list_without_an_end_is_given_up(azure: _Azure) -> None:
    azure.answers["/subscriptions/s/providers/Microsoft.Compute/skus?2"] = ANSWERS[
        "/subscriptions/s/providers/Microsoft.Compute/skus"
    ]
    assert read(azure, settings()).sizes == Unread("Azure lists more than 20 pages")


@pytest.mark.parametrize("elsewhere", ["https://127.0.0.1:9/next", "http://HOST/next", "file:///etc/hostname"])
def test_the_token_goes_to_no_next_page_elsewhere(azure: _Azure, elsewhere: str) -> None:
    following = elsewhere.replace("HOST", urlsplit(azure.address).netloc)
    azure.answers["/subscriptions/s/locations"] = {"value": [], "nextLink": following}
    with pytest.raises(UnreadError, match="next page is elsewhere"):
        list(azure.session().pages_below("/locations", "v"))


def test_a_server_that_nobody_vouches_for_gets_no_token(azure: _Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(UnreadError, match="certificate verify failed"):
        azure.session().get("/x", "v")
    assert azure.asked == []
    with pytest.raises(UnreadError, match="not one of https"):
        Session(azure.address.replace("https", "http"), "s", TOKEN).get("/x", "v")


def test_who_does_not_answer_is_waited_for_once(azure: _Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_session, "_SECONDS", 0.2)
    azure.answers["/slow"] = [{}]
    monkeypatch.setattr(_Handler, "_content", lambda *_: threading.Event().wait(1) or (200, b"{}", {}))
    with pytest.raises(UnreadError, match=r"no whole answer within 0\.2 s"):
        azure.session().get("/slow", "v")
    assert len(azure.asked) == 1


def test_a_session_shows_no_token(azure: _Azure) -> None:
    assert TOKEN not in repr(azure.session())
    assert isinstance(NotThereError(), UnreadError)


# --- where Azure is ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "name", "address"),
    [
        ("ARM_ENVIRONMENT", "", "https://management.azure.com"),
        ("ARM_ENVIRONMENT", "public", "https://management.azure.com"),
        ("ARM_ENVIRONMENT", "AzureChinaCloud", "https://management.chinacloudapi.cn"),
        ("AZURE_ENVIRONMENT", "usgovernment", "https://management.usgovcloudapi.net"),
    ],
)
@pytest.mark.usefixtures("azure")
def test_clouds_are_those_of_the_plugin(monkeypatch: pytest.MonkeyPatch, variable: str, name: str, address: str) -> None:
    monkeypatch.setenv(variable, name)
    assert resource_manager(default_provider=False) == address


def test_metadata_tell_the_address_of_another_azure(azure: _Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    azure.answers["/metadata/endpoints"] = {"resourceManager": "https://management.local.example/"}
    monkeypatch.setenv("ARM_METADATA_HOSTNAME", urlsplit(azure.address).netloc)
    monkeypatch.setenv("ARM_ENVIRONMENT", "nowhere")
    assert resource_manager(default_provider=False) == "https://management.local.example"
    assert "Authorization" not in azure.asked[0][2]
    for wrong in ({}, {"resourceManager": "http://plain.example"}):
        azure.answers["/metadata/endpoints"] = wrong
        with pytest.raises(UnreadError, match="not one of https"):
            resource_manager(default_provider=False)
    monkeypatch.delenv("ARM_METADATA_HOSTNAME")
    with pytest.raises(UnreadError, match="there is no Azure called nowhere"):
        resource_manager(default_provider=False)


# --- components --------------------------------------------------------------------------------------------

PLATFORM: dict[str, Any] = {
    "cluster": {
        "platform": "aks",
        "name": "prod",
        "resourceGroup": "rg",
        "location": "westeurope",
        "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1},
    },
    "sharing": {"w": {"exclusive": {}}},
    "pools": [{"name": "gpu", "vmSize": A100, "count": 1, "zones": ["1"], "sharing": "w"}],
}


@pytest.fixture
def asked(azure: _Azure, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each component had its provider log in."""
    count: Counter[str] = Counter()
    otherwise = Recorder.call

    def call(self: Recorder, args: pulumi.runtime.MockCallArgs) -> dict[Any, Any]:
        return {"token": TOKEN} if args.token.endswith(":getClientToken") else otherwise(self, args)

    def login(parent: pulumi.Resource) -> Session:
        count[type(parent).__name__] += 1
        return log_in(parent)

    monkeypatch.setattr(Recorder, "call", call)
    monkeypatch.setattr(azure_check, "log_in", login)
    monkeypatch.setattr(azure_session, "resource_manager", lambda **_: azure.address)
    return count


def test_a_platform_asks_once_and_tells_all_problems(run: Run, azure: _Azure, asked: Counter[str]) -> None:
    azure.answers[CLUSTER] = (404, "ResourceNotFound", "")
    wrong = {**PLATFORM, "cluster": {**PLATFORM["cluster"], "kubernetesVersion": "1.99"}}

    def program() -> None:
        with pytest.raises(InvalidStackError) as refused:
            GpuPlatform("g", wrong)  # type: ignore[arg-type]
        assert [one.path for one in refused.value.problems] == [
            "GpuPlatform(g).pools[0].zones",
            "GpuPlatform(g).cluster.kubernetesVersion",
            "GpuPlatform(g).pools",
        ]

    recorded = run(program)
    assert asked == {"GpuPlatform": 1}
    assert not recorded.of("ManagedCluster") + recorded.of("ResourceGroup")


def test_a_cluster_that_is_used_alone_asks_for_itself(run: Run, asked: Counter[str]) -> None:
    def program() -> None:
        with pytest.raises(InvalidStackError) as refused:
            AksCluster("c", {"name": "new", "location": "westeurop", "system_pool": {"vm_size": "Standard_D4s_v5", "count": 1}})
        assert [one.path for one in refused.value.problems] == ["AksCluster(c).location"]

    run(program)
    assert asked == {"AksCluster": 1}


def test_it_can_be_told_not_to(run: Run, asked: Counter[str]) -> None:
    quiet = {**PLATFORM, "cluster": {**PLATFORM["cluster"], "checkCloud": False, "location": "nowhere"}}
    assert run(lambda: GpuPlatform("g", quiet)).of("ManagedCluster")  # type: ignore[arg-type]
    assert not asked


def test_who_has_not_logged_in_is_warned_and_not_stopped(run: Run, azure: _Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(azure_check.log, "warn", lambda text, _resource: said.append(text))
    assert run(lambda: GpuPlatform("g", PLATFORM)).of("ManagedCluster")  # type: ignore[arg-type]
    # The other one is about the cluster, which does not answer.
    warning, _ = said
    assert warning.startswith("not checked before the deploy: anything that Azure has (no login: ")
    assert azure.asked == []


def test_a_cluster_that_is_there_and_azure_are_told_of_at_once(run: Run, asked: Counter[str]) -> None:
    there = {"platform": "aks", "existing": {"resourceGroup": "rg", "name": "prod"}}
    pools = [{**PLATFORM["pools"][0], "name": "system"}]

    def program() -> None:
        with pytest.raises(InvalidStackError) as refused:
            GpuPlatform("g", {**PLATFORM, "cluster": there, "pools": pools})  # type: ignore[arg-type]
        assert [one.path.rpartition("gpu-pools:")[2] for one in refused.value.problems] == [
            "pools[0].name",
            "pools[0].zones",
            "pools[0]",
            "cluster.existing",
        ]

    run(program)
    assert asked == {"ExistingAksCluster": 1}
