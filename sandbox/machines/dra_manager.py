"""Stand-in for the kubelet's DRA manager on one machine: which drivers are registered, and which claims they have prepared.

After kubernetes v1.36.3: pkg/kubelet/cm/dra (manager.go, claiminfo.go, plugin/dra_plugin_manager.go), pkg/kubelet/pluginmanager.
As a kubelet, it

- finds drivers by their sockets in the folder of registrations, and asks each with GetInfo; a socket that was removed and created
  again is a new registration, and a removed one ends its registration;
- prepares the claims of a pod before its containers are made, a claim of several pods once, and says why it cannot in the
  kubelet's words;
- has a claim unprepared when its last pod has ended, and tries that again where the driver refuses;
- keeps what is prepared in a file, so that the next daemon knows it;
- counts the time for which a driver cannot be asked, after which its ResourceSlices are to be removed.

What takes long runs in a thread of the manager's own. Unlike a kubelet: a driver that a kubelet would ask again after 10 to 15
seconds is asked after one; the health of devices is not followed; the CDI names of devices are kept and given to no container.
"""

from __future__ import annotations

import contextlib
import stat
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import grpc

from sandbox.cluster.gpu_host import PLUGINS_REGISTRY
from sandbox.machines import dra_messages as messages
from sandbox.machines.dra_messages import Claim, Device
from sandbox.machines.errands import Errands
from sandbox.machines.world import LOG
from sandbox.system.errors import SandboxError
from sandbox.system.files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from pathlib import Path

#: How long drivers have to come back before their ResourceSlices are removed (manager.go, defaultWipingDelay).
WIPING_DELAY_SECONDS: Final = 30.0
_REGISTER_SECONDS: Final = 1.0
#: dra_plugin.go, defaultClientCallTimeout.
_CALL_SECONDS: Final = 45.0
_RETRY_SECONDS: Final = 1.0
#: A registration that cannot be asked is asked again after half a second, a second, … (goroutinemap/exponentialbackoff).
_FIRST_SECONDS, _LONGEST_SECONDS = 0.5, 122.0
_CLOSE_SECONDS: Final = 1.0


@dataclass(frozen=True)
class ClaimRequest:
    """A claim that a pod needs.

    Attributes:
        claim: which.
        drivers: of its allocated devices.
    """

    claim: Claim
    drivers: tuple[str, ...]


@dataclass
class _Known:
    """A claim that is or was to be prepared.

    Attributes:
        claim: which.
        drivers: of its devices.
        pods: uids of the pods that it was prepared for.
        prepared: whether it is.
        devices: what the drivers have answered.
    """

    claim: Claim
    drivers: tuple[str, ...]
    pods: set[str] = field(default_factory=set)
    prepared: bool = False
    devices: list[Device] = field(default_factory=list)


class _Driver:
    """A registered driver.

    Attributes:
        name: its name.
        endpoint: of its service, as the node has it.
    """

    def __init__(self, info: messages.PluginInfo, service: str, endpoint: str, place: Path, changed: Callable[[], None]) -> None:
        self.name, self.endpoint, self._service, self._changed = info.name, endpoint, service, changed
        self.connected = False
        self._closed = False
        self._channel = grpc.insecure_channel(f"unix:{place}")
        self._channel.subscribe(self._follow, try_to_connect=True)

    def ask(self, method: str, claims: Sequence[Claim]) -> bytes:
        """Ask it about claims.

        Raises:
            grpc.RpcError: it does not answer, or refuses all of them.
        """
        call = self._channel.unary_unary(f"/{self._service}/{method}")
        answer: bytes = call(messages.claims_request(claims), timeout=_CALL_SECONDS)
        return answer

    def close(self) -> None:
        """Ask it nothing more."""
        self._closed, self.connected = True, False
        self._channel.unsubscribe(self._follow)
        # gRPC's own thread, which follows the connection, must have noticed that nobody listens any more.
        later = threading.Timer(_CLOSE_SECONDS, self._channel.close)
        later.daemon = True
        later.start()

    def _follow(self, state: grpc.ChannelConnectivity) -> None:
        """The connection has changed; one that has ended is tried anew, so that a driver that comes back is noticed."""
        self.connected = state is grpc.ChannelConnectivity.READY and not self._closed
        if self._closed:
            return
        if state is grpc.ChannelConnectivity.IDLE:
            self._channel.unsubscribe(self._follow)
            self._channel.subscribe(self._follow, try_to_connect=True)
        self._changed()


class _RefusedError(Exception):
    """A claim cannot be prepared or unprepared now; why, in the kubelet's words."""


class DraManager:
    """The DRA manager of one machine, as long as its namespaces live."""

    def __init__(self, machine: str, outside: Callable[[str], Path], memory: Path, wake: Callable[[], None]) -> None:
        """Know what was prepared before.

        Args:
            machine: its name, for the log.
            outside: gives the place of a path of the node.
            memory: the file of what is prepared.
            wake: called, by any thread, when something has changed.
        """
        self._outside, self._memory, self._wake = outside, memory, wake
        self._lock = threading.RLock()
        self._errands = Errands(f"{machine} dra", wake)
        #: Socket of a registration -> what tells it from the next one of that name, and the driver once it is registered.
        self._sockets: dict[str, tuple[tuple[int, int], _Driver | None]] = {}
        #: Registration that failed -> how long it waits, and until when.
        self._retries: dict[tuple[str, tuple[int, int]], tuple[float, float]] = {}
        #: Driver -> since when it cannot be asked; None where it can be.
        self._silent: dict[str, float | None] = {}
        #: What failed -> why, and when it is tried again.
        self._failed: dict[str, tuple[str, float]] = {}
        self._looked_at = 0
        known = map(_remembered, read_json(memory).get("claims", []))
        self._claims = {(one.claim.namespace, one.claim.name): one for one in known}

    def has_changed(self) -> bool:
        """Whether sockets have come or gone since the last look."""
        return self._changed_at() != self._looked_at

    def look(self) -> None:
        """Notice registrations that have come or gone; never waits."""
        self._looked_at = self._changed_at()
        present = self._registrations()
        with self._lock:
            for name, (mark, driver) in list(self._sockets.items()):
                if present.get(name) != mark:
                    del self._sockets[name]
                    if driver is not None:
                        LOG.info("DRA driver %s: its registration is gone", driver.name)
                        driver.close()
            self._retries = {one: waits for one, waits in self._retries.items() if one in present.items()}
            new = [name for name, mark in present.items() if name not in self._sockets and self._is_due(name, mark)]
            for name in new:
                self._sockets[name] = (present[name], None)
                self._errands.submit(self._register, name, present[name])
            self._follow_silence()

    def registered(self) -> frozenset[str]:
        """The names of the drivers that can be asked now."""
        with self._lock:
            return frozenset(driver.name for _, driver in self._sockets.values() if driver is not None and driver.connected)

    def prepare(self, pod: str, wanted: tuple[ClaimRequest, ...]) -> str | None:
        """Have the claims of a pod prepared.

        Args:
            pod: its uid.
            wanted: its claims.

        Returns:
            Why they cannot be, empty where they are prepared; None while that is worked on.
        """
        return self._tried(f"prepare {pod}", wanted, lambda: self._prepare(pod, wanted))

    def release(self, pod: str) -> bool:
        """Have the claims of a pod that has ended unprepared; whether none is left that is not."""
        with self._lock:
            held = any(pod in known.pods for known in self._claims.values())
        return not held or self._tried(f"release {pod}", pod, lambda: self._release(pod)) == ""

    def keep(self, pods: frozenset[str]) -> None:
        """Unprepare what was prepared for any other pod (uids)."""
        with self._lock:
            gone = {pod for known in self._claims.values() for pod in known.pods} - pods
        for pod in gone:
            self.release(pod)

    def silence(self) -> Mapping[str, float]:
        """Driver -> since when it cannot be asked (monotonic), of those that have registered before."""
        with self._lock:
            self._follow_silence()
            return {name: since for name, since in self._silent.items() if since is not None}

    def forget(self, driver: str) -> None:
        """The ResourceSlices of a driver that cannot be asked are removed: its time is over until it registers again."""
        with self._lock:
            self._silent.pop(driver, None)

    def prepared_devices(self) -> dict[str, tuple[Device, ...]]:
        """Uid of a prepared claim -> its devices."""
        with self._lock:
            return {known.claim.uid: tuple(known.devices) for known in self._claims.values() if known.prepared}

    def close(self) -> None:
        """Ask no driver any more; the file stays."""
        with self._lock:
            drivers = [driver for _, driver in self._sockets.values() if driver is not None]
            self._sockets.clear()
        for driver in drivers:
            driver.close()
        self._errands.cancel()
        self._errands.close()

    # ------------------------------------------------------------------ registration

    def _changed_at(self) -> int:
        """When the folder of registrations was changed last."""
        try:
            return self._outside(PLUGINS_REGISTRY).stat().st_mtime_ns
        except OSError:
            return 0

    def _registrations(self) -> dict[str, tuple[int, int]]:
        """Name of a socket -> what tells it from another one of that name. Names that begin with a dot are passed over."""
        found: dict[str, tuple[int, int]] = {}
        with contextlib.suppress(OSError):
            for path in self._outside(PLUGINS_REGISTRY).iterdir():
                with contextlib.suppress(OSError):
                    status = path.lstat()
                    if stat.S_ISSOCK(status.st_mode) and not path.name.startswith("."):
                        found[path.name] = (status.st_ino, status.st_ctime_ns)
        return found

    def _is_due(self, name: str, mark: tuple[int, int]) -> bool:
        return time.monotonic() >= self._retries.get((name, mark), (0.0, 0.0))[1]

    def _register(self, name: str, mark: tuple[int, int]) -> None:
        """Ask a registration what it is of, and answer it; by the manager's thread."""
        path = f"{PLUGINS_REGISTRY}/{name}"
        try:
            with grpc.insecure_channel(f"unix:{self._outside(path)}") as channel:
                info = messages.plugin_info(channel.unary_unary(messages.GET_INFO)(b"", timeout=_REGISTER_SECONDS))
                endpoint, error = info.endpoint or path, self._objection(info, path)
                driver = None if error else self._take(name, mark, info, endpoint)
                notify = channel.unary_unary(messages.NOTIFY)
                notify(messages.registration_status(error), timeout=_REGISTER_SECONDS)
            if driver is not None:
                LOG.info("DRA driver %s has registered, at %s", info.name, endpoint)
        except (grpc.RpcError, ValueError, OSError) as error:
            LOG.info("registration %s: %s", name, _status(error) if isinstance(error, grpc.RpcError) else error)
            with self._lock:
                wait = min(2 * self._retries.get((name, mark), (_FIRST_SECONDS / 2, 0.0))[0], _LONGEST_SECONDS)
                self._retries[name, mark] = (wait, time.monotonic() + wait)
                if self._sockets.get(name) == (mark, None):
                    del self._sockets[name]
        self._wake()

    def _objection(self, info: messages.PluginInfo, path: str) -> str:
        """Why a plugin is not registered; empty where it is."""
        if info.kind != messages.DRIVER_TYPE:
            return f"RegisterPlugin error -- no handler registered for plugin type: {info.kind} at socket {path}"
        if not any(service in messages.SERVICES for service in info.services):
            place, offered = info.endpoint or path, " ".join(f'"{service}"' for service in info.services)
            supported = " ".join(f'"{service}"' for service in messages.SERVICES)
            return (
                "RegisterPlugin error -- plugin validation failed with err: invalid supported gRPC versions of DRA driver plugin "
                f"{info.name} at endpoint {place}: none of services supported by the plugin ([{offered}]) are supported by the "
                f"kubelet ([{supported}])"
            )
        return ""

    def _take(self, name: str, mark: tuple[int, int], info: messages.PluginInfo, endpoint: str) -> _Driver | None:
        """Have a driver registered, unless its socket is another one by now."""
        chosen = next(service for service in info.services if service in messages.SERVICES)
        with self._lock:
            if self._sockets.get(name) != (mark, None):
                return None
            driver = _Driver(info, messages.SERVICES[chosen], endpoint, self._outside(endpoint), self._wake)
            self._sockets[name] = (mark, driver)
            self._silent.setdefault(info.name, time.monotonic())
            return driver

    def _follow_silence(self) -> None:
        usable = self.registered()
        for name, since in self._silent.items():
            self._silent[name] = None if name in usable else since if since is not None else time.monotonic()
        # One that was forgotten may have come back on the connection that it had.
        self._silent.update(dict.fromkeys(usable - self._silent.keys()))

    def _driver(self, name: str) -> _Driver:
        """The driver of that name: of several the one that has registered last, before all one that is connected."""
        with self._lock:
            found = [driver for _, driver in self._sockets.values() if driver is not None and driver.name == name]
        if not found:
            raise _RefusedError(_not_registered(name))
        return next((driver for driver in reversed(found) if driver.connected), found[-1])

    # ------------------------------------------------------------------ claims, by the manager's thread

    def _tried(self, name: str, question: Hashable, work: Callable[[], None]) -> str | None:
        """Have something done that may fail, and again a while after it has failed.

        Returns:
            Why it failed, empty where it did not; None before it is known.
        """
        why, again = self._failed.get(name, (None, 0.0))
        if time.monotonic() < again:
            return why
        answer = self._errands.ask_once(name, question, lambda: _outcome(work))
        if answer is None:
            return why
        if answer:
            self._failed[name] = (answer, time.monotonic() + _RETRY_SECONDS)
        else:
            self._failed.pop(name, None)
        return answer

    def _prepare(self, pod: str, wanted: tuple[ClaimRequest, ...]) -> None:
        drivers = {name: self._driver(name) for request in wanted for name in request.drivers}
        with self._lock:
            due = [known for known in (self._noted(pod, request) for request in wanted) if not known.prepared]
            self._save()
        for name, driver in drivers.items():
            claims = [known for known in due if name in known.drivers]
            if claims:
                self._prepare_by(driver, claims)
        with self._lock:
            for known in due:
                known.prepared = True
            self._save()

    def _noted(self, pod: str, request: ClaimRequest) -> _Known:
        """What is known of a claim, which the pod uses from now on."""
        claim = request.claim
        known = self._claims.setdefault((claim.namespace, claim.name), _Known(claim, request.drivers))
        if known.claim.uid != claim.uid:
            message = (
                f"old ResourceClaim with same name {claim.name} and different UID {known.claim.uid} still exists "
                "(previous pod force-deleted?!)"
            )
            raise _RefusedError(message)
        known.pods.add(pod)
        if not known.prepared:
            known.devices.clear()
        return known

    def _prepare_by(self, driver: _Driver, wanted: Sequence[_Known]) -> None:
        found = messages.prepared_claims(_asked(driver, messages.PREPARE, [known.claim for known in wanted]))
        _check(messages.PREPARE, wanted, {uid: one.error for uid, one in found.items()})
        with self._lock:
            for known in wanted:
                known.devices += found[known.claim.uid].devices

    def _release(self, pod: str) -> None:
        with self._lock:
            held = [known for known in self._claims.values() if pod in known.pods]
            due = [known for known in held if len(known.pods) == 1]
        for name in dict.fromkeys(name for known in due for name in known.drivers):
            claims = [known for known in due if name in known.drivers]
            answer = _asked(self._driver(name), messages.UNPREPARE, [known.claim for known in claims])
            _check(messages.UNPREPARE, claims, messages.unprepared_claims(answer))
        with self._lock:
            for known in held:
                known.pods.discard(pod)
            self._claims = {key: known for key, known in self._claims.items() if known.pods}
            self._save()

    def _save(self) -> None:
        claims = [asdict(known) | {"pods": sorted(known.pods)} for known in self._claims.values()]
        write_json(self._memory, {"claims": claims})


def not_registered(wanted: Sequence[ClaimRequest]) -> str:
    """Why claims cannot be prepared where no driver is registered; empty where no driver is needed."""
    return next((_not_registered(name) for request in wanted for name in request.drivers), "")


def _not_registered(driver: str) -> str:
    return f"DRA driver {driver} is not registered"


def _outcome(work: Callable[[], None]) -> str:
    """Why it failed; empty where it did not."""
    try:
        work()
    except _RefusedError as error:
        return str(error)
    except (ValueError, SandboxError) as error:
        return f"the driver's answer, or the file of claims: {error}"
    return ""


def _asked(driver: _Driver, method: str, claims: Sequence[Claim]) -> bytes:
    try:
        return driver.ask(method, claims)
    except grpc.RpcError as error:
        message = f"{method}: {_status(error)}"
        raise _RefusedError(message) from error


def _check(method: str, asked: Sequence[_Known], errors: Mapping[str, str]) -> None:
    """Refuse an answer that a kubelet refuses.

    Args:
        method: that was asked.
        asked: the claims.
        errors: uid of a claim -> its error, as the driver has answered.
    """
    names = {known.claim.uid: known.claim.name for known in asked}
    for uid, error in errors.items():
        if uid not in names:
            message = f"{method} returned result for unknown claim UID {uid}"
            raise _RefusedError(message)
        if error:
            message = f"{method} failed for ResourceClaim {names[uid]}: {error}"
            raise _RefusedError(message)
    if missing := len(names) - len(errors):
        message = f"{method} skipped {missing} ResourceClaims"
        raise _RefusedError(message)


def _status(error: grpc.RpcError) -> str:
    """An error as Go's gRPC writes it."""
    if not isinstance(error, grpc.Call):
        return str(error)
    code = "".join(word.capitalize() for word in error.code().name.split("_"))
    return f"rpc error: code = {code} desc = {error.details()}"


def _remembered(raw: dict[str, Any]) -> _Known:
    """A claim of the file."""
    devices = [
        Device(tuple(one["requests"]), one["pool"], one["name"], tuple(one["cdi"]), one["share"]) for one in raw["devices"]
    ]
    return _Known(Claim(**raw["claim"]), tuple(raw["drivers"]), set(raw["pods"]), raw["prepared"], devices)
