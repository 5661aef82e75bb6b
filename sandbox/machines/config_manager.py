"""Stand-in for config-manager where it cannot run: the link that it makes to one of the ConfigMap's files, and how it ends.

By the rules of k8s-device-plugin, cmd/config-manager/main.go, its faults included: from v0.18.2 on it first takes the node for
one without a label each time that it starts, since it does not wait for the node to be read (NVIDIA/k8s-device-plugin#1645); a
link whose file is gone counts as none, so that it is not taken away and another one cannot be made (#364); whoever is to be
signalled must run, under exactly the name that it is looked for by (#1827); and up to v0.19 it panics at the first process
without a command line (#1726), which a pod sees that shares the node's processes.

Pure but for what it remembers of one pod. Where the real one runs: config_pod.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sandbox.machines.node_programs import ConfigRequest, Configured

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE: Final = "/available-configs"
TARGET: Final = "/config/config.yaml"
EMPTY: Final = "/dev/null"


#: Exit codes of an error, and of a Go program that panics.
_ERROR, _PANIC = 1, 2
_NAMELESS: Final = "panic: runtime error: index out of range [0] with length 0"


class ConfigManagerError(Exception):
    """What config-manager prints before it ends."""

    def __init__(self, message: str, code: int = _ERROR) -> None:
        """With that exit code."""
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Link:
    """What lies at TARGET.

    Attributes:
        target: where it leads to; empty where there is none yet.
    """

    target: str = ""

    def read(self, files: Mapping[str, str]) -> str | None:
        """The text behind it; None where there is no such file."""
        return "" if self.target == EMPTY else files.get(self.target.removeprefix(f"{SOURCE}/"))


def choose(label: str, files: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """The file that it links, empty for the empty configuration.

    Raises:
        ConfigManagerError: where it ends instead.
    """
    if not files:
        message = "no configuration files available"
        raise ConfigManagerError(message)
    default = environment.get("DEFAULT_CONFIG", "")
    if label or default:
        if (label or default) not in files:
            # It names the label here, even where the default is meant and the label is empty; that is how users meet it.
            message = f"specified config {label} does not exist"
            raise ConfigManagerError(message)
        return label or default
    if environment.get("FALLBACK_STRATEGIES") == "empty":
        return ""
    message = "no config was set, no default was provided, and all fallbacks failed"
    raise ConfigManagerError(message)


def relink(link: Link, chosen: str, files: Mapping[str, str]) -> Link:
    """The link after a choice; the same where nothing is to be done.

    Raises:
        ConfigManagerError: where it ends instead.
    """
    wanted = Link(f"{SOURCE}/{chosen}" if chosen else EMPTY)
    if link.read(files) is None and link.target:
        message = f"error creating symlink: symlink {wanted.target} {TARGET}: file exists"
        raise ConfigManagerError(message)
    return wanted


class ConfigManager:
    """The two containers of config-manager in one pod, by rule."""

    def __init__(self, request: ConfigRequest) -> None:
        """A pod that ran before goes on with the file that its program had read."""
        key = _key(request)
        self._link = Link() if key is None else Link(f"{SOURCE}/{key}" if key else EMPTY)
        self._initialized = key is not None
        self._runs: tuple[int, int] | None = None if key is None else (request.init_restarts, request.sidecar_restarts)
        #: The label that it has followed; None before its first look.
        self._seen = key
        self._done = Configured(None)

    def follow(self, request: ConfigRequest) -> Configured:
        """Do what the two would do by now."""
        run = (request.init_restarts, request.sidecar_restarts)
        if run != self._runs:
            self._runs, self._seen = run, None
            self._done = replace(self._done, init_message="", sidecar_message="")
        if self._initialized and not self._done.sidecar_message:
            self._watch(request)
        if not self._initialized and not self._done.init_message:
            # The sidecar comes after the program, which reads what is linked before that.
            self._initialize(request)
        return replace(self._done, text=self._link.read(request.files))

    def _initialize(self, request: ConfigRequest) -> None:
        label = request.label if request.release.waits_for_node else ""
        try:
            self._link = relink(self._link, choose(label, request.files, request.environment), request.files)
        except ConfigManagerError as error:
            self._done = replace(self._done, init_message=str(error), init_code=error.code)
            return
        self._initialized = True

    def _watch(self, request: ConfigRequest) -> None:
        for label in self._choices(request):
            self._seen = label
            try:
                self._apply(request, label)
            except ConfigManagerError as error:
                self._done = replace(self._done, sidecar_message=str(error), sidecar_code=error.code)
                return

    def _choices(self, request: ConfigRequest) -> list[str]:
        """The labels that it follows now, one after the other."""
        if request.release.waits_for_node:
            return [request.label] * (request.label != self._seen)
        return [""] * (self._seen is None) + [request.label] * (request.label != (self._seen or ""))

    def _apply(self, request: ConfigRequest, label: str) -> None:
        link = relink(self._link, choose(label, request.files, request.environment), request.files)
        if link == self._link:
            return
        self._link = link
        if request.host_pid and not request.release.skips_nameless:
            raise ConfigManagerError(_NAMELESS, _PANIC)
        if not request.program_runs or request.program != request.environment.get("PROCESS_TO_SIGNAL"):
            message = "error finding pid: no process found"
            raise ConfigManagerError(message)
        self._done = replace(self._done, signals=self._done.signals + 1)


def _key(request: ConfigRequest) -> str | None:
    """The key of the file that the program had read, empty for the empty configuration; None where it had read none yet."""
    if request.read is None:
        return None
    keys = [key for key, text in request.files.items() if text == request.read]
    return request.label if request.label in keys else next(iter(keys), "")
