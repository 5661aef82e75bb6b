"""The configuration files of Keystone and Magnum, as texts.

Only what differs from their defaults and why. The files hold passwords, so whoever writes them keeps them from others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandbox.openstack.identity import SERVICE_PROJECT, SERVICE_USER
from sandbox.openstack.login import DOMAIN, REGION
from sandbox.openstack.marks import CAPI_HELM, CLUSTER_API, HEAT

if TYPE_CHECKING:
    from pathlib import Path

DRIVERS: Final = {
    HEAT: ("k8s_fedora_coreos_v1", "Heat"),
    CLUSTER_API: ("k8s_cluster_api_ubuntu", "ClusterApi"),
    CAPI_HELM: ("k8s_capi_helm_v1", "CapiHelm"),
}
"""Driver of a stack -> the name that the real driver has in Magnum, our class that plays it.

The names are the drivers' entry points: openstack/magnum stable/2025.1, vexxhost/magnum-cluster-api 0.38.1,
openstack/magnum-capi-helm 1.4.0.
"""
_DRIVER_MODULE: Final = "sandbox.openstack.inside.driver"


@dataclass(frozen=True)
class Paths:
    """Where things lie in the folder of an OpenStack."""

    folder: Path

    @property
    def keystone_config(self) -> Path:
        """Keystone's configuration."""
        return self.folder / "keystone.conf"

    @property
    def magnum_config(self) -> Path:
        """Magnum's configuration; holds a password."""
        return self.folder / "magnum.conf"

    @property
    def paste(self) -> Path:
        """The chain of WSGI filters before Magnum's API."""
        return self.folder / "api-paste.ini"

    @property
    def drivers(self) -> Path:
        """A folder for PYTHONPATH in which Magnum finds the drivers' entry points."""
        return self.folder / "drivers"

    @property
    def keystone_database(self) -> Path:
        """Keystone's database; its being there says nothing, see `prepared`."""
        return self.folder / "keystone.sqlite"

    @property
    def magnum_database(self) -> Path:
        """Magnum's database."""
        return self.folder / "magnum.sqlite"

    @property
    def prepared(self) -> Path:
        """Exists when Keystone's database and keys are whole."""
        return self.folder / "keystone.prepared"

    @property
    def filled(self) -> Path:
        """What services Keystone was last told of; written when it knows all that it must."""
        return self.folder / "keystone.filled.json"

    @property
    def passwords(self) -> Path:
        """The passwords of the sandbox."""
        return self.folder / "passwords.json"

    @property
    def credential(self) -> Path:
        """The application credential that stacks log in with."""
        return self.folder / "credential.json"

    @property
    def driver_settings(self) -> Path:
        """What the Magnum driver has to know; read anew for each operation."""
        return self.folder / "driver.json"


def keystone_conf(paths: Paths) -> str:
    """Keystone's configuration: a database in the folder, cheap hashes, since the passwords are random and live here alone."""
    return f"""\
[DEFAULT]
use_stderr = true
[database]
connection = {_sqlite(paths.keystone_database)}
[identity]
password_hash_rounds = 4
max_password_length = 72
[fernet_tokens]
key_repository = {paths.folder / "fernet"}
[credential]
key_repository = {paths.folder / "credential"}
"""


def magnum_conf(paths: Paths, *, keystone_url: str, password: str, driver: str) -> str:
    """Magnum's configuration.

    Args:
        paths: where its things lie.
        keystone_url: Keystone's address, ending in /v3.
        password: the service user's.
        driver: one of DRIVERS, for templates that name none.
    """
    login = f"""\
auth_type = password
auth_url = {keystone_url}
username = {SERVICE_USER}
password = {password}
project_name = {SERVICE_PROJECT}
user_domain_id = {DOMAIN}
project_domain_id = {DOMAIN}
"""
    clients = "\n".join(f"[{name}_client]\nregion_name = {REGION}" for name in ("magnum", "glance", "nova", "neutron", "cinder"))
    # Readers get an engine of their own, so that writers alone take the lock (see inside/magnum_serve.py).
    return f"""\
[DEFAULT]
use_stderr = true
transport_url = fake://
state_path = {paths.folder}
host = sandbox
[api]
api_paste_config = {paths.paste}
[database]
connection = {_sqlite(paths.magnum_database)}
slave_connection = {_sqlite(paths.magnum_database)}
[oslo_concurrency]
lock_path = {paths.folder / "locks"}
[certificates]
cert_manager_type = x509keypair
[cluster]
temp_cache_dir = {paths.folder / "certificates"}
[drivers]
default_driver = {DRIVERS[driver][0]}
[keystone_auth]
{login}[keystone_authtoken]
www_authenticate_uri = {keystone_url}
{login}{clients}
"""


def api_paste() -> str:
    """The filters that Magnum's own api-paste.ini has, without those for browsers, proxies and profilers."""
    return """\
[pipeline:main]
pipeline = request_id authtoken api_v1
[app:api_v1]
paste.app_factory = magnum.api.app:app_factory
[filter:authtoken]
acl_public_routes = /, /v1
paste.filter_factory = magnum.api.middleware.auth_token:AuthTokenMiddleware.factory
[filter:request_id]
paste.filter_factory = oslo_middleware:RequestId.factory
"""


def driver_distribution() -> dict[str, str]:
    """The metadata of a Python distribution that has nothing but entry points: relative path -> text."""
    folder = "gpu_pools_magnum_driver-1.0.dist-info"
    points = "\n".join(f"{name} = {_DRIVER_MODULE}:{class_}" for name, class_ in DRIVERS.values())
    return {
        f"{folder}/METADATA": "Metadata-Version: 2.1\nName: gpu-pools-magnum-driver\nVersion: 1.0\n",
        f"{folder}/entry_points.txt": f"[magnum.drivers]\n{points}\n",
    }


def _sqlite(path: Path) -> str:
    # Whoever finds the database locked waits a minute.
    return f"sqlite:///{path}?timeout=60"
