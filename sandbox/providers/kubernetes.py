"""The Kubernetes provider's stand-in: any object of any kind at a real API server, and Helm releases.

It does what pulumi-kubernetes 4.34 does, as far as a user of this project can tell, and says what that says: names and
default namespaces are filled in; a create is a plain create, so that an object which exists is an error, whoever made it; an
update is a server-side apply; previews send dry runs, so that the API's own validation speaks before anything is done, but
say nothing of an object that exists; workloads are waited for (await_ready), and releases go through the real helm (helm).
An update that the API refuses counts as made and not whole, as there: the engine tries it again. What an interrupted run made
is nobody's here: sandbox.stack.recovery takes it away before the next one.

A Patch resource (`ClusterPolicyPatch`) applies its fields to an object that is somebody else's, and gives them up when it is
deleted; as in the real provider no preview asks the API server about its creation.

Deliberately not here: List kinds, components (Chart v4, ConfigFile, ConfigGroup), rendering to files, and client-side
apply: updates are always server-side. The configuration is in kube_settings, who owns which field in field_ownership.
"""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from sandbox.cluster.api_errors import ApiError, UnknownKindError, UnreachableError
from sandbox.providers import helm, kube_rules
from sandbox.providers.await_ready import AwaitError, Waiter, is_deleted_unseen, judge, timeout_of, wait_conditions
from sandbox.providers.base import Configurations, PartialFailure, ServiceError, StandIn
from sandbox.providers.claims import Claims
from sandbox.providers.field_ownership import (
    CREATOR,
    NOT_LIVE,
    importable,
    managed_fields,
    manager_of,
    outputs_of,
    take_over,
)
from sandbox.providers.kube_objects import Objects, Servers
from sandbox.providers.kube_settings import Settings, diff_provider, settings_of
from sandbox.providers.values import UNKNOWN, Value, has_unknown

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping

    from sandbox.providers.base import Failure
    from sandbox.providers.differences import Diff

_LOG = logging.getLogger(__name__)
_EXISTS: Final = """

The resource already exists in the cluster. This can happen when:

  - Renaming a Pulumi resource: use an alias to preserve the identity,
    or use deleteBeforeReplace if the resource needs replacement.
  - Managing an existing resource: use a Patch resource (e.g. NamespacePatch)
    to manage specific fields without owning the resource lifecycle.
  - Adopting a resource into Pulumi: use `pulumi import`. Note that
    protected resources (e.g. kube-system) cannot be deleted on destroy.
  - Intentional upsert: set upsertExistingObjects on the provider to allow
    server-side apply to update existing objects on create."""
_CONFLICT: Final = (
    "server-side apply field conflict detected, see https://www.pulumi.com/registry/packages/kubernetes/how-to-guides/"
    "managing-resources-with-server-side-apply/#handle-field-conflicts-on-existing-resources for troubleshooting help"
)
# A CRD or a namespace may be on its way, from another resource of the same run.
_RETRY_SECONDS = (1, 2, 4, 8, 16)
# Of a dry run, what is made up by the server and will be something else for real.
_PROVISIONAL = ("uid", "resourceVersion", "creationTimestamp", "generation")
_REFUSED = {
    "kubernetes:yaml": "it is a component, not a resource",
    "kubernetes:kustomize": "it is a component, not a resource",
    "kubernetes:helm.sh/v4": "it is a component, not a resource",
}


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
        self._servers = Servers()
        self._claims = Claims()
        self._settings: Configurations[Settings] = Configurations()

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
        self._settings.put(self.current.connection, settings_of(given))

    def _configured(self) -> Settings:
        """The calling provider's configuration.

        Raises:
            ServiceError: it has none; whose cluster would it be?
        """
        return self._settings.of(self.current.connection)

    # ---------------------------------------------------------------- the cluster

    def _objects(self, settings: Settings) -> Objects:
        """The objects of the API server.

        Raises:
            UnreachableError: it doesn't answer, or is not known yet.
        """
        if settings.unknown:
            raise UnreachableError("its kubeconfig is not known yet")
        if settings.problem:
            raise UnreachableError(settings.problem)
        objects = self._servers.open(dict(settings.config), settings.context)
        self._servers.check(objects.api)
        return objects

    def _required_objects(self, settings: Settings) -> Objects:
        try:
            return self._objects(settings)
        except UnreachableError as error:
            raise ServiceError(_unreachable(error)) from error

    def _preview_objects(self, settings: Settings) -> Objects | None:
        """The objects of the API server for a preview, which goes on without it; only an unknown one goes without a warning."""
        try:
            return self._objects(settings)
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
            raise ServiceError(refusal)
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
            return bool(self._objects(settings).api.kind(obj["apiVersion"], obj["kind"]).namespaced)
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
        found = kube_rules.differences(old_inputs, news, mutable=self._configured().mutable, patch=_is_patch(type_, news))
        if not found.replaces and self._is_unready_job(old_inputs, news):
            found = kube_rules.replaced_while_unready(found, old_inputs, news)
        return found

    def _is_unready_job(self, olds: Mapping[str, Value], news: Mapping[str, Value]) -> bool:
        """Whether the object is a Job that is to be replaced while it is not ready, and is not; not for want of an answer."""
        if news.get("kind") != "Job" or not kube_rules.is_true(news, kube_rules.REPLACE_UNREADY):
            return False
        try:
            metadata = olds["metadata"]
            live = self._objects(self._configured()).get(olds["apiVersion"], "Job", metadata["namespace"], metadata["name"])
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
                return "", helm.previewed(inputs)
            with self._release(settings, inputs) as (target, overtaken):
                return helm.place(inputs), self._releases.create(inputs, target, overtaken)
        patch = _is_patch(type_, inputs)
        if preview:
            return "", inputs if patch else self._preview(settings, inputs, self._try_create)
        objects = self._required_objects(settings)
        manager = manager_of({}, inputs)
        with self._claims.hold(_place(objects, inputs, manager if patch else "")) as overtaken:
            live = self._create(objects, settings, inputs, manager, patch=patch)
            done = f"resource {json.dumps(self.current.urn)} was successfully created, but the Kubernetes API server"
            live = self._await(objects, live, timeout_of(inputs, timeout), overtaken, manager, f"{done} {NOT_LIVE.format('it')}")
        return kube_rules.identity(live), outputs_of(live, manager)

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
            if preview:
                return helm.previewed(news)
            with self._release(settings, news) as (target, overtaken):
                return self._releases.update(news, target, overtaken)
        manager, patch = manager_of(old_outputs, news), _is_patch(type_, news)
        if preview:
            return self._preview(settings, news, lambda objects, obj: self._change(objects, settings, obj, manager, preview=True))
        objects = self._required_objects(settings)
        with self._claims.hold(_place(objects, news, manager if patch else "")) as overtaken:
            if not patch:
                take_over(objects, news, manager)
            live = self._change(objects, settings, news, manager)
            failed = f"the Kubernetes API server {NOT_LIVE.format(json.dumps(kube_rules.identity(live)))}"
            live = self._await(objects, live, timeout_of(news, self.current.timeout), overtaken, manager, failed)
        return outputs_of(live, manager)

    def _create(
        self, objects: Objects, settings: Settings, obj: dict[str, Value], manager: str, *, patch: bool = False
    ) -> dict[str, Any]:
        for pause in (*_RETRY_SECONDS, None):
            try:
                if patch or settings.upsert:
                    return self._apply(objects, settings, obj, manager)
                return objects.create(obj, manager=CREATOR)
            except UnknownKindError as error:
                if pause is None:
                    raise ServiceError(self._no_kind(obj, error)) from error
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND or pause is None:
                    raise ServiceError(self._not_created(error)) from error
            if self.cancelled.wait(pause):
                break
        raise ServiceError(self._not_created("context canceled"))

    def _not_created(self, why: Exception | str) -> str:
        more = _EXISTS if isinstance(why, ApiError) and why.reason == "AlreadyExists" else ""
        return f"resource {json.dumps(self.current.urn)} was not successfully created by the Kubernetes API server: {why}{more}"

    def _no_kind(self, obj: Mapping[str, Value], error: UnknownKindError) -> str:
        return (
            f"creation of resource {json.dumps(self.current.urn)} with kind {obj['apiVersion']}/{obj['kind']} failed because the "
            "Kubernetes API server reported that the apiVersion for this resource does not exist. "
            f"Verify that any required CRDs have been created: {error}"
        )

    def _change(
        self, objects: Objects, settings: Settings, obj: dict[str, Value], manager: str, *, preview: bool = False
    ) -> dict[str, Any]:
        """Apply an object that exists. What is refused is kept by the engine as made and not whole.

        Raises:
            ServiceError: the object is gone.
            PartialFailure: the API server refused.
        """
        objects.api.kind(obj["apiVersion"], obj["kind"])
        live = objects.live(obj)
        if live is None:
            self._fail_without(obj)
        try:
            # A dry run comes before what the create has set is taken over: conflicts would be with ourselves.
            ours = preview and any(
                entry.get("manager") == CREATOR or (entry.get("manager") == manager and entry.get("operation") == "Update")
                for entry in managed_fields(live)
            )
            return self._apply(objects, settings, obj, manager, force=ours, dry_run=preview)
        except ApiError as error:
            name = json.dumps(kube_rules.identity(obj))
            reason = f"the Kubernetes API server {NOT_LIVE.format(name)}: {error}"
            raise PartialFailure(kube_rules.identity(obj), outputs_of(live or obj, manager), [reason]) from error

    def _fail_without(self, obj: Mapping[str, Value]) -> NoReturn:
        missing = f"{obj['kind']} {json.dumps(obj['metadata']['name'])} not found"
        text = f"update of resource {json.dumps(self.current.urn)} failed: {missing}\nunable to get cluster state: {missing}"
        raise ServiceError(text)

    @staticmethod
    def _apply(
        objects: Objects, settings: Settings, obj: dict[str, Value], manager: str, *, force: bool = False, dry_run: bool = False
    ) -> dict[str, Any]:
        force = force or settings.force or kube_rules.is_true(obj, "pulumi.com/patchForce")
        try:
            return objects.apply(obj, manager=manager, force=force, dry_run=dry_run)
        except ApiError as error:
            if error.status == HTTPStatus.CONFLICT:
                cause = f"The resource managed by field manager {json.dumps(manager)} had an apply conflict: {error}"
                raise ApiError(error.status, error.reason, f"{_CONFLICT}\n{cause}") from error
            raise

    def _await(
        self, objects: Objects, live: dict[str, Any], seconds: float, overtaken: threading.Event, manager: str, failed: str
    ) -> dict[str, Any]:
        try:
            live = Waiter(objects, (self.cancelled, overtaken)).until_ready(live, seconds)
        except AwaitError as error:
            reasons = [f"{failed}: {error}", *error.further]
            raise PartialFailure(kube_rules.identity(live), outputs_of(error.live, manager), reasons) from error
        if overtaken.is_set():
            raise ServiceError(f"another run has taken over {kube_rules.identity(live)!r}")
        return live

    # ---------------------------------------------------------------- previews

    def _preview(
        self, settings: Settings, obj: dict[str, Value], attempt: Callable[[Objects, dict[str, Value]], dict[str, Any]]
    ) -> dict[str, Value]:
        """Ask the API server what would come out, if there is one and everything is known."""
        if has_unknown(obj):
            return obj
        objects = self._preview_objects(settings)
        if objects is None:
            return obj
        try:
            live = attempt(objects, obj)
        except UnknownKindError:
            return obj  # its CRD comes with this very update
        metadata = {key: value for key, value in live["metadata"].items() if key not in _PROVISIONAL}
        return {**outputs_of({**live, "metadata": metadata}, ""), "status": live.get("status") or UNKNOWN}

    def _try_create(self, objects: Objects, obj: dict[str, Value]) -> dict[str, Any]:
        try:
            return objects.create(obj, manager=CREATOR, dry_run=True)
        except ApiError as error:
            # The real provider goes on, too: the object may be about to be replaced, its namespace to be made.
            if _namespace_missing(error) or error.reason in {"AlreadyExists", "Forbidden"}:
                return obj
            raise ServiceError(self._not_created(error)) from error

    # ---------------------------------------------------------------- releases

    @contextmanager
    def _release(self, settings: Settings, inputs: Mapping[str, Value]) -> Iterator[tuple[helm.Target, threading.Event]]:
        """Work on a release alone."""
        objects = self._required_objects(settings)
        with self._claims.hold((objects.api.server, helm.TYPE, inputs["namespace"], inputs["name"])) as overtaken:
            yield self._target(settings), overtaken
        if overtaken.is_set():
            raise ServiceError(f"another run has taken over release {helm.place(inputs)}")

    # ---------------------------------------------------------------- read and delete

    def read(
        self, type_: str, id_: str, inputs: dict[str, Value], outputs: dict[str, Value]
    ) -> tuple[str, dict[str, Value], dict[str, Value]] | None:
        """What the cluster has now; None when it is gone.

        Raises:
            PartialFailure: it is there, and not ready.
        """
        settings = self._configured()
        objects = self._required_objects(settings)
        namespace, _, name = id_.rpartition("/")
        if type_ == helm.TYPE:
            known = inputs or {"name": name, "namespace": namespace or settings.namespace}
            found = self._releases.read(known, outputs, self._target(settings))
            return None if found is None else (id_, *found)
        known = inputs or outputs
        api_version = known.get("apiVersion") or _api_version(type_)
        kind = known.get("kind") or type_.rsplit(":", 1)[-1]
        live = objects.get(api_version, kind, namespace, name)
        if live is None:
            return None
        result = outputs_of(live, manager_of(outputs, inputs))
        if not inputs:
            return kube_rules.identity(live), importable(live), result
        fresh = kube_rules.live_object_inputs(inputs, live)
        try:
            Waiter(objects, (self.cancelled,)).is_ready(live)
        except AwaitError as error:
            # A refresh keeps it as what it is, and the next update waits for it again.
            raise PartialFailure(kube_rules.identity(live), result, [str(error), *error.further], fresh) from error
        return kube_rules.identity(live), fresh, result

    def delete(self, type_: str, id_: str, inputs: dict[str, Value], outputs: dict[str, Value]) -> None:
        """Delete the object or the release, and wait until it is gone."""
        settings = self._configured()
        try:
            objects = self._objects(settings)
        except UnreachableError as error:
            if settings.delete_unreachable:
                return
            remedy = "if the cluster was deleted, set the provider's deleteUnreachable, or remove the resource from the state"
            raise ServiceError(f"{_unreachable(error)}; {remedy}") from error
        known = outputs if type_ == helm.TYPE or outputs.get("metadata") else inputs
        if type_ == helm.TYPE:
            with self._claims.hold((objects.api.server, helm.TYPE, known["namespace"], known["name"])) as overtaken:
                self._releases.delete(known, self._target(settings), overtaken)
            return
        namespace, _, name = id_.rpartition("/")
        metadata = {**known.get("metadata", {}), "name": name, **({"namespace": namespace} if namespace else {})}
        if _is_patch(type_, known):
            self._relinquish(objects, {**known, "metadata": metadata}, manager_of(outputs, inputs))
            return
        self._delete(objects, {**known, "metadata": metadata}, outputs)

    @staticmethod
    def _relinquish(objects: Objects, obj: dict[str, Value], manager: str) -> None:
        """Give up the fields of an object that is somebody else's; those that nobody else has set go away.

        As by the real provider (provider/pkg/ssa/actions.go) an object that is not there any more is made by that, empty.
        """
        place = {key: value for key, value in obj["metadata"].items() if key in {"name", "namespace"}}
        try:
            objects.apply({"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": place}, manager=manager)
        except ApiError as error:
            raise ServiceError(str(error)) from error

    def _delete(self, objects: Objects, obj: dict[str, Value], outputs: dict[str, Value]) -> None:
        policy = kube_rules.annotations_of(obj).get("pulumi.com/deletionPropagationPolicy", "").capitalize()
        with self._claims.hold(_place(objects, obj)) as overtaken:
            try:
                objects.delete(obj, policy if policy in {"Orphan", "Background"} else "Foreground")
                if not is_deleted_unseen(obj):
                    Waiter(objects, (self.cancelled, overtaken)).until_gone(obj, timeout_of(obj, self.current.timeout))
            except ApiError as error:
                raise ServiceError(str(error)) from error
            except AwaitError as error:
                holders = ", ".join(error.live["metadata"].get("finalizers") or [])
                _LOG.warning("%s: finalizers might be preventing deletion (%s)", self.current.urn, holders)
                kept = outputs_of(error.live, manager_of(outputs, obj))
                raise PartialFailure(kube_rules.identity(obj), kept, [str(error)]) from error


def _notify(text: str) -> None:
    _LOG.info(text)


def _unreachable(error: UnreachableError) -> str:
    return f"configured Kubernetes cluster is unreachable: unable to load schema information from the API server: {error}"


def _refusal(type_: str, news: Mapping[str, Value]) -> str:
    module = type_.rpartition(":")[0]
    for prefix, reason in _REFUSED.items():
        if module == prefix or module.startswith(f"{prefix}:"):
            return f"the sandbox's Kubernetes provider does not support {type_}: {reason}"
    if _is_patch(type_, news) and not (news.get("metadata") or {}).get("name"):
        return "patch resources require the `.metadata.name` field to be set"
    metadata = news.get("metadata")
    if isinstance(metadata, dict) and metadata.get("generateName") and not metadata.get("name"):
        return "the `.metadata.generateName` field is not supported in Server-Side Apply mode"
    return ""


def _is_patch(type_: str, obj: Mapping[str, Value]) -> bool:
    """Whether the resource is about fields of somebody else's object; not so a custom resource whose kind ends in "Patch"."""
    return type_.rsplit(":", 1)[-1] == f"{obj.get('kind')}Patch"


def _api_version(type_: str) -> str:
    """The API version in a type token: "kubernetes:core/v1:Pod" is "v1", "kubernetes:apps/v1:Deployment" "apps/v1"."""
    return type_.split(":")[1].removeprefix("core/")


def _place(objects: Objects, obj: Mapping[str, Value], patched_by: str = "") -> tuple[Value, ...]:
    """What two runs must not work on at once; patches of one object are nothing to each other."""
    metadata = obj["metadata"]
    # Objects with a generated name have no place before they exist.
    name = metadata.get("name") or object()
    return objects.api.server, obj["apiVersion"].split("/")[0], obj["kind"], metadata.get("namespace"), name, patched_by


def _namespace_missing(error: ApiError) -> bool:
    return error.status == HTTPStatus.NOT_FOUND and str(error).startswith("namespaces ")
