"""The command lines that make and enter the namespaces of a simulated node, for root and for other users.

Root makes mount and process namespaces as they are. Who is not root makes a user namespace around them, in which he is root and
nobody else has a name: he may mount there what he may read, and whatever belongs to others shows as nobody's. Machines can
forbid that; `settings_against` says by which settings. Nothing is tried here (see gpu_host), and no process is started.

nsenter keeps the credentials of whoever enters a user namespace, since these already are root's inside, and groups cannot be
given up there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_KERNEL: Final = Path("/proc/sys")
#: What forbids user namespaces -> its value that does, and one that does not. The first is every kernel's (namespaces(7)), the
#: second Debian's and Ubuntu's. The third is Ubuntu's since 23.10: they can be made, but with no capability inside
#: (apparmor, profiles/apparmor.d/unprivileged_userns).
_SETTINGS: Final = {
    "user.max_user_namespaces": ("0", "10000"),
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
}


@dataclass(frozen=True)
class Namespaces:
    """How the namespaces of a node are made.

    Attributes:
        own_users: whether a user namespace is around them.
    """

    own_users: bool

    def new(self) -> list[str]:
        """Runs what follows in a mount and a process namespace of its own, whose processes end with it."""
        users = ["--user", "--map-root-user"] if self.own_users else []
        return ["unshare", *users, "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]

    def only_mounts(self) -> list[str]:
        """Runs what follows in a mount namespace of its own; it takes the place of who calls it."""
        users = ["--user", "--map-root-user"] if self.own_users else []
        return ["unshare", *users, "--mount", "--propagation", "private"]

    def entering(self, pid: int, *shared: str) -> list[str]:
        """Runs what follows in namespaces of a process.

        Args:
            pid: the process.
            shared: which, as options of nsenter.
        """
        users = ["--user", "--preserve-credentials"] if self.own_users else []
        return ["nsenter", "--target", str(pid), *users, *shared, "--"]


def settings_against(kernel: Path = _KERNEL) -> list[str]:
    """What of a kernel's settings keeps users from user namespaces, and how root changes it.

    Args:
        kernel: where the settings are.
    """
    found = []
    for name, (forbids, allows) in _SETTINGS.items():
        path = kernel / name.replace(".", "/")
        if path.exists() and path.read_text(encoding="ascii").strip() == forbids:
            found.append(f"{name} is {forbids} (root allows them by `sysctl -w {name}={allows}`)")
    return found
