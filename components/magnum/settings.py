"""The settings of Pulumi's OpenStack plugin for connections: authorities, client certificate, interface, endpoints.

The login is the plugin's own (session.py); it hands out a token, but not with what it connects. So this reads the same
places in the same order: the configuration of the provider (`openstack:insecure`, …), the environment (`OS_INSECURE`, …),
clouds.yaml. Settings in the arguments of a provider of the program's own are outputs, which nobody can read before the deploy:
there the environment counts alone.

Where OpenStack's clients in Python do otherwise, this follows the plugin: clouds.yaml says nothing of the interface, and has
no key `insecure`; a certificate without a key is none; an authority, certificate or key may be a path or PEM itself; without an
authority those of the machine are trusted. Read in auth/config.go and auth/util.go of terraform-provider-openstack/utils, and in
openstack/clientconfig of gophercloud/utils. Against it stands OS_INTERFACE: the plugin has OS_ENDPOINT_TYPE alone, but the files
that clouds hand out to log in with (openrc) have the former.
"""

import json
import os
import ssl
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi

#: What Go takes for true.
_TRUE = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_PEM = "-----BEGIN"
#: Where gophercloud looks for clouds.yaml and its like, in this order.
_FOLDERS = (".", "~/.config/openstack", "/etc/openstack")


class SettingsError(Exception):
    """A setting cannot be used; the text says which and why."""


@dataclass(frozen=True)
class Settings:
    """With what the plugin connects.

    Attributes:
        cacert: the authority: a path or PEM; empty for those of the machine.
        cert: the client's certificate: a path or PEM.
        key: its key: the same.
        insecure: certificates of servers are not looked at.
        interface: which addresses of the catalogue.
        overrides: service -> an address, or another type in the catalogue.
    """

    cacert: str = ""
    cert: str = ""
    key: str = field(default="", repr=False)
    insecure: bool = False
    interface: str = "public"
    overrides: Mapping[str, str] = field(default_factory=dict)


def read_settings(*, default_provider: bool) -> Settings:
    """The settings of a provider.

    Args:
        default_provider: whether it is the one that Pulumi makes itself, of the stack's configuration.

    Raises:
        SettingsError: clouds.yaml cannot be read, or does not have the cloud.
    """
    config = pulumi.Config("openstack") if default_provider else None

    def said(key: str, *variables: str) -> str:
        own = config.get(key) if config else None
        return own or next((value for name in variables if (value := os.environ.get(name))), "")

    cloud = _cloud(said("cloud", "OS_CLOUD"), said("region", "OS_REGION_NAME"))
    insecure = said("insecure", "OS_INSECURE")
    return Settings(
        cacert=said("cacertFile", "OS_CACERT") or str(cloud.get("cacert") or ""),
        cert=said("cert", "OS_CERT") or str(cloud.get("cert") or ""),
        key=said("key", "OS_KEY") or str(cloud.get("key") or ""),
        insecure=insecure in _TRUE if insecure else cloud.get("verify") is False,
        interface=_interface(said("endpointType", "OS_ENDPOINT_TYPE", "OS_INTERFACE")),
        overrides=_overrides(said("endpointOverrides")),
    )


def _interface(said: str) -> str:
    """What the plugin does not know is public to it."""
    return said.removesuffix("URL") if said.removesuffix("URL") in {"internal", "admin"} else "public"


def _overrides(said: str) -> Mapping[str, str]:
    """As the plugin does: what is not a text overrides nothing."""
    try:
        given = json.loads(said or "{}")
    except ValueError as error:
        raise SettingsError(f"openstack:endpointOverrides is not a mapping: {error}") from None
    return {key: value for key, value in given.items() if isinstance(value, str)} if isinstance(given, dict) else {}


def _cloud(name: str, region: str) -> Mapping[str, Any]:
    """A cloud of clouds.yaml; empty without a name."""
    if not name:
        return {}
    # A tenth of a second, which only who has such a file need wait for.
    from openstack.config import OpenStackConfig  # noqa: PLC0415
    from openstack.exceptions import ConfigException  # noqa: PLC0415

    given = os.environ.get("OS_CLIENT_CONFIG_FILE")
    try:
        with warnings.catch_warnings():
            # It advises on what the plugin does not read.
            warnings.simplefilter("ignore")
            config = OpenStackConfig(
                config_files=[*([given] if given else []), *_files("clouds")],
                secure_files=_files("secure"),
                vendor_files=_files("clouds-public"),
                load_envvars=False,
            )
            entry = config.cloud_config["clouds"].get(name, {})
            if region not in [one["name"] if isinstance(one, dict) else one for one in entry.get("regions", ())]:
                # Else openstacksdk takes the first one's settings.
                entry.pop("regions", None)
            return dict(config.get_one(name, validate=False, region_name=region).config)
    except Exception as error:  # noqa: BLE001 - whatever it makes of a file that is not as it should be
        # What else it says may be of the file's content, with passwords in it.
        why = str(error) if isinstance(error, ConfigException) else type(error).__name__
        raise SettingsError(f"clouds.yaml: the settings of {name} could not be read: {why}") from None


def _files(stem: str) -> list[str]:
    return [str(Path(folder).expanduser() / f"{stem}.{end}") for folder in _FOLDERS for end in ("yaml", "yml")]


def tls(settings: Settings) -> ssl.SSLContext:
    """What connections are made with.

    Raises:
        SettingsError: the authority, the certificate or its key cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Python reads all of these from files; only their owner reads what lies in this folder.
    with tempfile.TemporaryDirectory() as folder:
        _trust(context, settings, Path(folder))
        if settings.cert and settings.key:
            _show(context, settings, Path(folder))
    return context


def _trust(context: ssl.SSLContext, settings: Settings, folder: Path) -> None:
    if settings.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if not settings.cacert:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(_file(settings.cacert, folder / "authority"))
    except (OSError, ValueError) as error:
        where = "openstack:cacertFile, OS_CACERT, or cacert in clouds.yaml"
        given = "PEM" if _PEM in settings.cacert else repr(settings.cacert)
        message = f"the authority of OpenStack's servers ({where}): {given} cannot be used: {_why(error)}"
        raise SettingsError(f"{message}. Name a file of certificates in PEM.") from None


def _show(context: ssl.SSLContext, settings: Settings, folder: Path) -> None:
    """Have the context show the client's certificate."""
    try:
        cert, key = _file(settings.cert, folder / "cert"), _file(settings.key, folder / "key")
        context.load_cert_chain(cert, key, password=_no_password)
    except (OSError, ValueError) as error:
        # Without the values: one of them may be the key itself.
        where = "openstack:cert and key, OS_CERT and OS_KEY, or cert and key in clouds.yaml"
        message = f"the client certificate for OpenStack's servers ({where}) cannot be used: {_why(error)}"
        raise SettingsError(f"{message}. Name the files, in PEM, of a certificate and its key, which has no password.") from None


def _no_password() -> str:
    """Of a key that has one; Python would ask for it at the terminal. The plugin cannot read such a key, either."""
    return ""


def _why(error: Exception) -> str:
    """Without the name of the file, which may be a key."""
    return getattr(error, "strerror", None) or str(error)


def _file(value: str, own: Path) -> Path:
    """The file that a value names, or one of our own with the value itself where it is PEM."""
    if _PEM not in value:
        return Path(value).expanduser()
    own.write_text(value, encoding="utf-8")
    return own
