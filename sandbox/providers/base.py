"""The gRPC side of a provider stand-in: hides the wire, so that a stand-in is a class with plain methods.

`StandIn` is what azure-native, openstack and kubernetes implement: plain Python values in, plain values
out (see sandbox.providers.values). `serve` puts one behind a loopback port to which the real engine
attaches (PULUMI_DEBUG_PROVIDERS), and which nobody but its own user can use (door). What this module sees to, for all of them:

- Secrets: an input that was secret comes back secret, in inputs and in outputs.
- Handshake and Parameterize answer "unimplemented", Attach and GetMapping(s) answer with nothing: what
  the engine takes for a plugin of the older sort, instead of for a broken one.
- A refusal of the service is passed on with the service's own words and nothing around them.
- Each of the engine's provider instances has the configuration that it gave, and no other one's (Configurations).

It deliberately has no Construct, Call or List: no package that stands here has components or methods. Nor does it undo what
was made for an engine that was killed before it heard of it: the next run does (sandbox.stack.recovery).
"""

# ruff: noqa: N802, ARG002  (the protocol names the methods and gives them their arguments)
from __future__ import annotations

import functools
import logging
import threading
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NoReturn, ParamSpec, Protocol, TypeVar

import grpc
from google.protobuf import any_pb2, empty_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from sandbox.clouds.refusal import Refusal
from sandbox.providers.differences import Diff
from sandbox.providers.door import Door
from sandbox.providers.values import Value, keep_secrets, read_map, reveal, write_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["Configurations", "Diff", "Failure", "PartialFailure", "Request", "ServiceError", "StandIn", "serve"]

Failure = tuple[str, str]
"""(property path, reason)"""

_LOG = logging.getLogger(__name__)
_WORKERS = 64
_MAX_MESSAGE_BYTES = 400 * 1024 * 1024
_KINDS = {
    "add": provider_pb2.PropertyDiff.ADD,
    "add-replace": provider_pb2.PropertyDiff.ADD_REPLACE,
    "delete": provider_pb2.PropertyDiff.DELETE,
    "delete-replace": provider_pb2.PropertyDiff.DELETE_REPLACE,
    "update": provider_pb2.PropertyDiff.UPDATE,
    "update-replace": provider_pb2.PropertyDiff.UPDATE_REPLACE,
}
#: Of how many of the engine's provider instances the configuration is kept.
_MOST_CONNECTIONS: Final = 64
_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")


class ServiceError(Refusal):
    """The plugin itself refused, or wraps what its service answered. The text goes to the user as it is."""


class PartialFailure(Exception):  # noqa: N818  (the protocol calls it a failure)
    """The resource was made or changed, but did not become what was asked for.

    The engine keeps it in its state and tries again at the next update.

    Attributes:
        resource_id: the id that the resource has got.
        outputs: what is known about it.
        reasons: what the user reads.
        inputs: what a read found instead of the inputs; None where they stay.
    """

    def __init__(
        self,
        resource_id: str,
        outputs: Mapping[str, Value],
        reasons: Sequence[str],
        inputs: Mapping[str, Value] | None = None,
    ) -> None:
        super().__init__("; ".join(reasons))
        self.inputs = inputs
        self.resource_id = resource_id
        self.outputs = dict(outputs)
        self.reasons = list(reasons)


@dataclass(frozen=True)
class Request:
    """What surrounds the call being answered.

    Attributes:
        urn: the resource's URN ("" outside resource calls).
        name: the resource's Pulumi name.
        random_seed: bytes from which a Check derives automatic names; stable per resource.
        connection: which of the engine's provider instances calls (several share one stand-in).
        timeout: of the resource's customTimeouts, in seconds, for what is being done; 0 where none is set.
    """

    urn: str = ""
    name: str = ""
    random_seed: bytes = b""
    connection: str = ""
    timeout: float = 0.0


class Configurations(Generic[_T]):
    """What each of the engine's provider instances has configured; who has configured nothing gets nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, _T] = {}

    def put(self, connection: str, configuration: _T) -> None:
        """Remember what an instance wants; of the oldest ones it is forgotten."""
        with self._lock:
            self._known.pop(connection, None)
            self._known[connection] = configuration
            while len(self._known) > _MOST_CONNECTIONS:
                del self._known[next(iter(self._known))]

    def of(self, connection: str) -> _T:
        """What an instance has configured.

        Raises:
            ServiceError: it has configured nothing.
        """
        with self._lock:
            if connection not in self._known:
                message = "this connection has not configured the provider, and another one's configuration is not taken for it"
                raise ServiceError(f"{message}: run the command again")
            return self._known[connection]


class StandIn:
    """What stands in for one provider plugin. Every method may raise `ServiceError` (or the service's own `Refusal`).

    Values are plain and without `Secret` wrappers on the way in; a method may wrap what it returns.
    """

    package: ClassVar[str] = ""
    version: ClassVar[str] = "0.0.0"

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._local = threading.local()

    @property
    def current(self) -> Request:
        """The request that the calling thread answers."""
        request: Request = getattr(self._local, "request", Request())
        return request

    @contextmanager
    def answering(self, request: Request) -> Iterator[None]:
        """Make `current` the given request for the calling thread."""
        self._local.request = request
        try:
            yield
        finally:
            del self._local.request

    def check_config(self, news: dict[str, Value]) -> tuple[dict[str, Value], list[Failure]]:
        """Check the provider's own configuration."""
        return news, []

    def diff_config(self, olds: dict[str, Value], news: dict[str, Value]) -> Diff:
        """Compare two configurations of the provider; a change never replaces resources by default."""
        changed = sorted(key for key in olds.keys() | news.keys() if olds.get(key) != news.get(key))
        return Diff(changes=bool(changed), diffs=changed)

    def configure(self, variables: dict[str, str], args: dict[str, Value]) -> None:
        """Take the provider's configuration."""

    def check(
        self,
        type_: str,
        olds: dict[str, Value],
        news: dict[str, Value],
    ) -> tuple[dict[str, Value], list[Failure]]:
        """Validate inputs and fill in defaults. Unknown values must be let through."""
        raise NotImplementedError

    def diff(
        self,
        type_: str,
        id_: str,
        old_inputs: dict[str, Value],
        old_outputs: dict[str, Value],
        news: dict[str, Value],
    ) -> Diff:
        """Say what an update would change, and whether it replaces."""
        raise NotImplementedError

    def create(
        self,
        type_: str,
        name: str,
        inputs: dict[str, Value],
        timeout: float,
        preview: bool,  # noqa: FBT001  (the protocol's own argument list)
    ) -> tuple[str, dict[str, Value]]:
        """Make the resource; in a preview say what is known beforehand (the id may be "")."""
        raise NotImplementedError

    def read(
        self,
        type_: str,
        id_: str,
        inputs: dict[str, Value],
        outputs: dict[str, Value],
    ) -> tuple[str, dict[str, Value], dict[str, Value]] | None:
        """The id, inputs and outputs as they are now; None when the resource is gone."""
        raise NotImplementedError

    def update(
        self,
        type_: str,
        id_: str,
        old_inputs: dict[str, Value],
        old_outputs: dict[str, Value],
        news: dict[str, Value],
        preview: bool,  # noqa: FBT001
    ) -> dict[str, Value]:
        """Change the resource in place and return its outputs."""
        raise NotImplementedError

    def delete(self, type_: str, id_: str, inputs: dict[str, Value], outputs: dict[str, Value]) -> None:
        """Delete the resource; one that is gone already is not an error."""
        raise NotImplementedError

    def invoke(self, token: str, args: dict[str, Value]) -> tuple[dict[str, Value], list[Failure]]:
        """Answer a function call."""
        message = f"Unknown Invoke token: {token}"
        raise ServiceError(message)


class _Named(Protocol):
    """What all resource requests have in common."""

    @property
    def urn(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def name(self) -> str: ...


def _type_of(request: _Named) -> str:
    """The resource type; engines that do not fill `type` in still put it into the URN."""
    return request.type or request.urn.split("::")[2].split("$")[-1]


def _name_of(request: _Named) -> str:
    return request.name or request.urn.split("::", 3)[3]


def _refuse(context: grpc.ServicerContext, message: str) -> NoReturn:
    context.abort(grpc.StatusCode.UNKNOWN, message)
    raise AssertionError(message)  # abort never returns; its type does not say so


def _report_partial(context: grpc.ServicerContext, failure: PartialFailure, inputs: Mapping[str, Value]) -> NoReturn:
    detail = any_pb2.Any()
    detail.Pack(
        provider_pb2.ErrorResourceInitFailed(
            id=failure.resource_id,
            properties=write_map(failure.outputs),
            inputs=write_map(inputs),
            reasons=failure.reasons,
        ),
    )
    message = str(failure)
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=message, details=[detail])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    _refuse(context, message)


def _answers(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Pass a service's refusal on verbatim; report anything else as a fault of the stand-in."""

    @functools.wraps(method)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        context: Any = args[2]
        try:
            return method(*args, **kwargs)
        except Refusal as error:
            _refuse(context, str(error))
        except Exception as error:
            if getattr(context, "code", lambda: None)() is not None:
                raise  # already answered by abort
            remedy = getattr(error, "remedy", "")
            _LOG.exception("%s failed", method.__name__)
            _refuse(context, f"{error}. {remedy}" if remedy else f"{type(error).__name__}: {error}")

    return wrapper


class _Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """Turns the protocol's calls into those of a `StandIn`."""

    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in

    def _request(self, request: Any, context: grpc.ServicerContext) -> Request:  # noqa: ANN401
        seed = getattr(request, "randomSeed", b"")
        return Request(request.urn, _name_of(request), seed, context.peer(), getattr(request, "timeout", 0.0))

    # ---------------------------------------------------------------- the plugin itself

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> NoReturn:  # noqa: ANN401
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "Handshake is not implemented")
        raise NotImplementedError

    def Parameterize(self, request: Any, context: grpc.ServicerContext) -> NoReturn:  # noqa: ANN401
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "Parameterize is not implemented")
        raise NotImplementedError

    def Attach(self, request: plugin_pb2.PluginAttach, context: grpc.ServicerContext) -> empty_pb2.Empty:
        return empty_pb2.Empty()

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        self._stand_in.cancelled.set()
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=self._stand_in.version)

    def GetSchema(self, request: Any, context: grpc.ServicerContext) -> provider_pb2.GetSchemaResponse:  # noqa: ANN401
        return provider_pb2.GetSchemaResponse(schema="{}")

    def GetMapping(self, request: Any, context: grpc.ServicerContext) -> provider_pb2.GetMappingResponse:  # noqa: ANN401
        return provider_pb2.GetMappingResponse()

    def GetMappings(self, request: Any, context: grpc.ServicerContext) -> provider_pb2.GetMappingsResponse:  # noqa: ANN401
        return provider_pb2.GetMappingsResponse()

    # ---------------------------------------------------------------- configuration

    @_answers
    def CheckConfig(self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext) -> provider_pb2.CheckResponse:
        news = read_map(request.news)
        with self._stand_in.answering(self._request(request, context)):
            inputs, failures = self._stand_in.check_config(reveal(news))
        return _check_response(keep_secrets(news, inputs), failures)

    @_answers
    def DiffConfig(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        olds = request.old_inputs if request.HasField("old_inputs") else request.olds
        with self._stand_in.answering(self._request(request, context)):
            return _diff_response(
                self._stand_in.diff_config(reveal(read_map(olds)), reveal(read_map(request.news))),
            )

    @_answers
    def Configure(self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext) -> provider_pb2.ConfigureResponse:
        self._stand_in.cancelled.clear()
        with self._stand_in.answering(Request(connection=context.peer())):
            self._stand_in.configure(dict(request.variables), reveal(read_map(request.args)))
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True,
            acceptResources=True,
            acceptOutputs=True,
            supportsPreview=True,
        )

    # ---------------------------------------------------------------- functions

    @_answers
    def Invoke(self, request: provider_pb2.InvokeRequest, context: grpc.ServicerContext) -> provider_pb2.InvokeResponse:
        with self._stand_in.answering(Request(connection=context.peer())):
            result, failures = self._stand_in.invoke(request.tok, reveal(read_map(request.args)))
        response = provider_pb2.InvokeResponse(failures=_failures(failures))
        getattr(response, "return").CopyFrom(write_map(result))
        return response

    # ---------------------------------------------------------------- resources

    @_answers
    def Check(self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext) -> provider_pb2.CheckResponse:
        news = read_map(request.news)
        with self._stand_in.answering(self._request(request, context)):
            inputs, failures = self._stand_in.check(_type_of(request), reveal(read_map(request.olds)), reveal(news))
        return _check_response(keep_secrets(news, inputs), failures)

    @_answers
    def Diff(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        with self._stand_in.answering(self._request(request, context)):
            return _diff_response(
                self._stand_in.diff(
                    _type_of(request),
                    request.id,
                    reveal(read_map(request.old_inputs)),
                    reveal(read_map(request.olds)),
                    reveal(read_map(request.news)),
                ),
            )

    @_answers
    def Create(self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext) -> provider_pb2.CreateResponse:
        inputs, type_ = read_map(request.properties), _type_of(request)
        with self._stand_in.answering(self._request(request, context)):
            try:
                id_, outputs = self._stand_in.create(type_, _name_of(request), reveal(inputs), request.timeout, request.preview)
            except PartialFailure as failure:
                failure.outputs = keep_secrets(inputs, failure.outputs)
                _report_partial(context, failure, inputs)
        return provider_pb2.CreateResponse(id=id_, properties=write_map(keep_secrets(inputs, outputs)))

    @_answers
    def Read(self, request: provider_pb2.ReadRequest, context: grpc.ServicerContext) -> provider_pb2.ReadResponse:
        inputs, outputs = read_map(request.inputs), read_map(request.properties)
        with self._stand_in.answering(self._request(request, context)):
            try:
                found = self._stand_in.read(_type_of(request), request.id, reveal(inputs), reveal(outputs))
            except PartialFailure as failure:
                failure.outputs = keep_secrets(outputs, failure.outputs)
                _report_partial(context, failure, inputs if failure.inputs is None else keep_secrets(inputs, failure.inputs))
        if found is None:
            return provider_pb2.ReadResponse()
        id_, new_inputs, new_outputs = found
        return provider_pb2.ReadResponse(
            id=id_,
            inputs=write_map(keep_secrets(inputs, new_inputs)),
            properties=write_map(keep_secrets(outputs, new_outputs)),
        )

    @_answers
    def Update(self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext) -> provider_pb2.UpdateResponse:
        news, olds = read_map(request.news), read_map(request.olds)
        with self._stand_in.answering(self._request(request, context)):
            try:
                outputs = self._stand_in.update(
                    _type_of(request),
                    request.id,
                    reveal(read_map(request.old_inputs)),
                    reveal(olds),
                    reveal(news),
                    request.preview,
                )
            except PartialFailure as failure:
                failure.outputs = keep_secrets(news, failure.outputs)
                _report_partial(context, failure, news)
        return provider_pb2.UpdateResponse(properties=write_map(keep_secrets(news, outputs)))

    @_answers
    def Delete(self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        inputs, outputs = read_map(request.old_inputs), read_map(request.properties)
        with self._stand_in.answering(self._request(request, context)):
            try:
                self._stand_in.delete(_type_of(request), request.id, reveal(inputs), reveal(outputs))
            except PartialFailure as failure:
                failure.outputs = keep_secrets(outputs, failure.outputs)
                _report_partial(context, failure, inputs)
        return empty_pb2.Empty()


def _failures(failures: Sequence[Failure]) -> list[provider_pb2.CheckFailure]:
    return [provider_pb2.CheckFailure(property=path, reason=reason) for path, reason in failures]


def _check_response(inputs: Mapping[str, Value], failures: Sequence[Failure]) -> provider_pb2.CheckResponse:
    return provider_pb2.CheckResponse(inputs=write_map(inputs), failures=_failures(failures))


def _diff_response(diff: Diff) -> provider_pb2.DiffResponse:
    some = provider_pb2.DiffResponse.DIFF_SOME
    none = provider_pb2.DiffResponse.DIFF_NONE
    return provider_pb2.DiffResponse(
        changes=some if diff.changes else none,
        replaces=diff.replaces,
        deleteBeforeReplace=diff.delete_before_replace,
        diffs=diff.diffs,
        detailedDiff={path: provider_pb2.PropertyDiff(kind=_KINDS[kind], inputDiff=True) for path, kind in diff.detailed.items()},
        hasDetailedDiff=bool(diff.detailed),
    )


@dataclass(frozen=True)
class Served:
    """A stand-in that answers."""

    server: grpc.Server
    door: Door

    def stop(self, grace: float | None) -> threading.Event:
        """Let nobody in any more and end what is being answered after that many seconds; the event tells that it has ended."""
        ended: threading.Event = self.server.stop(grace)
        self.door.close()
        return ended


def serve(stand_in: StandIn, port: int = 0) -> tuple[Served, int]:
    """Serve a stand-in on a loopback port, to its own user.

    Args:
        stand_in: what answers.
        port: the port, or 0 for a free one.

    Returns:
        What runs (call its stop()) and the port.
    """
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix=stand_in.package),
        options=[
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
        ],
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(_Servicer(stand_in), server)
    door = Door(port)
    server.add_insecure_port(door.target)
    server.start()
    door.open()
    return Served(server, door), door.port
