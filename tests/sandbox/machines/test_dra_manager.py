"""The kubelet's side of the wire to DRA drivers, against a driver that speaks gRPC over the same kind of sockets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.cluster.gpu_host import PLUGINS_REGISTRY
from sandbox.machines import dra_manager, dra_messages
from sandbox.machines.dra_manager import ClaimRequest, DraManager, not_registered
from sandbox.machines.dra_messages import Claim, Device, PluginInfo, Prepared
from sandbox.system.patience import Patience
from tests.sandbox.machines.dra_drivers import NAME, PROTO, SERVICES, Driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TEXTS = st.text(st.characters(codec="utf-8"), max_size=9)
DEVICES = st.builds(
    Device, st.lists(TEXTS, max_size=2).map(tuple), TEXTS, TEXTS, st.lists(TEXTS, max_size=2).map(tuple), TEXTS
)  # fmt: skip


class Site:
    """A DRA manager, and a driver on its machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place(PLUGINS_REGISTRY).mkdir(parents=True)
        self.managers: list[DraManager] = []
        self.manager = self.new_manager()
        self.driver = Driver(self.place)

    def place(self, path: str) -> Path:
        return self.folder / path.removeprefix("/var/lib/kubelet/")

    def new_manager(self) -> DraManager:
        """Another daemon's."""
        self.manager = DraManager("machine", self.place, self.folder / "claims.json", lambda: None)
        self.managers.append(self.manager)
        return self.manager

    def until(self, holds: Callable[[], object]) -> None:
        end = Patience(60)
        while not holds():
            assert not end.is_over(), (self.driver.asked, self.driver.told, self.manager.registered())
            self.manager.look()
            time.sleep(0.01)

    def registered(self, driver: Driver | None = None) -> Driver:
        self.driver = driver or self.driver
        self.driver.start()
        self.until(lambda: NAME in self.manager.registered())
        return self.driver

    def prepare(self, pod: str, *claims: ClaimRequest) -> str:
        """What came of it in the end."""
        return self.answer(lambda: self.manager.prepare(pod, claims))

    def answer(self, asked: Callable[[], str | None]) -> str:
        found: list[str] = []

        def answered() -> bool:
            said = asked()
            found.extend([] if said is None else [said])
            return bool(found)

        self.until(answered)
        return found[0]


def claim(uid: str, name: str = "", driver: str = NAME) -> ClaimRequest:
    return ClaimRequest(Claim("space", uid, name or f"claim-{uid}"), (driver,))


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(dra_manager, "_RETRY_SECONDS", 0.05)
    # Names of sockets are short.
    made = Site(tmp_path_factory.mktemp("s"))
    yield made
    for manager in made.managers:
        manager.close()
    made.driver.stop()


class TestRegistration:
    def test_a_driver_is_told_that_it_is_registered(self, site: Site) -> None:
        driver = site.registered()
        site.until(lambda: driver.told)
        assert [(one.plugin_registered, one.error) for one in driver.told] == [(True, "")]

    @pytest.mark.parametrize(
        ("kind", "services", "words"),
        [
            (
                "CSIPlugin",
                SERVICES,
                "no handler registered for plugin type: CSIPlugin at socket /var/lib/kubelet/plugins_registry",
            ),
            ("DRAPlugin", ("1.0.0",), 'none of services supported by the plugin (["1.0.0"]) are supported by the kubelet'),
            ("DRAPlugin", (), "none of services supported by the plugin ([]) are supported by the kubelet"),
        ],
    )
    def test_what_a_kubelet_cannot_use_is_told_why(self, site: Site, kind: str, services: tuple[str, ...], words: str) -> None:
        site.driver = Driver(site.place, kind, services).start()
        site.until(lambda: site.driver.told)
        [told] = site.driver.told
        assert (told.plugin_registered, words in told.error) == (False, True)
        assert site.manager.registered() == frozenset()
        assert site.manager.silence() == {}

    def test_one_of_the_older_service_is_asked_by_it(self, site: Site) -> None:
        driver = site.registered(Driver(site.place, services=("v1beta1.DRAPlugin",)))
        assert site.prepare("pod", claim("a")) == ""
        assert driver.asked == [("prepare", ["a"])]

    def test_one_without_an_endpoint_serves_where_it_registers(self, site: Site) -> None:
        driver = site.registered(Driver(site.place, endpoint=False))
        assert site.prepare("pod", claim("a")) == ""
        assert driver.asked == [("prepare", ["a"])]

    def test_a_socket_that_nobody_serves_is_asked_again(self, site: Site) -> None:
        site.driver.stop(killed=True)
        site.manager.look()
        assert site.registered() is site.driver

    def test_one_that_comes_in_the_place_of_a_dead_socket_does_not_wait(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(dra_manager, "_FIRST_SECONDS", 1000.0)
        site.driver.stop(killed=True)
        site.manager.look()
        time.sleep(0.2)
        site.registered()

    def test_a_socket_that_has_come_or_gone_is_noticed_until_it_was_looked_at(self, site: Site) -> None:
        site.registered()
        assert not site.manager.has_changed()
        site.driver.stop()
        assert site.manager.has_changed()
        site.manager.look()
        assert not site.manager.has_changed()

    def test_files_and_hidden_sockets_are_passed_over(self, site: Site) -> None:
        site.place(PLUGINS_REGISTRY).joinpath("file.sock").write_text("no socket")
        site.registered()
        assert site.manager.registered() == {NAME}


class TestSilence:
    @pytest.mark.parametrize("killed", [False, True])
    def test_a_driver_that_has_gone_is_silent_until_it_comes_back(self, site: Site, *, killed: bool) -> None:
        driver = site.registered()
        assert site.manager.silence() == {}
        before = time.monotonic()
        driver.stop(killed=killed)
        site.until(site.manager.silence)
        assert before <= site.manager.silence()[NAME] <= time.monotonic()
        driver.start()
        site.until(lambda: not site.manager.silence())
        assert site.manager.registered() == {NAME}

    def test_its_time_begins_once(self, site: Site) -> None:
        site.registered().stop()
        site.until(site.manager.silence)
        since = site.manager.silence()
        time.sleep(0.05)
        assert site.manager.silence() == since

    def test_one_that_is_forgotten_is_not_told_of_again(self, site: Site) -> None:
        driver = site.registered()
        driver.stop()
        site.until(site.manager.silence)
        site.manager.forget(NAME)
        site.manager.look()
        assert site.manager.silence() == {}
        site.registered(driver).stop()
        site.until(site.manager.silence)


class TestClaims:
    def test_a_claim_is_prepared_for_its_first_pod_and_given_back_after_the_last(self, site: Site) -> None:
        driver = site.registered()
        assert (site.prepare("one", claim("a"), claim("b")), site.prepare("two", claim("a"))) == ("", "")
        assert driver.asked == [("prepare", ["a", "b"])]
        assert site.manager.prepared_devices()["a"] == (Device(("r",), "node", "gpu-a", ("cdi=a",)),)
        site.until(lambda: site.manager.release("one"))
        assert driver.asked[1:] == [("unprepare", ["b"])]
        site.until(lambda: site.manager.release("two"))
        assert driver.asked[2:] == [("unprepare", ["a"])]
        assert site.manager.prepared_devices() == {}
        assert site.manager.release("two")

    def test_a_pod_without_claims_has_nothing_to_give_back(self, site: Site) -> None:
        assert site.manager.release("pod")

    def test_no_claim_is_prepared_where_a_driver_is_missing(self, site: Site) -> None:
        driver = site.registered()
        missing = claim("b", driver="other.example.com")
        assert site.prepare("pod", claim("a"), missing) == "DRA driver other.example.com is not registered"
        assert not_registered((claim("a"), missing)) == f"DRA driver {NAME} is not registered"
        assert driver.asked == []
        assert site.manager.release("pod")

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"refused": {"a": "no room"}}, "NodePrepareResources failed for ResourceClaim claim-a: no room"),
            ({"refused": {"all": "too many"}}, "NodePrepareResources: rpc error: code = ResourceExhausted desc = too many"),
            ({"skipped": {"a"}}, "NodePrepareResources skipped 1 ResourceClaims"),
            ({"unknown": "x"}, "NodePrepareResources returned result for unknown claim UID x"),
        ],
    )
    def test_why_it_fails_is_said_and_it_is_tried_again(self, site: Site, change: dict[str, object], words: str) -> None:
        driver = site.registered()
        usual = {name: getattr(driver, name) for name in change}
        for name, value in change.items():
            setattr(driver, name, value)
        assert site.prepare("pod", claim("a")) == words
        assert site.prepare("pod", claim("a")) == words
        for name, value in usual.items():
            setattr(driver, name, value)
        site.until(lambda: site.manager.prepare("pod", (claim("a"),)) == "")
        assert len(site.manager.prepared_devices()["a"]) == 1

    def test_a_pod_that_was_not_prepared_has_its_claims_given_back(self, site: Site) -> None:
        """The driver may have done a part of it."""
        driver = site.registered()
        driver.refused = {"a": "no room"}
        site.prepare("pod", claim("a"))
        driver.refused = {}
        site.until(lambda: site.manager.release("pod"))
        assert driver.asked[-1] == ("unprepare", ["a"])

    def test_a_claim_of_the_same_name_is_another_one(self, site: Site) -> None:
        site.registered()
        assert site.prepare("one", claim("a", "gpu")) == ""
        said = site.prepare("two", claim("b", "gpu"))
        expected = "old ResourceClaim with same name gpu and different UID a still exists (previous pod force-deleted?!)"
        assert said == expected
        site.manager.keep(frozenset({"two"}))
        site.until(lambda: site.manager.prepare("two", (claim("b", "gpu"),)) == "")

    def test_what_a_driver_does_not_give_back_is_asked_for_again(self, site: Site) -> None:
        driver = site.registered()
        site.prepare("pod", claim("a"))
        driver.refused = {"a": "in use"}
        site.until(lambda: [one for one, _ in driver.asked].count("unprepare") + site.manager.release("pod") >= 2)
        assert site.manager.prepared_devices()
        driver.refused = {}
        site.until(lambda: site.manager.release("pod"))

    def test_the_next_daemon_knows_what_is_prepared(self, site: Site) -> None:
        driver = site.registered()
        site.prepare("pod", claim("a"))
        before = site.manager.prepared_devices()
        site.manager.close()
        site.new_manager()
        assert site.manager.prepared_devices() == before
        site.until(lambda: NAME in site.manager.registered())
        assert site.prepare("pod", claim("a")) == ""
        site.until(lambda: (site.manager.keep(frozenset()), not site.manager.prepared_devices())[1])
        assert driver.asked == [("prepare", ["a"]), ("unprepare", ["a"])]


class TestMessages:
    @given(st.lists(st.builds(Claim, TEXTS, TEXTS, TEXTS), max_size=3))
    def test_a_request_is_read_by_protobuf(self, claims: list[Claim]) -> None:
        found = PROTO["Request"].FromString(dra_messages.claims_request(claims)).claims
        assert [(one.namespace, one.uid, one.name) for one in found] == [(one.namespace, one.uid, one.name) for one in claims]

    @given(TEXTS)
    def test_a_status_is_read_by_protobuf(self, error: str) -> None:
        found = PROTO["RegistrationStatus"].FromString(dra_messages.registration_status(error))
        assert (found.plugin_registered, found.error) == (not error, error)

    @given(TEXTS, TEXTS, TEXTS, st.lists(TEXTS))
    def test_what_protobuf_writes_of_a_plugin_is_read(self, kind: str, name: str, endpoint: str, services: list[str]) -> None:
        said = PROTO["PluginInfo"](type=kind, name=name, endpoint=endpoint, supported_versions=services).SerializeToString()
        assert dra_messages.plugin_info(said) == PluginInfo(kind, name, endpoint, tuple(services))

    @given(st.dictionaries(TEXTS, st.tuples(TEXTS, st.lists(DEVICES, max_size=2)), max_size=3))
    def test_what_protobuf_writes_of_claims_is_read(self, claims: dict[str, tuple[str, list[Device]]]) -> None:
        prepared, unprepared = PROTO["PrepareResponse"](), PROTO["UnprepareResponse"]()
        for uid, (error, found) in claims.items():
            value = PROTO["PrepareResult"](error=error)
            for one in found:
                value.devices.add(
                    request_names=one.requests,
                    pool_name=one.pool,
                    device_name=one.name,
                    cdi_device_ids=one.cdi,
                    share_id=one.share,
                )
            prepared.claims.add(key=uid, value=value)
            unprepared.claims.add(key=uid, value=PROTO["UnprepareResult"](error=error))
        expected = {uid: Prepared(tuple(found), error) for uid, (error, found) in claims.items()}
        assert dra_messages.prepared_claims(prepared.SerializeToString()) == expected
        errors = {uid: error for uid, (error, _) in claims.items()}
        assert dra_messages.unprepared_claims(unprepared.SerializeToString()) == errors

    @given(st.binary(max_size=60))
    def test_what_is_no_message_is_refused(self, said: bytes) -> None:
        for read in (dra_messages.plugin_info, dra_messages.prepared_claims, dra_messages.unprepared_claims):
            try:
                read(said)
            except ValueError:
                continue
