"""The configuration of a Kubernetes provider resource: what it says, and whether another one means another cluster.

No server is asked here. A kubeconfig that is of no use is kept as that: a preview goes on without one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.cluster.api_errors import UnreachableError
from sandbox.cluster.kubeconfig import context_namespace, read_kubeconfig
from sandbox.providers.differences import Diff, compare
from sandbox.providers.values import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.providers.values import Value


@dataclass(frozen=True)
class Settings:
    """The configuration of one provider resource.

    Attributes:
        config: the content of the kubeconfig; empty while it is unknown or of no use.
        context: which context of it; "" for the current one.
        namespace: where objects go that name no namespace.
        mutable: kinds whose data may change in place.
        problem: why there is no usable kubeconfig ("" when there is one).
        unknown: the kubeconfig is an output of something that doesn't exist yet.
        force: whether applies take fields away from other managers.
        upsert: whether a create takes over an object that exists.
        delete_unreachable: whether objects of a cluster that doesn't answer count as deleted.
    """

    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    context: str = ""
    namespace: str = "default"
    mutable: frozenset[str] = frozenset()
    problem: str = ""
    unknown: bool = False
    force: bool = False
    upsert: bool = False
    delete_unreachable: bool = False


def _is_on(args: Mapping[str, Value], key: str) -> bool:
    """A switch of the configuration; the SDK sends these as JSON texts."""
    return args.get(key) in (True, "true")


def settings_of(args: Mapping[str, Value]) -> Settings:
    """Read a provider's configuration. A kubeconfig that is of no use is not an error yet: a preview must go on."""
    mutable = {kind for kind in ("ConfigMap", "Secret") if _is_on(args, f"enable{kind}Mutable")}
    context = args.get("context") or ""
    config: Mapping[str, Any] = {}
    problem = ""
    unknown = any(args.get(key) is UNKNOWN for key in ("kubeconfig", "context", "cluster"))
    if not unknown:
        try:
            config = read_kubeconfig(args.get("kubeconfig") or _default_kubeconfig())
        except UnreachableError as error:
            problem = str(error)
    namespace = args.get("namespace")
    return Settings(
        config=config,
        context="" if unknown else context,
        namespace=namespace if isinstance(namespace, str) and namespace else context_namespace(config, context) or "default",
        mutable=frozenset(mutable),
        problem=problem,
        unknown=unknown,
        force=_is_on(args, "enablePatchForce"),
        upsert=_is_on(args, "upsertExistingObjects"),
        delete_unreachable=_is_on(args, "deleteUnreachable"),
    )


def _default_kubeconfig() -> str:
    return os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


def diff_provider(olds: Mapping[str, Value], news: Mapping[str, Value]) -> Diff:
    """Whether another configuration of the provider means another cluster, and so a replacement of everything."""
    changed = compare({**olds}, {**news})
    before, after = olds.get("clusterIdentifier"), news.get("clusterIdentifier")
    replaces: list[str] = []
    if before and after:
        replaces = ["clusterIdentifier"] if before != after else []
    elif any(news.get(key) is UNKNOWN for key in ("kubeconfig", "context")):
        replaces = [key for key in ("kubeconfig", "context") if news.get(key) is UNKNOWN]
    elif _active_cluster(olds) != _active_cluster(news):
        replaces = ["kubeconfig"]
    return Diff(changes=changed.changes, replaces=replaces, diffs=changed.diffs)


def _active_cluster(args: Mapping[str, Value]) -> Any:  # noqa: ANN401  (a part of a kubeconfig)
    """The cluster entry that a configuration leads to; the credentials don't matter."""
    try:
        config = read_kubeconfig(args.get("kubeconfig") or _default_kubeconfig())
    except UnreachableError:
        return args.get("kubeconfig")
    wanted = args.get("context") or config.get("current-context")
    contexts = [entry.get("context") or {} for entry in config.get("contexts") or [] if entry.get("name") == wanted]
    cluster = args.get("cluster") or (contexts[0].get("cluster") if contexts else None)
    return next((entry.get("cluster") for entry in config["clusters"] if entry.get("name") == cluster), None)
