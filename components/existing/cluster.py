"""A cluster that is there already, reached through a kubeconfig.

Nothing of the cluster is managed here: no nodes, no pools, no taints. A kubeconfig is read when the program runs, and kept
as a secret; its credentials are the reader's own, and it should name a context, so that a changed default cannot send GPU
pools elsewhere. It is a file, or its content, which may be an Output that a preview does not know: of a cluster that the same
program makes. Or there is none, where the component is given a Kubernetes provider by its options: that one is used as it is, and
what needs a kubeconfig (telling why a verification failed) is left out.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
import yaml

from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.stack import ExistingClusterArgs
from gpu_pools.components.arguments.to_stack import stack_keys
from gpu_pools.components.engine.outputs import put_back, put_off
from gpu_pools.components.kubernetes.provider import kubernetes_provider
from gpu_pools.platforms.existing.cluster import ExistingSettings
from gpu_pools.reading.fields import read
from gpu_pools.reading.later import Later
from gpu_pools.reading.section import Section
from gpu_pools.text.errors import InvalidStackError, Problem, Problems

__all__ = ["ExistingCluster", "ExistingClusterArgs", "read_kubeconfig"]


class ExistingCluster(pulumi.ComponentResource):
    """A cluster that exists."""

    cluster_id: pulumi.Output[str]
    """What identifies the cluster here: the context's name; with a provider the component's."""
    cluster_name: pulumi.Output[str]
    """The same."""
    kubeconfig: pulumi.Output[str]
    """The kubeconfig; a secret. Empty with a provider."""

    def __init__(
        self,
        name: str,
        args: ExistingClusterArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: ExistingSettings | None = None,
    ) -> None:
        """Find out how to reach the cluster.

        Args:
            name: of the component.
            args: the kubeconfig, and its context.
            opts: options of the component; a Kubernetes provider in `provider` or `providers` is used where the arguments name
                no kubeconfig.
            planned: what the arguments mean, where they were checked with a whole stack.

        Raises:
            InvalidStackError: if the kubeconfig cannot be read, or lacks the context.
        """
        what = f"ExistingCluster({name})"
        args = known_args(what, args, ExistingClusterArgs)
        settings = planned or _settings(what, args)
        given = given_provider(settings.kubeconfig, settings.kubeconfig_content, opts)
        content, context = ("", name) if given else _kubeconfig(what, settings)
        super().__init__("gpu-pools:index:ExistingCluster", name, None, opts)
        #: Nothing of this cluster is ours, so nothing goes away with it.
        self.resource: pulumi.Resource | None = None
        self.cluster_id = pulumi.Output.from_input(context)
        self.cluster_name = pulumi.Output.from_input(context)
        self.kubeconfig = pulumi.Output.secret(content)
        #: For everything that is put into this cluster.
        self.kubernetes = given or self._reached(name, settings, context, opts)
        self.register_outputs({"cluster_id": self.cluster_id, "cluster_name": self.cluster_name, "kubeconfig": self.kubeconfig})

    def _reached(
        self, name: str, settings: ExistingSettings, context: pulumi.Input[str], opts: pulumi.ResourceOptions | None
    ) -> pulumi.ProviderResource:
        # Of a kubeconfig that is not known yet, neither is its current context; the provider takes it by itself.
        known = context if isinstance(context, str) else settings.context
        identity = known or name
        return kubernetes_provider(name, self, self.kubeconfig, identity, known, given=opts)


def _settings(what: str, args: ExistingClusterArgs) -> ExistingSettings:
    problems = Problems()
    section = Section(put_off(stack_keys(args)), what, problems)
    settings = read(ExistingSettings, section)
    section.finish()
    problems.raise_if_any()
    return settings


def given_provider(kubeconfig: object, content: object, opts: pulumi.ResourceOptions | None) -> pulumi.ProviderResource | None:
    """The Kubernetes provider of a component's options, where nothing else says how to reach the cluster.

    Args:
        kubeconfig: a path, or None.
        content: a kubeconfig, or None.
        opts: the options.
    """
    if opts is None or kubeconfig is not None or content is not None:
        return None
    several = [*opts.providers.values()] if isinstance(opts.providers, Mapping) else [*(opts.providers or [])]
    several += [opts.provider] if opts.provider is not None else []
    return next((provider for provider in several if provider.package == "kubernetes"), None)


def _kubeconfig(what: str, settings: ExistingSettings) -> tuple[pulumi.Input[str], pulumi.Input[str]]:
    """(contents, context)."""
    content = settings.kubeconfig_content
    if content is None:
        return read_kubeconfig(settings.kubeconfig, settings.context, what)
    if not isinstance(content, Later):
        return content, _context(content, "kubeconfig_content", settings.context, what)
    later = pulumi.Output.from_input(put_back(content))
    return later, later.apply(lambda text: _context(text, "kubeconfig_content", settings.context, what))


def _context(text: str, file: str, context: str | None, where: str) -> str:
    """The context of a kubeconfig that is the only one."""
    contexts, current = _contexts(text, file, where)
    wanted = context or current
    if wanted in contexts:
        return wanted
    asked = f'no context "{context}"' if context else "no current context"
    allowed = ", ".join(contexts) or "a kubeconfig with a context"
    raise InvalidStackError([Problem(f"{where}.context", f"{asked} in {file}", allowed, "Name one of these contexts.")])


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
