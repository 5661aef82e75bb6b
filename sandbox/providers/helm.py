"""`kubernetes:helm.sh/v3:Release`, by driving the real helm program.

The real provider links Helm's Go code; this one runs the program, so hooks, waiting, three-way merges, value
schemas and error texts are Helm's own. Values and kubeconfig reach it in files that only their owner can read, in a
folder that lives as long as the one call; never as arguments, which any user of the machine could see.

What pulumi-kubernetes does with releases (provider/pkg/provider/helm_release.go) is done here: a create installs and an update
upgrades, so that a release that is there already, or that a killed run left pending, is an error (sandbox.stack.recovery mends
what a killed run left); the chart is looked up, but not rendered, before anything is done, so that what it refuses shows only
then; `timeout` counts, customTimeouts do not; a read calls a release whole that has failed; who deletes one that is gone is
refused.

Like Helm itself, values that the chart doesn't know are ignored. Not supported, and refused: valueYamlFiles,
postrender, keyring, verify, lint.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from sandbox.providers.base import PartialFailure, ServiceError
from sandbox.providers.chart_sources import Chart, ChartError, ChartRequest, ChartSources
from sandbox.providers.differences import Diff, compare
from sandbox.providers.kube_rules import random_name
from sandbox.providers.values import UNKNOWN, Value, has_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sandbox.providers.base import Failure

TYPE: Final = "kubernetes:helm.sh/v3:Release"
HELM_VARIABLE: Final = "GPU_POOLS_HELM"
_DEFAULT_SECONDS = 300
_REPLACES = ("name", "namespace")
_REFUSED = ("valueYamlFiles", "postrender", "keyring", "verify", "lint")
# property -> flag of "helm install" and of "helm upgrade", which have but few in common.
_BOTH = {
    "atomic": "--atomic",
    "dependencyUpdate": "--dependency-update",
    "devel": "--devel",
    "disableWebhooks": "--no-hooks",
    "renderSubchartNotes": "--render-subchart-notes",
    "takeOwnership": "--take-ownership",
}
_INSTALL = {
    **_BOTH,
    "createNamespace": "--create-namespace",
    "disableOpenapiValidation": "--disable-openapi-validation",
    "replace": "--replace",
    "skipCrds": "--skip-crds",
}
_UPGRADE = {
    **_BOTH,
    "cleanupOnFail": "--cleanup-on-fail",
    "forceUpdate": "--force",
    "resetValues": "--reset-values",
    "reuseValues": "--reuse-values",
}
# What makes it into the environment of helm: paths, proxies and certificates, nothing that would change its doings.
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


@dataclass(frozen=True)
class Target:
    """The cluster that a release goes to.

    Attributes:
        kubeconfig: the content of its kubeconfig.
        context: the context; "" for the current one.
        namespace: the default namespace.
    """

    kubeconfig: Mapping[str, Any]
    context: str
    namespace: str


class _HelmError(Exception):
    """Helm ended with an error; the text is its own."""


def helm_program() -> str:
    """The helm program: as GPU_POOLS_HELM says, else the one on PATH.

    Raises:
        ServiceError: there is none.
    """
    found = os.environ.get(HELM_VARIABLE) or shutil.which("helm")
    if not found:
        raise ServiceError(f"no helm program: {HELM_VARIABLE} is not set and there is none on PATH")
    return found


class Releases:
    """Helm releases.

    Args:
        cancelled: ends what helm is doing when it is set, in all calls.
        notify: takes a message for the user.
        sources: where charts come from.
    """

    def __init__(
        self,
        cancelled: threading.Event,
        notify: Callable[[str], None],
        sources: ChartSources | None = None,
    ) -> None:
        self._cancelled = cancelled
        self._notify = notify
        self._sources = sources or ChartSources(helm_program)

    # ---------------------------------------------------------------- without a cluster

    def check(
        self,
        olds: Mapping[str, Value],
        news: Mapping[str, Value],
        *,
        name: str,
        seed: bytes,
        namespace: str,
    ) -> tuple[dict[str, Value], list[Failure]]:
        """Fill in what the release lacks and the version that its chart has; refuse what is not supported, or cannot be had."""
        inputs = {key: value for key, value in news.items() if value is not None}
        if not inputs.get("name"):
            inputs["name"] = olds.get("name") or random_name(name, seed)
        inputs.setdefault("namespace", namespace)
        failures = [
            (key, "the sandbox's helm provider does not support this property: leave it out")
            for key in _REFUSED
            if inputs.get(key)
        ]
        options = inputs.get("repositoryOpts")
        failures += [
            (f"repositoryOpts.{key}", "the sandbox's helm provider takes charts from public repositories only: leave it out")
            for key in ("username", "password", "certFile", "keyFile")
            if isinstance(options, dict) and options.get(key)
        ]
        if not inputs.get("chart"):
            failures.append(("chart", "missing required property 'chart'"))
        if not failures and not has_unknown(inputs):
            try:
                with tempfile.TemporaryDirectory(prefix="gpu-pools-helm-") as folder:
                    inputs["version"] = self._chart(inputs, _environment(Path(folder))).version()
            except ChartError as error:
                failures.append(("chart", f"{error}; check the chart name and repository configuration."))
        return inputs, failures

    def diff(self, olds: Mapping[str, Value], news: Mapping[str, Value]) -> Diff:
        """Everything changes in place but the name and the namespace."""
        return compare(olds, news, replace_on=_REPLACES)

    # ---------------------------------------------------------------- with a cluster

    def create(self, inputs: Mapping[str, Value], target: Target, stop: threading.Event) -> dict[str, Value]:
        """Install a release.

        Args:
            inputs: its properties.
            target: the cluster.
            stop: ends what helm is doing when it is set.

        Raises:
            ServiceError: nothing was installed.
            PartialFailure: the release exists, but failed.
        """
        made = f"Helm release {json.dumps(place(inputs))} was created, but failed to initialize completely."
        return self._run("install", _INSTALL, inputs, target, stop, made)

    def update(self, inputs: Mapping[str, Value], target: Target, stop: threading.Event) -> dict[str, Value]:
        """Upgrade a release, with the same arguments and errors."""
        made = f"Helm release {json.dumps(place(inputs))} failed to initialize completely."
        return self._run("upgrade", _UPGRADE, inputs, target, stop, made)

    def _run(
        self,
        command: str,
        flags: Mapping[str, str],
        inputs: Mapping[str, Value],
        target: Target,
        stop: threading.Event,
        made: str,
    ) -> dict[str, Value]:
        with self._session(target, stop) as session:
            before: dict[str, Any] = {}
            try:
                chart = self._chart(inputs, session.env)
                before = _status(session, inputs) or {}
                session.run(command, *_arguments(flags, inputs, chart, session))
                return _described(session, inputs, _status(session, inputs) or {})
            except (_HelmError, ChartError) as error:
                session.stops = ()  # what was stopped is over; how it stands now must still be asked
                now = _status_if_any(session, inputs)
                if not now or now.get("version") == before.get("version"):
                    raise ServiceError(str(error)) from error
                # In the real provider's words; helm's own are at the end.
                cause = f"Error: Helm Release {place(inputs)}: {error}"
                text = f"{made} Use Helm CLI to investigate: failed to become available within allocated timeout. {cause}"
                raise PartialFailure(place(inputs), _described(session, inputs, now), [text]) from error

    def read(
        self, inputs: Mapping[str, Value], outputs: Mapping[str, Value], target: Target
    ) -> tuple[dict[str, Value], dict[str, Value]] | None:
        """The release's inputs and outputs as the cluster has them; None when it is gone."""
        known = inputs or outputs
        with self._session(target) as session:
            try:
                status = _status(session, known)
                if status is None:
                    return None
                news = {key: value for key, value in known.items() if key not in {"status", "resourceNames"}}
                config = status.get("config") or {}
                if config != (news.get("values") or {}):
                    news["values"] = config
                return news, _described(session, news, status)
            except _HelmError as error:
                raise ServiceError(str(error)) from error

    def delete(self, inputs: Mapping[str, Value], target: Target, stop: threading.Event) -> None:
        """Uninstall a release, and wait until its objects are gone unless it is not to be waited for."""
        command = ["uninstall", inputs["name"], "--namespace", inputs["namespace"]]
        if inputs.get("atomic") or not inputs.get("skipAwait"):
            command += ["--wait", "--timeout", f"{_seconds(inputs)}s"]
        with self._session(target, stop) as session:
            try:
                session.run(*command)
            except _HelmError as error:
                raise ServiceError(str(error)) from error

    # ---------------------------------------------------------------- inside

    def _chart(self, inputs: Mapping[str, Value], env: Mapping[str, str]) -> Chart:
        options = inputs.get("repositoryOpts") or {}
        request = ChartRequest(
            chart=inputs["chart"],
            version=inputs.get("version") or "",
            repository=options.get("repo") or "",
        )
        chart = self._sources.find(request, env)
        if chart.stand_in or chart.of_module:
            origin = "its Go module" if chart.of_module else "the stand-in"
            self._notify(f"chart {request.name} {request.version} from {origin}, repository {request.source} not reachable")
        return chart

    @contextmanager
    def _session(self, target: Target, *stops: threading.Event) -> Iterator[_Session]:
        with tempfile.TemporaryDirectory(prefix="gpu-pools-helm-") as folder:  # mode 0700
            yield _Session(Path(folder), target, (self._cancelled, *stops))


class _Session:
    """One use of helm: its private folder and environment."""

    def __init__(self, folder: Path, target: Target, stops: tuple[threading.Event, ...]) -> None:
        self._folder = folder
        self.stops = stops
        self._context = target.context
        kubeconfig = self._write("kubeconfig", dict(target.kubeconfig))
        self.env = _environment(folder) | {"KUBECONFIG": kubeconfig, "KUBECACHEDIR": str(folder / "kube")}

    def values(self, inputs: Mapping[str, Value]) -> str:
        """The path of a file with the release's values."""
        return self._write("values.json", inputs.get("values") or {})

    def run(self, *arguments: str) -> str:
        """Run helm and return what it printed.

        Raises:
            _HelmError: it failed, or the operation was cancelled.
        """
        command = [helm_program(), *arguments]
        if self._context and arguments[0] != "template":
            command += ["--kube-context", self._context]
        with subprocess.Popen(
            command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            done = threading.Event()
            watcher = threading.Thread(target=self._end_when_cancelled, args=(process, done), daemon=True)
            watcher.start()
            output, errors = process.communicate()
            done.set()
        if process.returncode == 0:
            return output
        lines = [line for line in errors.strip().splitlines() if not line.startswith(("WARNING:", "W1", "I1"))]
        text = "\n".join(lines).removeprefix("Error: ").removeprefix("INSTALLATION FAILED: ").removeprefix("UPGRADE FAILED: ")
        if self._stopped():
            text = f"the operation was cancelled: {text}"
        raise _HelmError(text or f"helm ended with status {process.returncode}")

    def _end_when_cancelled(self, process: subprocess.Popen[str], done: threading.Event) -> None:
        while not done.wait(0.2):
            if self._stopped():
                process.terminate()  # helm then marks the release as failed
                return

    def _stopped(self) -> bool:
        return any(stop.is_set() for stop in self.stops)

    def _write(self, name: str, value: Mapping[str, Any]) -> str:
        path = self._folder / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(value, stream)
        return str(path)


def _environment(folder: Path) -> dict[str, str]:
    """What helm may see of this machine; where it keeps things is a folder of the call."""
    kept = {key: os.environ[key] for key in (*_KEPT, *_PROXIES) if key in os.environ}
    return kept | {
        "HELM_CACHE_HOME": str(folder / "cache"),
        "HELM_CONFIG_HOME": str(folder / "config"),
        "HELM_DATA_HOME": str(folder / "data"),
    }


def place(inputs: Mapping[str, Value]) -> str:
    """The id of a release."""
    return f"{inputs['namespace']}/{inputs['name']}"


def previewed(inputs: Mapping[str, Value]) -> dict[str, Value]:
    """What is known of a release beforehand."""
    return {**inputs, "status": UNKNOWN, "resourceNames": UNKNOWN}


def _seconds(inputs: Mapping[str, Value]) -> int:
    return int(inputs.get("timeout") or _DEFAULT_SECONDS)


def _arguments(flags: Mapping[str, str], inputs: Mapping[str, Value], chart: Chart, session: _Session) -> Sequence[str]:
    arguments = [inputs["name"], str(chart.path), "--namespace", inputs["namespace"]]
    arguments += ["--values", session.values(inputs), "--timeout", f"{_seconds(inputs)}s"]
    arguments += [flag for key, flag in flags.items() if inputs.get(key)]
    # As in the real provider, atomic waits even when skipAwait says otherwise.
    waits = not inputs.get("skipAwait") or inputs.get("atomic")
    arguments += ["--wait"] if waits else []
    arguments += ["--wait-for-jobs"] if waits and inputs.get("waitForJobs") else []
    if inputs.get("maxHistory") and flags is _UPGRADE:
        arguments += ["--history-max", str(int(inputs["maxHistory"]))]
    if inputs.get("description"):
        arguments += ["--description", inputs["description"]]
    return arguments


def _status_if_any(session: _Session, inputs: Mapping[str, Value]) -> dict[str, Any]:
    try:
        return _status(session, inputs) or {}
    except _HelmError:
        return {}


def _status(session: _Session, inputs: Mapping[str, Value]) -> dict[str, Any] | None:
    try:
        text = session.run("status", inputs["name"], "--namespace", inputs["namespace"], "--output", "json")
    except _HelmError as error:
        if "release: not found" in str(error):
            return None
        raise
    status: dict[str, Any] = json.loads(text)
    return status


def _described(session: _Session, inputs: Mapping[str, Value], status: Mapping[str, Any]) -> dict[str, Value]:
    """The outputs of a release that exists; which chart it came from helm tells by another command."""
    text = session.run("get", "metadata", inputs["name"], "--namespace", inputs["namespace"], "--output", "json")
    chart = json.loads(text)
    return {
        **inputs,
        "version": inputs.get("version") or chart.get("version"),
        "status": {
            "name": status.get("name"),
            "namespace": status.get("namespace"),
            "revision": status.get("version"),
            "status": status.get("info", {}).get("status", "unknown"),
            "chart": chart.get("chart"),
            "version": chart.get("version"),
            "appVersion": chart.get("appVersion"),
        },
        "resourceNames": resource_names(status.get("manifest") or ""),
    }


def resource_names(manifest: str) -> dict[str, list[str]]:
    """The objects of a manifest by kind, as the real provider lists them ("Deployment.apps/apps/v1": ["ns/name"])."""
    names: dict[str, list[str]] = {}
    for obj in yaml.load_all(manifest, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if not isinstance(obj, dict) or "kind" not in obj:
            continue
        group = obj["apiVersion"].rpartition("/")[0]
        metadata = obj["metadata"]
        namespace = metadata.get("namespace")
        kind = f"{obj['kind']}.{group}/{obj['apiVersion']}" if group else f"{obj['kind']}/{obj['apiVersion']}"
        names.setdefault(kind, []).append(f"{namespace}/{metadata['name']}" if namespace else metadata["name"])
    return {kind: sorted(found) for kind, found in sorted(names.items())}
