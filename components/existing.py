"""A cluster that is there already, reached through a kubeconfig.

Nothing of the cluster is managed here: no nodes, no pools, no taints. The kubeconfig is read when the program runs, and kept
as a secret; its credentials are the reader's own, and it should name a context, so that a changed default cannot send GPU
pools elsewhere.
"""

import os
from pathlib import Path
from typing import Any

import pulumi
import yaml

from gpu_pools.text.errors import InvalidStackError, Problem

from ._args import ExistingClusterArgs
from .kubernetes_provider import kubernetes_provider

__all__ = ["ExistingCluster", "ExistingClusterArgs", "read_kubeconfig"]


class ExistingCluster(pulumi.ComponentResource):
    """A cluster that exists."""

    cluster_id: pulumi.Output[str]
    """What identifies the cluster here: the context's name."""
    cluster_name: pulumi.Output[str]
    """The context's name."""
    kubeconfig: pulumi.Output[str]
    """The kubeconfig; a secret."""

    def __init__(self, name: str, args: ExistingClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Read the kubeconfig.

        Raises:
            InvalidStackError: if it cannot be read, or lacks the context.
        """
        text, context = read_kubeconfig(args.get("kubeconfig"), args.get("context"), f"ExistingCluster({name})")
        super().__init__("gpu-pools:index:ExistingCluster", name, None, opts)
        #: Nothing of this cluster is ours, so nothing goes away with it.
        self.resource: pulumi.Resource | None = None
        self.cluster_id = pulumi.Output.from_input(context)
        self.cluster_name = pulumi.Output.from_input(context)
        self.kubeconfig = pulumi.Output.secret(text)
        #: For everything that is put into this cluster.
        self.kubernetes = kubernetes_provider(name, self, self.kubeconfig, context, context, given=opts)
        self.register_outputs({"cluster_id": self.cluster_id, "cluster_name": self.cluster_name, "kubeconfig": self.kubeconfig})


def read_kubeconfig(path: str | None, context: str | None, where: str) -> tuple[str, str]:
    """(contents, context) of a kubeconfig.

    Args:
        path: of the file; None for KUBECONFIG, of which the first file with the context counts, else ~/.kube/config.
        context: None for the file's current one.
        where: what asks, for messages.

    Raises:
        InvalidStackError: if no file can be read, or none has the context.
    """
    files = [path] if path else (os.environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep)
    known: list[str] = []
    for file in filter(None, files):
        text = _read(Path(file).expanduser(), where, named=path is not None)
        if text is None:
            continue
        contexts, current = _contexts(text, file, where)
        known += contexts
        wanted = context or current
        if wanted and wanted in contexts:
            return text, wanted
    allowed = ", ".join(known) or "a kubeconfig file with a context"
    asked = f'no context "{context}"' if context else "no current context"
    problem = Problem(
        f"{where}.context", f"{asked} in {' or '.join(files)}", allowed, "Name one of these contexts, or another kubeconfig."
    )
    raise InvalidStackError([problem])


def _read(file: Path, where: str, *, named: bool) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if not named:
            return None
        reason = getattr(error, "strerror", None) or "not UTF-8"
        problem = Problem(
            f"{where}.kubeconfig", f'"{file}" cannot be read: {reason}', "a readable kubeconfig file", "Correct the path."
        )
        raise InvalidStackError([problem]) from None


def _contexts(text: str, file: str, where: str) -> tuple[list[str], str]:
    # Never quote the text in a message: it holds credentials.
    try:
        document: Any = yaml.safe_load(text)
        contexts = [str(entry["name"]) for entry in document.get("contexts") or []]
        return contexts, str(document.get("current-context") or "")
    except (yaml.YAMLError, AttributeError, KeyError, TypeError):
        problem = Problem(f"{where}.kubeconfig", f'"{file}" is not a kubeconfig', "a kubeconfig file", "Name another file.")
        raise InvalidStackError([problem]) from None
