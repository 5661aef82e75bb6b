"""What `make shell` starts: the user's shell, or one command, in the environment that the engine has here.

Nothing is held meanwhile: other commands may work on the sandbox, and the engine has a lock of its own. The sandbox's `pulumi`
(sandbox/on_path) stands first on PATH; it says why.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Final, NoReturn

from sandbox.stack.names import PROJECT
from sandbox.system.errors import SandboxError
from sandbox.system.files import explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox.stack.engine import Engine

_ON_PATH: Final = PROJECT / "sandbox" / "on_path"
_TEXT: Final = """\
• A shell in the sandbox of {stack}; `exit` leaves it, and leaves the sandbox as it is
    kubectl, helm    {clusters}
    pulumi           in this folder on the stack {stack}; edit stacks/Pulumi.{stack}.yaml, the engine works on a copy of it
    in any other folder on a program of your own, with the same stand-ins ({stand_ins}): pulumi stack init, pulumi up
"""


def environment(engine: Engine) -> dict[str, str]:
    """The engine's environment, and the clusters that there are."""
    sandbox, own = engine.sandbox, engine.environment()
    clusters = [str(path) for path in (folder / "kubeconfig" for folder in sandbox.cluster_folders()) if path.exists()]
    return {
        **own,
        "PATH": os.pathsep.join([str(_ON_PATH), own["PATH"], str(engine.tools.helm.parent)]),
        # Without a cluster the file that is not there: kubectl shall not find the user's own clusters in its place.
        "KUBECONFIG": os.pathsep.join(clusters) or own["KUBECONFIG"],
        "GPU_POOLS_PROJECT": str(PROJECT),
        "GPU_POOLS_STACK": sandbox.stack,
        "GPU_POOLS_CONFIG_FILE": str(sandbox.config_file),
        "GPU_POOLS_PULUMI": str(engine.tools.pulumi),
        "GPU_POOLS_PYTHON": sys.executable,
        "GPU_POOLS_ALONE": str(sandbox.folder) if engine.alone else "",
    }


def enter(engine: Engine, command: Sequence[str]) -> NoReturn:
    """Become a command, or the user's shell where none is given.

    Raises:
        SandboxError: if there is no such program.
    """
    variables = environment(engine)
    _link_kubeconfig(engine)
    if not command:
        sys.stderr.write(_greeting(engine, variables))
    program, *arguments = command or [os.environ.get("SHELL") or "sh"]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(program, [program, *arguments], variables)  # noqa: S606 - which program is the user's word
    except OSError as error:
        message = f"{program}: cannot run it: {error.strerror}."
        raise SandboxError(message, 'Name a program and its arguments: make shell ARGS="kubectl get nodes".') from error


def _link_kubeconfig(engine: Engine) -> None:
    """Have the stand-in of the Kubernetes provider find the stack's cluster for a program that names none."""
    sandbox = engine.sandbox
    for folder in sandbox.cluster_folders()[:1]:
        with explained(sandbox.kubeconfig, "write"):
            sandbox.kubeconfig.unlink(missing_ok=True)
            sandbox.kubeconfig.symlink_to(folder / "kubeconfig")


def _greeting(engine: Engine, variables: dict[str, str]) -> str:
    clusters = f"KUBECONFIG={variables['KUBECONFIG']}" if engine.sandbox.cluster_folders() else "no cluster is up yet"
    if shutil.which("kubectl") is None:
        clusters += " (there is no kubectl on this machine)"
    return _TEXT.format(stack=engine.sandbox.stack, clusters=clusters, stand_ins=", ".join(sorted(engine.attached.ports)))
