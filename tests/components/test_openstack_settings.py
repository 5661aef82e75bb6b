"""With what an OpenStack is asked: the settings of Pulumi's plugin, read where the plugin reads them."""

from __future__ import annotations

import datetime as dt
import logging
import os
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pulumi
import pytest
import trustme
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from keystoneauth1.access import AccessInfoV3

from gpu_pools.components.magnum import session as openstack_session
from gpu_pools.components.magnum import settings as openstack_settings
from gpu_pools.components.magnum.session import Session, UnreadError, addresses, client, log_in
from gpu_pools.components.magnum.settings import Settings, SettingsError, read_settings, tls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROVIDER = {"cacertFile": "a.pem", "cert": "c.pem", "key": "k.pem", "endpointType": "internal"}
ENVIRONMENT = {"OS_CACERT": "a.pem", "OS_CERT": "c.pem", "OS_KEY": "k.pem", "OS_ENDPOINT_TYPE": "internal"}
ALL = Settings(cacert="a.pem", cert="c.pem", key="k.pem", interface="internal")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("OS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(openstack_settings, "_FOLDERS", (str(tmp_path / "here"), str(tmp_path / "home")))


def configured(monkeypatch: pytest.MonkeyPatch, values: dict[str, str]) -> None:
    monkeypatch.setattr(pulumi.Config, "_get", lambda _self, key, *_others: values.get(key))


def written(folder: Path, name: str, content: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


class TestWhereSettingsAreRead:
    def test_the_configuration_of_the_provider(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OS_CACERT", "another")
        configured(monkeypatch, PROVIDER)
        assert read_settings(default_provider=True) == ALL

    def test_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in ENVIRONMENT.items():
            monkeypatch.setenv(name, value)
        assert read_settings(default_provider=True) == ALL

    def test_a_provider_of_the_programs_own_has_not_the_default_ones_configuration(self, monkeypatch: pytest.MonkeyPatch) -> None:
        configured(monkeypatch, {**PROVIDER, "insecure": "true", "endpointOverrides": '{"image": "https://images"}'})
        assert read_settings(default_provider=False) == Settings()

    @pytest.mark.parametrize(
        ("given", "insecure"),
        [("true", True), ("1", True), ("T", True), ("false", False), ("0", False), ("", True), ("yes", False)],
    )
    def test_insecure_is_what_go_takes_for_true_and_goes_before_clouds_yaml(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, *, insecure: bool
    ) -> None:
        written(tmp_path / "here", "clouds.yaml", {"clouds": {"one": {"verify": False}}})
        monkeypatch.setenv("OS_CLOUD", "one")
        monkeypatch.setenv("OS_INSECURE", given)
        assert read_settings(default_provider=True).insecure is insecure

    @pytest.mark.parametrize(
        ("variables", "interface"),
        [
            ({}, "public"),
            ({"OS_ENDPOINT_TYPE": "internalURL"}, "internal"),
            ({"OS_INTERFACE": "admin"}, "admin"),
            ({"OS_ENDPOINT_TYPE": "public", "OS_INTERFACE": "admin"}, "public"),
            ({"OS_ENDPOINT_TYPE": "nonsense"}, "public"),
        ],
    )
    def test_the_interface(self, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], interface: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert read_settings(default_provider=True).interface == interface


CLOUD: Any = {
    "auth": {
        "auth_url": "https://keystone",
        "application_credential_id": "a",
        "application_credential_secret": "very-secret",
    },
    "auth_type": "v3applicationcredential",
    "cacert": "a.pem",
    "cert": "c.pem",
    "key": "k.pem",
    "interface": "internal",
    "insecure": True,
    "regions": [{"name": "one", "values": {"cacert": "one.pem"}}, "two"],
}


class TestCloudsYaml:
    @pytest.fixture
    def home(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        monkeypatch.setenv("OS_CLOUD", "mine")
        return tmp_path / "home"

    def test_its_files_and_not_its_interface_nor_what_the_plugin_does_not_know(self, home: Path) -> None:
        written(home, "clouds.yaml", {"clouds": {"mine": CLOUD}})
        assert read_settings(default_provider=True) == Settings(cacert="a.pem", cert="c.pem", key="k.pem")

    def test_the_variables_go_before_it(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        written(home, "clouds.yaml", {"clouds": {"mine": CLOUD}})
        monkeypatch.setenv("OS_CACERT", "mine.pem")
        assert read_settings(default_provider=True).cacert == "mine.pem"

    @pytest.mark.parametrize(("region", "cacert"), [("one", "one.pem"), ("two", "a.pem"), ("three", "a.pem"), ("", "a.pem")])
    def test_a_region_that_is_named_has_settings_of_its_own(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, region: str, cacert: str
    ) -> None:
        written(home, "clouds.yml", {"clouds": {"mine": CLOUD}})
        monkeypatch.setenv("OS_REGION_NAME", region)
        assert read_settings(default_provider=True).cacert == cacert

    def test_the_file_that_is_named_goes_before_the_folders_and_secure_yaml_over_both(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        written(home, "clouds.yaml", "{")
        named = written(tmp_path, "named.yaml", {"clouds": {"mine": {**CLOUD, "profile": "theirs", "cacert": None}}})
        written(home, "clouds-public.yaml", {"public-clouds": {"theirs": {"verify": False}}})
        written(home, "secure.yaml", {"clouds": {"mine": {"key": "secret.pem"}}})
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(named))
        assert read_settings(default_provider=True) == Settings(cert="c.pem", key="secret.pem", insecure=True)

    @pytest.mark.parametrize(
        "content",
        [
            "{",
            "[]",
            "",
            {"clouds": {}},
            {"clouds": []},
            {"clouds": {"mine": ["very-secret"]}},
            {"clouds": {"mine": {"regions": 7}}},
        ],
    )
    def test_a_file_that_cannot_be_used_is_named_and_not_shown(
        self, home: Path, content: Any, capfd: pytest.CaptureFixture[str]
    ) -> None:
        written(home, "clouds.yaml", content)
        with pytest.raises(SettingsError, match=r"clouds.yaml: the settings of mine could not be read: .") as refused:
            read_settings(default_provider=True)
        assert "very-secret" not in str(refused.value) + capfd.readouterr().err

    def test_without_a_name_no_file_is_read(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        written(home, "clouds.yaml", {"clouds": {"mine": CLOUD}})
        monkeypatch.delenv("OS_CLOUD")
        assert read_settings(default_provider=True) == Settings()


def catalogue() -> AccessInfoV3:
    def service(type_: str, *, regions: tuple[str, ...] = ("one", "two")) -> dict[str, Any]:
        endpoints = [
            {"interface": interface, "region": region, "region_id": region, "url": f"https://{type_}.{interface}.{region}/"}
            for region in regions
            for interface in ("admin", "internal", "public")
        ]
        return {"type": type_, "name": type_, "endpoints": endpoints}

    services = [service("container-infra"), service("image"), service("compute"), service("compute-next", regions=("two",))]
    return AccessInfoV3({"token": {"catalog": services}}, "a-token")


@pytest.mark.parametrize(
    ("region", "settings", "found"),
    [
        (
            "",
            Settings(),
            {"Magnum": "container-infra.public.one/v1", "Glance": "image.public.one/v2", "Nova": "compute.public.one"},
        ),
        (
            "two",
            Settings(interface="internal"),
            {"Magnum": "container-infra.internal.two/v1", "Glance": "image.internal.two/v2", "Nova": "compute.internal.two"},
        ),
        (
            "two",
            Settings(overrides={"network": "https://net/v2.0/", "image": "https://img", "compute": "compute-next"}),
            {
                "Magnum": "container-infra.public.two/v1",
                "Glance": "img",
                "Nova": "compute-next.public.two",
                "Neutron": "net/v2.0",
            },
        ),
        ("three", Settings(), {}),
    ],
)
def test_addresses_are_those_of_the_region_and_interface_or_given(region: str, settings: Settings, found: dict[str, str]) -> None:
    said = addresses(catalogue().service_catalog, region, settings)
    assert said == {name: f"https://{address}" for name, address in found.items()}


@pytest.mark.parametrize(
    ("written_down", "overrides"),
    [('{"image": "https://img/v2", "compute": 7}', {"image": "https://img/v2"}), ("[]", {}), ("", {})],
)
def test_overrides_are_read(monkeypatch: pytest.MonkeyPatch, written_down: str, overrides: dict[str, str]) -> None:
    configured(monkeypatch, {"endpointOverrides": written_down})
    assert read_settings(default_provider=True).overrides == overrides


def test_overrides_that_are_none_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    configured(monkeypatch, {"endpointOverrides": "{"})
    with pytest.raises(SettingsError, match=r"^openstack:endpointOverrides is not a mapping"):
        read_settings(default_provider=True)


# ---------------------------------------------------------------- TLS, against a server that looks


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.seen.append(dict(self.headers))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[HTTPServer]:
    """Demands a certificate of the authority."""
    with HTTPServer(("127.0.0.1", 0), _Handler) as made:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_OPTIONAL
        made.socket = context.wrap_socket(made.socket, server_side=True)
        made.seen = []  # type: ignore[attr-defined]
        made.shows = context  # type: ignore[attr-defined]
        made.handle_error = lambda *_args: None  # type: ignore[method-assign]
        threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield made
        made.shutdown()


def ask(server: HTTPServer, settings: Settings) -> None:
    services = {"Nova": f"https://127.0.0.1:{server.server_address[1]}"}
    Session(client(AccessInfoV3({"token": {}}, "a-token"), settings), "p", services).get("Nova", "limits")


def test_an_authority_may_be_a_path_or_pem(server: HTTPServer, authority: trustme.CA, tmp_path: Path) -> None:
    pem = authority.cert_pem.bytes().decode()
    # Bundles have comments, in any language.
    for given in (pem, f"# Főtanúsítvány\n{pem}"):
        ask(server, Settings(cacert=given))
        ask(server, Settings(cacert=str(written(tmp_path, "ca.pem", given))))
    with pytest.raises(UnreadError, match=r"^Nova: \[SSL: CERTIFICATE_VERIFY_FAILED\]"):
        ask(server, Settings())
    with pytest.raises(UnreadError, match="CERTIFICATE_VERIFY_FAILED"):
        ask(server, Settings(cacert=trustme.CA().cert_pem.bytes().decode()))


def test_the_authorities_of_the_machine_hold_and_not_those_of_requests(
    server: HTTPServer, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(written(tmp_path, "ca.pem", authority.cert_pem.bytes().decode()))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", path)
    with pytest.raises(UnreadError, match="CERTIFICATE_VERIFY_FAILED"):
        ask(server, Settings())
    monkeypatch.setenv("SSL_CERT_FILE", path)
    ask(server, Settings())


def test_insecure_takes_any_certificate_without_a_word(server: HTTPServer, capfd: pytest.CaptureFixture[str]) -> None:
    ask(server, Settings(insecure=True))
    assert capfd.readouterr() == ("", "")


def test_a_certificate_is_shown_with_its_key(server: HTTPServer, authority: trustme.CA, tmp_path: Path) -> None:
    server.shows.verify_mode = ssl.CERT_REQUIRED  # type: ignore[attr-defined]
    trusted, mine = authority.cert_pem.bytes().decode(), authority.issue_cert("me@example.org")
    cert, key = mine.cert_chain_pems[0].bytes().decode(), mine.private_key_pem.bytes().decode()
    ask(server, Settings(cacert=trusted, cert=cert, key=key))
    files = (str(written(tmp_path, name, text)) for name, text in (("cert.pem", cert), ("key.pem", key)))
    ask(server, Settings(trusted, *files))
    for settings in (Settings(trusted), Settings(trusted, cert=cert), Settings(trusted, key=key)):
        with pytest.raises(UnreadError, match="Nova: "):
            ask(server, settings)


def test_what_cannot_be_used_is_named_and_a_key_is_not_shown(authority: trustme.CA, tmp_path: Path) -> None:
    cert = authority.issue_cert("me@example.org", not_after=dt.datetime(2020, 1, 1)).cert_chain_pems[0].bytes().decode()  # noqa: DTZ001
    key = trustme.CA().private_key_pem.bytes().decode()
    form, password = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"a-password")
    locked = ec.generate_private_key(ec.SECP256R1()).private_bytes(serialization.Encoding.PEM, form, password).decode()
    for settings, said in (
        (Settings(cacert=str(tmp_path / "none")), "OS_CACERT.*/none' cannot be used: No such file or directory. Name a file"),
        (Settings(cacert=str(written(tmp_path, "empty", ""))), "OS_CACERT.*/empty' cannot be used: "),
        (Settings(cacert="-----BEGIN nothing"), "OS_CACERT.*: PEM cannot be used: "),
        (Settings(cert=cert, key=key), "OS_CERT and OS_KEY.*MISMATCH"),
        (Settings(cert=cert, key=locked), "OS_CERT and OS_KEY"),
        (Settings(cert=cert, key="a-key-that-is-no-pem"), "OS_CERT and OS_KEY.*No such file"),
    ):
        with pytest.raises(SettingsError, match=said) as refused:
            tls(settings)
        assert "a-key" not in str(refused.value)
    assert "a-key" not in repr(Settings(key="a-key"))


def test_nothing_is_logged_and_no_password_of_a_netrc_is_sent(
    server: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NETRC", str(written(tmp_path, "netrc", "default login me password mine")))
    caplog.set_level(logging.DEBUG)
    ask(server, Settings(insecure=True))
    (headers,) = server.seen  # type: ignore[attr-defined]
    assert headers["X-Auth-Token"] == "a-token"
    assert "Authorization" not in headers
    assert "a-token" not in caplog.text
    assert "X-Auth-Token" not in caplog.text


def test_settings_that_cannot_be_used_are_a_warning_not_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scope:
        token_id, project_id, region, service_catalogs = "a-token", "p", "", ()

    class Parent:
        def get_provider(self, _function: str) -> None:
            return None

    monkeypatch.setattr(openstack_session.identity, "get_auth_scope", lambda **_named: Scope())
    monkeypatch.setenv("OS_CACERT", "/none")
    with pytest.raises(UnreadError, match="OS_CACERT"):
        log_in(Parent())  # type: ignore[arg-type]
    monkeypatch.delenv("OS_CACERT")
    monkeypatch.setenv("OS_CLOUD", "none")
    with pytest.raises(UnreadError, match="Cloud none was not found"):
        log_in(Parent())  # type: ignore[arg-type]
