"""The Kubernetes provider's stand-in: any object of any kind at a real API server, and Helm releases.

It does what pulumi-kubernetes 4.34 does, as far as a user of this project can tell: names, default namespaces and
labels are filled in; a create is a plain create, so that an object which exists is an error; an update is a
server-side apply; previews send dry runs, so that the API's own validation speaks before anything is done; workloads
are waited for (await_ready), and releases go through the real helm (helm).

Two things are better than the real provider's, because the sandbox promises that an interrupted run is finished by
the next one. An object that exists and was created for this very resource (its field manager, derived from the
resource's URN, says so) is adopted; and pending Helm releases are recovered.

Deliberately not here: Patch resources, List kinds, components (Chart v4, ConfigFile, ConfigGroup), rendering to
files, and client-side apply: updates are always server-side.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from sandbox.providers import helm, kube_rules
from sandbox.providers.await_ready import AwaitError, Waiter, judge, timeout_of, wait_conditions
from sandbox.providers.base import PartialFailure, ServiceError, StandIn
from sandbox.providers.claims import Claims
from sandbox.providers.differences import Diff, compare
from sandbox.providers.kube_api import (
    Api,
    ApiError,
    ApiPool,
    UnknownKindError,
    UnreachableError,
    context_namespace,
    read_kubeconfig,
)
from sandbox.providers.values import UNKNOWN, Secret, Value, has_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sandbox.providers.base import Failure

_LOG = logging.getLogger(__name__)
_FIELD_MANAGER: Final = "__fieldManager"
_MOST_CONNECTIONS: Final = 64
# A CRD or a namespace may be on its way, from another resource of the same run.
_RETRIES, _RETRY_SECONDS = 20, 0.5
# Of a dry run, what is made up by the server and will be something else for real.
_PROVISIONAL = ("uid", "resourceVersion", "creationTimestamp", "generation")
_REFUSED = {
    "kubernetes:yaml": "it is a component, not a resource",
    "kubernetes:kustomize": "it is a component, not a resource",
    "kubernetes:helm.sh/v4": "it is a component, not a resource",
}


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
    """Read a provider's configuration. A kubeconfig that is of no use is no error yet: a preview must go on."""
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


class KubernetesStandIn(StandIn):
    """Stands in for the Kubernetes provider.

    Args:
        releases: what handles Helm releases; for tests.
    """

    package: ClassVar[str] = "kubernetes"
    version: ClassVar[str] = "4.34.2"

    def __init__(self, releases: Callable[[threading.Event], helm.Releases] | None = None) -> None:
        super().__init__()
        self._releases = releases(self.cancelled) if releases else helm.Releases(self.cancelled, _notify)
        self._pool = ApiPool()
        self._claims = Claims()
        self._lock = threading.Lock()
        self._settings: dict[str, Settings] = {}
        # Objects that a diff has condemned to replacement: their names are taken in the preview of the create.
        self._to_replace: set[str] = set()

    # ---------------------------------------------------------------- configuration

    def check_config(self, news: dict[str, Value]) -> tuple[dict[str, Value], list[Failure]]:
        """Refuse what the stand-in cannot do."""
        if news.get("renderYamlToDirectory"):
            return news, [("renderYamlToDirectory", "the sandbox's Kubernetes provider renders no files: leave it out")]
        return news, []

    def diff_config(self, olds: dict[str, Value], news: dict[str, Value]) -> Diff:
        """See `diff_provider`."""
        return diff_provider(olds, news)

    def configure(self, variables: dict[str, str], args: dict[str, Value]) -> None:
        """Take the configuration; the cluster is contacted when it is needed."""
        prefix = "kubernetes:config:"
        given = {key.removeprefix(prefix): value for key, value in variables.items()} | args
        with self._lock:
            self._settings.pop(self.current.connection, None)
            self._settings[self.current.connection] = settings_of(given)
            while len(self._settings) > _MOST_CONNECTIONS:
                del self._settings[next(iter(self._settings))]
            self._to_replace.clear()

    def _configured(self) -> Settings:
        """The calling provider's configuration; after a reconnection, the one that was given last."""
        with self._lock:
            known = self._settings.get(self.current.connection)
            return known or (list(self._settings.values())[-1] if self._settings else settings_of({}))

    # ---------------------------------------------------------------- the cluster

    def _api(self, settings: Settings) -> Api:
        """The API server.

        Raises:
            UnreachableError: it doesn't answer, or is not known yet.
        """
        if settings.unknown:
            raise UnreachableError("its kubeconfig is not known yet")
        if settings.problem:
            raise UnreachableError(settings.problem)
        api = self._pool.open(dict(settings.config), settings.context)
        self._pool.check(api)
        return api

    def _required_api(self, settings: Settings) -> Api:
        try:
            return self._api(settings)
        except UnreachableError as error:
            raise ServiceError(_unreachable(error)) from error

    def _preview_api(self, settings: Settings) -> Api | None:
        """The API server for a preview, which goes on without it; only an unknown one goes without a warning."""
        try:
            return self._api(settings)
        except UnreachableError as error:
            if not settings.unknown:
                _LOG.warning("%s: %s", self.current.urn, _unreachable(error))
            return None

    def _target(self, settings: Settings) -> helm.Target:
        return helm.Target(settings.config, settings.context, settings.namespace)

    # ---------------------------------------------------------------- check and diff

    def check(self, type_: str, olds: dict[str, Value], news: dict[str, Value]) -> tuple[dict[str, Value], list[Failure]]:
        """Fill in what the provider fills in, and refuse what it would refuse."""
        settings, request = self._configured(), self.current
        if type_ == helm.TYPE:
            return self._releases.check(olds, news, name=request.name, seed=request.random_seed, namespace=settings.namespace)
        refusal = _refusal(type_, news)
        if refusal:
            return news, [("", refusal)]
        news = {"apiVersion": _api_version(type_), "kind": type_.rsplit(":", 1)[-1], **news}
        namespace = settings.namespace if self._is_namespaced(settings, news) else ""
        obj = kube_rules.fill_in(news, olds, name=request.name, seed=request.random_seed, namespace=namespace)
        wait_for = kube_rules.annotations_of(obj).get("pulumi.com/waitFor")
        if wait_for is not None:
            try:
                wait_conditions(wait_for)
            except ValueError as error:
                return obj, [('metadata.annotations["pulumi.com/waitFor"]', str(error))]
        return obj, []

    def _is_namespaced(self, settings: Settings, obj: Mapping[str, Value]) -> bool:
        if obj["kind"] in kube_rules.CLUSTER_SCOPED:
            return False
        try:
            return self._api(settings).kind(obj["apiVersion"], obj["kind"]).namespaced
        except (UnreachableError, UnknownKindError, ApiError):
            return True

    def diff(
        self,
        type_: str,
        id_: str,  # noqa: ARG002
        old_inputs: dict[str, Value],
        old_outputs: dict[str, Value],  # noqa: ARG002
        news: dict[str, Value],
    ) -> Diff:
        """Compare inputs; which changes make a new object is a matter of kube_rules and helm."""
        if type_ == helm.TYPE:
            return self._releases.diff(old_inputs, news)
        found = kube_rules.differences(old_inputs, news, mutable=self._configured().mutable)
        if not found.replaces and self._is_unready_job(old_inputs, news):
            found = kube_rules.replaced_while_unready(found, old_inputs, news)
        with self._lock:
            (self._to_replace.add if found.replaces else self._to_replace.discard)(self.current.urn)
        return found

    def _is_unready_job(self, olds: Mapping[str, Value], news: Mapping[str, Value]) -> bool:
        """Whether the object is a Job that is to be replaced while it is not ready, and is not; not for want of an answer."""
        if news.get("kind") != "Job" or not kube_rules.is_true(news, kube_rules.REPLACE_UNREADY):
            return False
        try:
            metadata = olds["metadata"]
            live = self._api(self._configured()).get(olds["apiVersion"], "Job", metadata["namespace"], metadata["name"])
        except (UnreachableError, ApiError):
            return False
        return live is not None and not judge(live).ready

    # ---------------------------------------------------------------- create and update

    def create(
        self,
        type_: str,
        name: str,  # noqa: ARG002
        inputs: dict[str, Value],
        timeout: float,
        preview: bool,  # noqa: FBT001
    ) -> tuple[str, dict[str, Value]]:
        """Make the object or the release, and wait until it is ready."""
        settings = self._configured()
        if type_ == helm.TYPE:
            if preview:
                return "", self._preview_release(settings, inputs)
            return f"{inputs['namespace']}/{inputs['name']}", self._apply_release(settings, inputs, timeout)
        if preview:
            return "", self._preview(settings, inputs, self._try_create)
        api = self._required_api(settings)
        manager = self._manager({})
        with self._claims.hold(_place(api, inputs)) as overtaken:
            live = self._create(api, settings, inputs, manager)
            live = self._await(api, live, timeout_of(inputs, timeout), overtaken, manager, "created")
        return kube_rules.identity(live), _outputs(live, manager)

    def update(
        self,
        type_: str,
        id_: str,  # noqa: ARG002
        old_inputs: dict[str, Value],  # noqa: ARG002
        old_outputs: dict[str, Value],
        news: dict[str, Value],
        preview: bool,  # noqa: FBT001
    ) -> dict[str, Value]:
        """Change the object or the release in place, and wait until it is ready again."""
        settings = self._configured()
        if type_ == helm.TYPE:
            return self._preview_release(settings, news) if preview else self._apply_release(settings, news, 0)
        manager = self._manager(old_outputs)
        if preview:
            return self._preview(settings, news, lambda api, obj: self._apply(api, settings, obj, manager, dry_run=True))
        api = self._required_api(settings)
        with self._claims.hold(_place(api, news)) as overtaken:
            if not _migrated(api, news, manager):
                raise ServiceError(f"update of {news['kind']} {kube_rules.identity(news)!r} failed: it does not exist any more")
            live = self._apply(api, settings, news, manager)
            live = self._await(api, live, timeout_of(news, 0), overtaken, manager, "updated")
        return _outputs(live, manager)

    def _manager(self, outputs: Mapping[str, Value]) -> str:
        """The field manager of the resource at hand: kept for its life, derived from its URN at the start."""
        digits = hashlib.sha256(self.current.urn.encode()).hexdigest()[:8]
        return str(outputs.get(_FIELD_MANAGER) or f"pulumi-kubernetes-{digits}")

    def _create(self, api: Api, settings: Settings, obj: dict[str, Value], manager: str) -> dict[str, Any]:
        for turn in range(_RETRIES + 1):
            try:
                return api.create(obj, manager=manager)
            except UnknownKindError as error:
                if turn == _RETRIES:
                    _not_done(obj, "created", error)
            except ApiError as error:
                if error.reason == "AlreadyExists" and obj["metadata"].get("name"):
                    return self._adopt(api, settings, obj, manager, error)
                if not _namespace_missing(error) or turn == _RETRIES:
                    _not_done(obj, "created", error)
            if self.cancelled.wait(_RETRY_SECONDS):
                break
        raise ServiceError(f"resource operation was cancelled for {kube_rules.identity(obj)!r}")

    def _adopt(self, api: Api, settings: Settings, obj: dict[str, Value], manager: str, error: ApiError) -> dict[str, Any]:
        """Take over what an interrupted create of this very resource has left; anybody else's object is an error."""
        live = _live(api, obj)
        ours = live is not None and any(entry.get("manager") == manager for entry in _managed_fields(live))
        if live is None or not (ours or settings.upsert):
            _not_done(obj, "created", error)
        _migrated(api, obj, manager)
        return self._apply(api, settings, obj, manager)

    def _apply(
        self, api: Api, settings: Settings, obj: dict[str, Value], manager: str, *, dry_run: bool = False
    ) -> dict[str, Any]:
        # A dry run comes before the ownership is migrated: conflicts would be with ourselves.
        force = dry_run or settings.force or settings.upsert or kube_rules.is_true(obj, "pulumi.com/patchForce")
        try:
            return api.apply(obj, manager=manager, force=force, dry_run=dry_run)
        except ApiError as error:
            if error.status == HTTPStatus.CONFLICT and error.reason == "Conflict":
                text = (
                    f"Server-Side Apply field conflict detected: {error}. Another program owns these fields; leave them out, "
                    'or take them over with the annotation pulumi.com/patchForce: "true"'
                )
                _not_done(obj, "updated", text)
            _not_done(obj, "updated", error)

    def _await(
        self, api: Api, live: dict[str, Any], seconds: float, overtaken: threading.Event, manager: str, done: str
    ) -> dict[str, Any]:
        try:
            live = Waiter(api, (self.cancelled, overtaken)).until_ready(live, seconds)
        except AwaitError as error:
            text = (
                f"resource {kube_rules.identity(live)!r} was successfully {done}, but the Kubernetes API server "
                "reported that it failed to fully initialize or become live"
            )
            reasons = [f"{text}: {error.reasons[0]}", *error.reasons[1:]]
            raise PartialFailure(kube_rules.identity(live), _outputs(error.live, manager), reasons) from error
        if overtaken.is_set():
            raise ServiceError(f"another run has taken over {kube_rules.identity(live)!r}")
        return live

    # ---------------------------------------------------------------- previews

    def _preview(
        self, settings: Settings, obj: dict[str, Value], attempt: Callable[[Api, dict[str, Value]], dict[str, Any]]
    ) -> dict[str, Value]:
        """Ask the API server what would come out, if there is one and everything is known."""
        if has_unknown(obj):
            return obj
        api = self._preview_api(settings)
        if api is None:
            return obj
        try:
            live = attempt(api, obj)
        except UnknownKindError:
            return obj  # its CRD comes with this very update
        metadata = {key: value for key, value in live["metadata"].items() if key not in _PROVISIONAL}
        return {**_outputs({**live, "metadata": metadata}, ""), "status": live.get("status") or UNKNOWN}

    def _try_create(self, api: Api, obj: dict[str, Value]) -> dict[str, Any]:
        try:
            return api.create(obj, manager=self._manager({}), dry_run=True)
        except ApiError as error:
            if _namespace_missing(error):
                return obj  # it comes with this very update
            if error.reason == "AlreadyExists" and self._is_expected(api, obj):
                return obj
            _not_done(obj, "created", error)

    def _is_expected(self, api: Api, obj: dict[str, Value]) -> bool:
        """Whether the object in the way will be gone, or be adopted, when the create comes for real."""
        with self._lock:
            if self.current.urn in self._to_replace:
                return True
        live = _live(api, obj)
        manager = self._manager({})
        return live is None or any(entry.get("manager") == manager for entry in _managed_fields(live))

    # ---------------------------------------------------------------- releases

    def _preview_release(self, settings: Settings, inputs: dict[str, Value]) -> dict[str, Value]:
        return self._releases.preview(inputs, self._target(settings))

    def _apply_release(self, settings: Settings, inputs: dict[str, Value], timeout: float) -> dict[str, Value]:
        api = self._required_api(settings)
        with self._claims.hold((api.server, helm.TYPE, inputs["namespace"], inputs["name"])) as overtaken:
            outputs = self._releases.apply(inputs, self._target(settings), timeout, overtaken)
        if overtaken.is_set():
            raise ServiceError(f"another run has taken over release {inputs['namespace']}/{inputs['name']}")
        return outputs

    # ---------------------------------------------------------------- read and delete

    def read(
        self, type_: str, id_: str, inputs: dict[str, Value], outputs: dict[str, Value]
    ) -> tuple[str, dict[str, Value], dict[str, Value]] | None:
        """What the cluster has now; None when it is gone."""
        settings = self._configured()
        api = self._required_api(settings)
        namespace, _, name = id_.rpartition("/")
        if type_ == helm.TYPE:
            known = inputs or {"name": name, "namespace": namespace or settings.namespace}
            found = self._releases.read(known, outputs, self._target(settings))
            return None if found is None else (id_, *found)
        known = inputs or outputs
        api_version = known.get("apiVersion") or _api_version(type_)
        kind = known.get("kind") or type_.rsplit(":", 1)[-1]
        live = api.get(api_version, kind, namespace, name)
        if live is None:
            return None
        result = _outputs(live, self._manager(outputs))
        fresh = kube_rules.live_object_inputs(inputs, live) if inputs else _importable(live)
        return kube_rules.identity(live), fresh, result

    def delete(self, type_: str, id_: str, inputs: dict[str, Value], outputs: dict[str, Value]) -> None:
        """Delete the object or the release, and wait until it is gone."""
        settings = self._configured()
        try:
            api = self._api(settings)
        except UnreachableError as error:
            if settings.delete_unreachable:
                return
            remedy = "if the cluster was deleted, set the provider's deleteUnreachable, or remove the resource from the state"
            raise ServiceError(f"{_unreachable(error)}; {remedy}") from error
        known = outputs if type_ == helm.TYPE or outputs.get("metadata") else inputs
        if type_ == helm.TYPE:
            with self._claims.hold((api.server, helm.TYPE, known["namespace"], known["name"])) as overtaken:
                self._releases.delete(known, self._target(settings), overtaken)
            return
        namespace, _, name = id_.rpartition("/")
        metadata = {**known.get("metadata", {}), "name": name, **({"namespace": namespace} if namespace else {})}
        self._delete(api, {**known, "metadata": metadata})

    def _delete(self, api: Api, obj: dict[str, Value]) -> None:
        policy = kube_rules.annotations_of(obj).get("pulumi.com/deletionPropagationPolicy", "").capitalize()
        with self._claims.hold(_place(api, obj)) as overtaken:
            try:
                api.delete(obj, policy if policy in {"Orphan", "Background"} else "Foreground")
                Waiter(api, (self.cancelled, overtaken)).until_gone(obj, timeout_of(obj, 0))
            except (ApiError, AwaitError) as error:
                raise ServiceError(f"resource {kube_rules.identity(obj)!r} was not deleted: {error}") from error


def _notify(text: str) -> None:
    _LOG.info(text)


def _unreachable(error: UnreachableError) -> str:
    return f"configured Kubernetes cluster is unreachable: unable to load schema information from the API server: {error}"


def _not_done(obj: Mapping[str, Value], done: str, why: Exception | str) -> NoReturn:
    place = kube_rules.identity({"metadata": {"name": obj["metadata"].get("generateName", ""), **obj["metadata"]}})
    message = f"resource {place} was not successfully {done} by the Kubernetes API server: {why}"
    raise ServiceError(message) from (why if isinstance(why, Exception) else None)


def _refusal(type_: str, news: Mapping[str, Value]) -> str:
    module, kind = type_.rsplit(":", 1)
    for prefix, reason in _REFUSED.items():
        if module == prefix or module.startswith(f"{prefix}:"):
            return f"the sandbox's Kubernetes provider does not support {type_}: {reason}"
    if kind.endswith("Patch") and news.get("kind") != kind:
        return f"the sandbox's Kubernetes provider does not support {type_}: declare the whole object instead"
    return ""


def _api_version(type_: str) -> str:
    """The API version in a type token: "kubernetes:core/v1:Pod" is "v1", "kubernetes:apps/v1:Deployment" "apps/v1"."""
    return type_.split(":")[1].removeprefix("core/")


def _place(api: Api, obj: Mapping[str, Value]) -> tuple[Value, ...]:
    metadata = obj["metadata"]
    # Objects with a generated name have no place before they exist.
    name = metadata.get("name") or object()
    return api.server, obj["apiVersion"].split("/")[0], obj["kind"], metadata.get("namespace"), name


def _live(api: Api, obj: Mapping[str, Value]) -> dict[str, Any] | None:
    metadata = obj["metadata"]
    return api.get(obj["apiVersion"], obj["kind"], metadata.get("namespace", ""), metadata["name"])


def _managed_fields(live: Mapping[str, Any]) -> list[dict[str, Any]]:
    return live["metadata"].get("managedFields") or []


def _migrated(api: Api, obj: Mapping[str, Value], manager: str) -> bool:
    """Make what a create has set into what an apply has set; otherwise a later apply could take nothing away.

    Returns:
        Whether the object exists.
    """
    live = _live(api, obj)
    if live is None:
        return False
    for index, entry in enumerate(_managed_fields(live)):
        if entry.get("manager") == manager and entry.get("operation") == "Update" and not entry.get("subresource"):
            operations = [
                {"op": "replace", "path": f"/metadata/managedFields/{index}/operation", "value": "Apply"},
                # Should somebody have changed the object meanwhile, the indexes would be others: then this fails.
                {"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
            ]
            try:
                api.patch(live, operations)
            except ApiError as error:
                if error.status == HTTPStatus.CONFLICT:
                    return _migrated(api, obj, manager)
                _not_done(obj, "updated", error)
            break
    return True


def _namespace_missing(error: ApiError) -> bool:
    return error.status == HTTPStatus.NOT_FOUND and str(error).startswith("namespaces ")


def _outputs(live: Mapping[str, Any], manager: str) -> dict[str, Value]:
    """An object as the engine keeps it: without the field ownership, with a Secret's data secret."""
    metadata = {key: value for key, value in live["metadata"].items() if key != "managedFields"}
    outputs: dict[str, Value] = {**live, "metadata": metadata}
    if manager:
        outputs[_FIELD_MANAGER] = manager
    if live.get("kind") == "Secret":
        for key in ("data", "stringData"):
            if key in outputs:
                outputs[key] = Secret(outputs[key])
    return outputs


def _importable(live: Mapping[str, Any]) -> dict[str, Value]:
    """The inputs that would make a live object, for an import."""
    keep = ("name", "namespace", "labels", "annotations")
    metadata = {key: live["metadata"][key] for key in keep if key in live["metadata"]}
    return {**{key: value for key, value in live.items() if key != "status"}, "metadata": metadata}
