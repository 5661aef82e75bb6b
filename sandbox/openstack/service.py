"""Keystone and Magnum of a sandbox: brought up, found again, stopped.

Everything lies in one folder; three processes belong to it: `keystone`, `magnum`, `catalogue`. They listen on 127.0.0.1 only.
`start` may be called at any time: what runs is kept, what died is started again with its database. Machines and clusters are not
this module's: Magnum's driver asks for them.
"""

from __future__ import annotations

import http.client
import os
import secrets
import subprocess
import sys
import urllib.request
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from sandbox.openstack import catalogue, environment, identity, settings
from sandbox.openstack.disturbances import with_disturbances
from sandbox.openstack.identity import Credential, Passwords
from sandbox.openstack.login import DOMAIN, REGION
from sandbox.openstack.magnum_api import MagnumApi, MagnumError
from sandbox.openstack.seed import read_seed
from sandbox.openstack.settings import DRIVERS, Paths
from sandbox.stack.names import PROJECT
from sandbox.system import private_network, processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import locked, make_folder, read_json, write_atomic, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sandbox.openstack.disturbances import Disturbances
    from sandbox.system.progress import Progress

_RECORD: Final = "openstack.json"
_PREPARE = "keystone-prepare"
_KEYSTONE, _MAGNUM, _CATALOGUE = "keystone", "magnum", "catalogue"
_PARTS: Final = (_KEYSTONE, _MAGNUM, _CATALOGUE)
_INSIDE: Final = "sandbox.openstack.inside"
_READY_SECONDS: Final = 120.0
_PREPARE_SECONDS: Final = 300.0
_ANSWER_SECONDS: Final = 5.0
_SHELL: Final = "/bin/sh"
_DRIVER_SETTINGS: Final = "GPU_POOLS_MAGNUM_SETTINGS"


@dataclass(frozen=True)
class OpenStack:
    """How to reach a running OpenStack as the user that stacks log in as.

    Attributes:
        folder: its folder.
        keystone_url: Keystone's address, ending in /v3.
        magnum_url: Magnum's address, ending in /v1.
        credential: the user's application credential.
    """

    folder: Path
    keystone_url: str
    magnum_url: str
    credential: Credential = field(repr=False)

    def login(self) -> dict[str, str]:
        """The environment variables that clients and the Pulumi plugin log in with; the plugin needs no OS_AUTH_TYPE."""
        return {
            "OS_AUTH_URL": self.keystone_url,
            "OS_AUTH_TYPE": "v3applicationcredential",
            "OS_APPLICATION_CREDENTIAL_ID": self.credential.id,
            "OS_APPLICATION_CREDENTIAL_SECRET": self.credential.secret,
            "OS_REGION_NAME": REGION,
            "OS_IDENTITY_API_VERSION": "3",
        }


def start(folder: Path, *, seed: Path, clusters: Path, driver: str | None, progress: Progress) -> OpenStack:
    """Make Keystone, Magnum and the catalogue run.

    Args:
        folder: where their state is; created when missing.
        seed: the file that says what else the cloud has (sandbox.openstack.seed).
        clusters: the folder in which Magnum's driver makes clusters.
        driver: which real driver ours plays: one of settings.DRIVERS; None takes the first.
        progress: told about a first installation.

    Raises:
        SandboxError: a part cannot be installed, or does not come up.
    """
    python = environment.find(progress)
    paths = Paths(make_folder(folder).resolve())
    with locked(paths.folder / _RECORD):
        passwords = _passwords(paths)
        ports = _write(paths, seed.resolve(), clusters.resolve(), driver or next(iter(DRIVERS)), passwords)
        _prepare_keystone(paths, python)
        _spawn(paths, python, seed.resolve())
        keystone_url, services = _keystone_url(ports), _services(ports)
        _await(paths, _KEYSTONE, keystone_url, "identity-v3")
        # What was filled stays filled: it lies in Keystone's database.
        if read_json(paths.filled).get("services") != {type_: list(service) for type_, service in services.items()}:
            identity.fill(keystone_url, passwords, services)
            write_json(paths.filled, {"services": services})
        credential = identity.application_credential(keystone_url, passwords.user, _credential(paths))
        write_json(paths.credential, asdict(credential))
        _await(paths, _CATALOGUE, f"{_local(ports[_CATALOGUE])}{catalogue.IMAGE}", catalogue.IMAGE)
        _await(paths, _MAGNUM, _local(ports[_MAGNUM]), "OpenStack Magnum API")
        _fill_templates(keystone_url, seed, passwords)
    return _openstack(paths, ports, credential)


def load(folder: Path) -> OpenStack:
    """Return the OpenStack of a folder, whether it runs or not.

    Raises:
        SandboxError: when the folder holds none.
    """
    paths = Paths(folder.resolve())
    ports, credential = _ports(paths), _credential(paths)
    if not ports or credential is None:
        message = f"{folder}: holds no OpenStack (no {_RECORD} or no login)."
        raise SandboxError(message, "Start the sandbox: make up STACK=<stack>.")
    return _openstack(paths, ports, credential)


def exists(folder: Path) -> bool:
    """Whether an OpenStack was ever up in a folder."""
    return Paths(folder).credential.exists()


def died(folder: Path) -> list[str]:
    """The names of the parts that ended by themselves."""
    return [name for name in processes.died(folder) if name in _PARTS]


def stop(folder: Path) -> None:
    """Stop everything that runs of it; its data stays, and start brings it back."""
    processes.stop(folder)


def disturb(folder: Path, wanted: Disturbances) -> None:
    """Have operations of the Magnum of a folder go wrong in other ways from now on, until a next call; those that run, too."""
    paths = Paths(folder.resolve())
    # `start` writes this file, too.
    with locked(paths.folder / _RECORD):
        write_json(paths.driver_settings, with_disturbances(read_json(paths.driver_settings), wanted))


def run_client(folder: Path, arguments: Sequence[str], progress: Progress) -> int:
    """Run the real `openstack` command as the user that stacks log in as; returns its exit status.

    On a terminal what it prints is shown harmless: names in a cloud are of whoever has a login there. Without arguments it is a
    dialogue, which needs the terminal for itself.

    Args:
        folder: the folder of an OpenStack that runs.
        arguments: those of the command.
        progress: told about a first installation.

    Raises:
        SandboxError: when the folder holds none, or the client cannot be installed.
    """
    command, env = client(folder, arguments, progress)
    if not arguments or not sys.stdout.isatty():
        return subprocess.run(command, env=env, check=False).returncode
    done = subprocess.run(command, env=env, check=False, capture_output=True, encoding="utf-8", errors="replace")
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


def client(folder: Path, arguments: Sequence[str], progress: Progress) -> tuple[list[str], dict[str, str]]:
    """Return the command line of the real `openstack` command, and its whole environment: what run_client runs.

    It runs in a network of its own, from which nothing is sent to a server of another user that has taken a port of Keystone's.

    Raises:
        SandboxError: when the folder holds no OpenStack, or the client cannot be installed.
    """
    login = load(folder).login()
    program = [str(environment.find(progress)), "-m", "openstackclient.shell", *arguments]
    command = private_network.command(folder, _ports(Paths(folder.resolve())).values(), program)
    # `coe cluster config` looks at SHELL, and fails where there is none: in a container, or a pipeline.
    return command, {"SHELL": _SHELL, **_environment(), **login}


# --- what lies in the folder ------------------------------------------------------------------------------


def _passwords(paths: Paths) -> Passwords:
    stored = read_json(paths.passwords)
    if stored:
        return Passwords(**stored)
    made = Passwords(*(secrets.token_urlsafe(24) for _ in range(3)))
    write_json(paths.passwords, asdict(made))
    return made


def _credential(paths: Paths) -> Credential | None:
    stored = read_json(paths.credential)
    return Credential(**stored) if stored else None


def _write(paths: Paths, seed: Path, clusters: Path, driver: str, passwords: Passwords) -> dict[str, int]:
    """Write all files; what runs with other ones is stopped, so that it is started with these."""
    ports = _ports(paths)
    if not _ports_usable(paths, ports):
        processes.stop(paths.folder, _PARTS)
        ports = dict(zip(_PARTS, processes.free_ports(len(_PARTS)), strict=True))
    record: dict[str, Any] = {"ports": ports, "driver": driver, "seed": str(seed)}
    if record != read_json(paths.folder / _RECORD):
        processes.stop(paths.folder, _PARTS)
        write_json(paths.folder / _RECORD, record)
    texts = {
        paths.keystone_config: settings.keystone_conf(paths),
        paths.magnum_config: settings.magnum_conf(
            paths, keystone_url=_keystone_url(ports), password=passwords.magnum, driver=driver
        ),
        paths.paste: settings.api_paste(),
        **{paths.drivers / name: text for name, text in settings.driver_distribution().items()},
    }
    for path, text in texts.items():
        write_atomic(path, text)
    known = read_json(paths.driver_settings)
    own = {"python": sys.executable, "project": str(PROJECT), "clusters": str(clusters), "seed": str(seed)}
    write_json(paths.driver_settings, {**known, **own})
    return ports


def _ports(paths: Paths) -> dict[str, int]:
    return dict(read_json(paths.folder / _RECORD).get("ports", {}))


def _ports_usable(paths: Paths, ports: dict[str, int]) -> bool:
    """Say whether each port is used by its own process or by nobody."""
    alive = processes.running(paths.folder)
    return bool(ports) and all(name in alive or processes.port_is_free(port) for name, port in ports.items())


def _openstack(paths: Paths, ports: dict[str, int], credential: Credential) -> OpenStack:
    return OpenStack(paths.folder, _keystone_url(ports), f"{_local(ports[_MAGNUM])}/v1", credential)


def _keystone_url(ports: dict[str, int]) -> str:
    return f"{_local(ports[_KEYSTONE])}/v3"


def _services(ports: dict[str, int]) -> dict[str, tuple[str, str]]:
    others = _local(ports[_CATALOGUE])
    return {
        "identity": ("keystone", _keystone_url(ports)),
        "container-infra": ("magnum", f"{_local(ports[_MAGNUM])}/v1"),
        "image": ("glance", others + catalogue.IMAGE),
        "compute": ("nova", others + catalogue.COMPUTE),
        "network": ("neutron", others + catalogue.NETWORK),
    }


def _login(keystone_url: str, name: str, password: str) -> dict[str, str]:
    """The login of a user whose project has his name."""
    return {
        "OS_AUTH_URL": keystone_url,
        "OS_USERNAME": name,
        "OS_PASSWORD": password,
        "OS_PROJECT_NAME": name,
        "OS_USER_DOMAIN_ID": DOMAIN,
        "OS_PROJECT_DOMAIN_ID": DOMAIN,
        "OS_REGION_NAME": REGION,
        "OS_IDENTITY_API_VERSION": "3",
    }


def _fill_templates(keystone_url: str, seed: Path, passwords: Passwords) -> None:
    """Make the public templates that the cloud's operators have made, unless they are there."""
    operators = MagnumApi(_login(keystone_url, identity.ADMIN, passwords.admin))
    for name, values in read_seed(seed).templates.items():
        try:
            if not operators.has_template(name):
                own = {"uuid": name} if _is_uuid(name) else {}
                operators.create_template({"coe": "kubernetes", **values, **own, "name": name, "public": True})
        except MagnumError as error:
            message = f"{seed}: template {name}: {error}"
            raise SandboxError(message, "Give it an image, flavors and networks that the file has, too.") from error


def _is_uuid(name: str) -> bool:
    """Whether a stack names a template by its UUID: by that, and not by its name, Magnum will look for it."""
    try:
        UUID(name)
    except ValueError:
        return False
    return True


def _local(port: int) -> str:
    return f"http://127.0.0.1:{port}"


# --- what runs --------------------------------------------------------------------------------------------


def _environment(*paths: Path) -> dict[str, str]:
    """An environment in which the programs find this project and the entry points of its drivers, and no one's login."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
    return {**own, "PYTHONPATH": os.pathsep.join(map(str, (*paths, PROJECT))), "PYTHONWARNINGS": "ignore"}


def _prepare_keystone(paths: Paths, python: Path) -> None:
    if paths.prepared.exists():
        return
    # What a killed run left, or still does, is begun anew.
    processes.stop(paths.folder, [_PREPARE])
    for path in (paths.keystone_database, paths.filled):
        path.unlink(missing_ok=True)
    make_folder(paths.folder / "fernet")
    command = [
        str(python),
        "-m",
        f"{_INSIDE}.keystone_prepare",
        *map(str, (paths.keystone_config, paths.passwords, paths.prepared)),
    ]
    processes.spawn(paths.folder, _PREPARE, command, env=_environment(), cwd=paths.folder)
    processes.wait_until(
        lambda: _PREPARE not in processes.running(paths.folder), timeout=_PREPARE_SECONDS, what="Keystone's database is made"
    )
    if not paths.prepared.exists():
        message = f"{paths.folder}: Keystone's database could not be made:\n{processes.describe_end(paths.folder, _PREPARE)}"
        raise SandboxError(message, "Remove the sandbox and start again: make clean, then make up.")


def _spawn(paths: Paths, python: Path, seed: Path) -> None:
    alive, ports = processes.running(paths.folder), _ports(paths)
    commands = {
        _KEYSTONE: [str(python), "-m", f"{_INSIDE}.keystone_serve", str(paths.keystone_config), str(ports[_KEYSTONE])],
        _MAGNUM: [str(python), "-m", f"{_INSIDE}.magnum_serve", str(paths.magnum_config), str(ports[_MAGNUM])],
        _CATALOGUE: [sys.executable, "-m", "sandbox.openstack.catalogue", str(seed), str(ports[_CATALOGUE])],
    }
    environment_ = {**_environment(paths.drivers), _DRIVER_SETTINGS: str(paths.driver_settings)}
    for name, command in commands.items():
        if name not in alive:
            processes.spawn(paths.folder, name, command, env=environment_, cwd=paths.folder)


def _await(paths: Paths, name: str, url: str, says: str) -> None:
    """Wait until a part answers; what it says tells it from a program that took its port first."""

    def answers() -> bool:
        if name not in processes.running(paths.folder):
            tail = processes.describe_end(paths.folder, name)
            message = f"{paths.folder}: {name} ended while it was starting. Its last output:\n{tail}"
            raise SandboxError(message, f"The whole output is in {paths.folder / 'logs' / name}.log. Run the command again.")
        return says in _answer(url)

    processes.wait_until(answers, timeout=_READY_SECONDS, what=f"{name} at {url} answers")


def _answer(url: str) -> str:
    """What a server says there; empty when there is none."""
    try:
        with urllib.request.urlopen(url, timeout=_ANSWER_SECONDS) as response:  # noqa: S310 the address is ours
            return str(response.read(), encoding="utf-8", errors="replace")
    except (OSError, http.client.HTTPException):
        return ""
