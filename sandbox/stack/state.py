"""Where a sandbox keeps its things: one folder per stack, and nothing outside of it.

The user's stack file is never written to: the engine adds an `encryptionsalt` to the file it works with, so it gets a copy, which
also says how fast the simulated kubelets are (scaled).
"""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from sandbox.clouds.entra import write_kubelogin
from sandbox.stack.names import PROJECT, find_stack_file, stacks
from sandbox.stack.scaled import with_observability, with_sync
from sandbox.system import trust
from sandbox.system.files import explained, make_folder, write_atomic

_SALT_KEY: Final = "encryptionsalt"


@dataclass(frozen=True)
class Sandbox:
    """The paths of one stack's sandbox.

    Attributes:
        stack: the stack's name.
        folder: everything lies in here.
        stack_file: the user's file.
    """

    stack: str
    folder: Path
    stack_file: Path

    @property
    def backend(self) -> Path:
        """Pulumi's file backend."""
        return self.folder / "pulumi"

    @property
    def state_file(self) -> Path:
        """The engine's state of the stack, in that backend."""
        return self.backend / ".pulumi" / "stacks" / "gpu-pools" / f"{self.stack}.json"

    @property
    def programs(self) -> Path:
        """What the engine finds on PATH before anything of the user's own."""
        return self.folder / "bin"

    @property
    def home(self) -> Path:
        """Pulumi's home, apart from the user's own."""
        return self.folder / "home"

    @property
    def passphrase(self) -> Path:
        """Encrypts the secrets in the state."""
        return self.folder / "passphrase"

    @property
    def config_file(self) -> Path:
        """The engine's copy of the stack file."""
        return self.folder / f"Pulumi.{self.stack}.yaml"

    @property
    def providers_record(self) -> Path:
        """Ports of the provider stand-ins."""
        return self.folder / "providers.json"

    @property
    def observed(self) -> Path:
        """Is there where the stack is observed (sandbox.stack.observed)."""
        return self.folder / "observed"

    @property
    def openstack(self) -> Path:
        """Keystone, Magnum and what they know, where the stack is on Magnum."""
        return self.folder / "openstack"

    @property
    def azure_sizes(self) -> Path:
        """VM sizes that the sandbox's Azure offers besides those of the tables."""
        return self.folder / "cloud" / "azure-sizes.json"

    @property
    def openstack_seed(self) -> Path:
        """What else that OpenStack has."""
        return self.folder / "cloud" / "openstack-seed.json"

    @property
    def clusters(self) -> Path:
        """One folder per simulated cluster."""
        return self.folder / "clusters"

    @property
    def kubeconfig(self) -> Path:
        """A link to that of the stack's cluster, once somebody looks around: what a provider reads that is given none."""
        return self.folder / "kubeconfig"

    @property
    def existing_cluster(self) -> Path:
        """The cluster that is there before the deploy, where the stack wants one."""
        return self.clusters / "existing"

    @property
    def openstack_others(self) -> Path:
        """What of its Magnum belongs to others than the stack."""
        return self.folder / "cloud" / "openstack-others.json"

    def cluster_folders(self) -> list[Path]:
        """The folders of the clusters that somebody has begun to make."""
        return sorted(path.parent for path in self.clusters.glob("*/cluster.json"))


def root() -> Path:
    """The folder of all sandboxes.

    Raises:
        SandboxError: if others could change what is in it.
    """
    folder = Path(os.environ.get("GPU_POOLS_SANDBOX_DIR") or PROJECT / ".sandbox").resolve()
    return trust.require(folder, "the state of sandboxes")


def find_sandbox(stack: str) -> Sandbox:
    """The sandbox of a stack, whether it was started or not.

    Raises:
        UnknownStackError: if there is no stack file of that name.
        SandboxError: if others could change what the sandbox runs.
    """
    stack_file = find_stack_file(stack, stacks())
    return Sandbox(stack, trust.require(root() / stack, "the state of a sandbox"), stack_file)


def all_sandboxes() -> list[Sandbox]:
    """The sandboxes that have a folder."""
    if not root().is_dir():
        return []
    folders = [trust.require(folder, "the state of a sandbox") for folder in sorted(root().iterdir()) if folder.is_dir()]
    return [Sandbox(folder.name, folder, stacks() / f"Pulumi.{folder.name}.yaml") for folder in folders]


def prepare(sandbox: Sandbox) -> None:
    """Make the folder, the passphrase and the engine's copy of the stack file.

    Raises:
        SandboxError: if the folder cannot be written.
    """
    for folder in (sandbox.folder, sandbox.backend, sandbox.home, sandbox.folder / "cloud"):
        make_folder(folder)
    write_kubelogin(sandbox.programs, sandbox.folder, sys.executable, PROJECT)
    if not sandbox.passphrase.exists():
        write_atomic(sandbox.passphrase, secrets.token_urlsafe(32))
    with explained(sandbox.stack_file, "read"):
        text = _with_room_for_salt(sandbox.stack_file.read_text(encoding="utf-8"))
    text = with_observability(with_sync(text)) if sandbox.observed.exists() else with_sync(text)
    write_atomic(sandbox.config_file, _with_salt(text, _salt(sandbox.config_file)))


def adopt_salt(sandbox: Sandbox, written: Path) -> None:
    """Carry the salt that the engine wrote elsewhere into its copy of the stack file, unless that has one."""
    if _salt(sandbox.config_file) is None:
        text = sandbox.config_file.read_text(encoding="utf-8")
        write_atomic(sandbox.config_file, _with_salt(text, _salt(written)))


def _salt(config_file: Path) -> str | None:
    """The line that the engine added to its copy; without it the state's secrets could not be read."""
    if not config_file.exists():
        return None
    with explained(config_file, "read"):
        lines = config_file.read_text(encoding="utf-8").splitlines()
    return next((line for line in lines if line.startswith(f"{_SALT_KEY}:")), None)


def without_salt(text: str) -> str:
    """What a stack file says but for that line."""
    return "".join(f"{line}\n" for line in text.splitlines() if not line.startswith(f"{_SALT_KEY}:"))


def _with_salt(text: str, salt: str | None) -> str:
    return (f"{salt}\n" if salt else "") + without_salt(text)


def _with_room_for_salt(text: str) -> str:
    """A stack file to which a line may be added at its beginning, which says the same.

    A file in flow style (JSON is one), one with a document's marker and an indented one are written in block style: the user's
    own file is not touched, and who reads the copy is the engine.
    """
    node = _composed(text)
    if not isinstance(node, yaml.MappingNode) or _composed(f"{_SALT_KEY}: v1\n{text}") is not None:
        return text
    node.value = [(key, value) for key, value in node.value if key.value != _SALT_KEY]
    _write_in_blocks(node)
    return str(yaml.serialize(node, Dumper=yaml.SafeDumper, allow_unicode=True, width=sys.maxsize))


def _composed(text: str) -> yaml.Node | None:
    """The one document of a text; None if there is none. The engine reports why."""
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None


def _write_in_blocks(node: yaml.Node) -> None:
    """Have a mapping, and everything in it, be written in block style; how scalars are written stays."""
    if not isinstance(node, yaml.CollectionNode):
        return
    node.flow_style = False
    for one in node.value:
        for part in one if isinstance(one, tuple) else (one,):
            _write_in_blocks(part)
