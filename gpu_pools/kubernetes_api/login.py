"""Logs in to a cluster as kubectl would: kubeconfig files, contexts, log-in programs, certificates, proxies.

The official client reads a kubeconfig. What it does otherwise than kubectl (client-go, tools/clientcmd) is made up for here: the
first file that names a current context decides, a log-in program that fails is an error, and impersonation is not ignored.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.kubernetes_api.errors import ClusterError, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kubernetes.client import ApiClient

_REQUEST: Final = "log-in"
_REMEDY: Final = "Use a kubeconfig that kubectl works with."
#: Keys of a kubeconfig's user -> headers (Kubernetes, "User impersonation").
_IMPERSONATION: Final = {"as": "Impersonate-User", "as-uid": "Impersonate-Uid", "as-groups": "Impersonate-Group"}


@dataclass(frozen=True)
class Kubeconfig:
    """Where the credentials of a cluster come from.

    Attributes:
        text: the content of a kubeconfig.
        path: a file, instead. With neither, the files that KUBECONFIG names, else ~/.kube/config, else the pod's own account.
        context: None for the current one.
    """

    text: str | None = field(default=None, repr=False)
    path: Path | None = None
    context: str | None = None

    def files(self) -> list[Path]:
        """The files to read, in the order in which they count."""
        if self.text is not None or self.path is not None:
            return [self.path] if self.path is not None else []
        named = os.environ.get("KUBECONFIG") or "~/.kube/config"
        return [path for one in named.split(os.pathsep) if one and (path := Path(one).expanduser()).exists()]


def log_in(kubeconfig: Kubeconfig, folder: str | None) -> ApiClient:
    """A client of the cluster; no request is sent yet, but a log-in program runs.

    Args:
        kubeconfig: where the credentials come from.
        folder: for the files with keys that TLS needs; None for those that the client removes at the end of the process.

    Raises:
        ClusterError: the kubeconfig cannot be used, or the log-in fails.
    """
    from kubernetes.client import ApiClient, Configuration  # noqa: PLC0415 - it takes a third of a second to load
    from kubernetes.config import ConfigException, load_incluster_config  # noqa: PLC0415
    from urllib3.util.retry import Retry  # noqa: PLC0415

    settings = Configuration()
    # Asked again only where the server says after how long, as client-go does. Pod evictions are answered so, too: not again.
    settings.retries = Retry(3, connect=0, read=0, other=0, redirect=False, allowed_methods={"GET"}, raise_on_status=False)
    files = kubeconfig.files()
    try:
        if not files and kubeconfig.text is None:
            if kubeconfig.context or "KUBERNETES_SERVICE_HOST" not in os.environ:
                raise _no_kubeconfig()
            load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
            return ApiClient(settings)
        with logged_errors() as logged:
            headers = _load(kubeconfig, files, settings, folder, logged)
    except yaml.MarkedYAMLError as error:
        line = f" (line {error.problem_mark.line + 1})" if error.problem_mark else ""
        raise ClusterError(_REQUEST, None, f"the kubeconfig is not YAML{line}", _REMEDY) from None
    except OSError as error:
        message = f"the kubeconfig or a file that it names cannot be read: {error.strerror}: {error.filename}"
        raise ClusterError(_REQUEST, None, message, _REMEDY) from None
    except (ConfigException, yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError):
        # What the client says of it may quote a whole user with his credentials.
        raise ClusterError(_REQUEST, None, "the kubeconfig is incomplete or malformed", _REMEDY) from None
    client = ApiClient(settings)
    for name, value in headers.items():
        client.set_default_header(name, value)  # type: ignore[no-untyped-call]
    return client


def _load(kubeconfig: Kubeconfig, files: list[Path], settings: Any, folder: str | None, logged: list[str]) -> dict[str, str]:  # noqa: ANN401 - the client has no types
    """Put server and credentials into the client's settings; the headers that go with each request."""
    from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger  # noqa: PLC0415 - see log_in

    merger = KubeConfigMerger(io.StringIO(kubeconfig.text) if kubeconfig.text is not None else "")  # type: ignore[no-untyped-call]
    for path in files:
        merger.load_config(str(path))  # type: ignore[no-untyped-call]
    whole = getattr(merger.config, "value", merger.config)
    current = [one.get("current-context") for one in (*merger.config_files.values(), whole)]
    context = _chosen(kubeconfig.context or next(filter(None, current), None), _named(whole, "contexts"))
    loader = KubeConfigLoader(  # type: ignore[no-untyped-call]
        merger.config, active_context=context, config_base_path=None, temp_file_path=folder
    )
    loader.load_and_set(settings)  # type: ignore[no-untyped-call]
    entry = _named(whole, "users").get(loader.current_context["context"].get("user")) or {}
    user = entry.get("user") or {}
    if not settings.api_key and not settings.cert_file and (user.get("exec") or user.get("auth-provider")):
        raise _failed_login(user, logged)
    if not settings.verify_ssl:
        import urllib3  # noqa: PLC0415 - comes with the client

        # The kubeconfig says so (insecure-skip-tls-verify).
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return _headers(user)


def _named(whole: Mapping[str, Any], kind: str) -> dict[str, Mapping[str, Any]]:
    entries = [getattr(one, "value", one) for one in whole.get(kind) or []]
    return {str(one["name"]): one for one in entries}


def _chosen(context: str | None, known: Mapping[str, Any]) -> str:
    if context in known:
        return str(context)
    message = f"the kubeconfig has no context {short(context)}" if context else "the kubeconfig names no current context"
    raise ClusterError(_REQUEST, None, message, f"Its contexts are: {', '.join(map(short, known)) or 'none'}. Use one of them.")


def _headers(user: Mapping[str, Any]) -> dict[str, str]:
    given = {key: user[key] if isinstance(user[key], list) else [user[key]] for key in _IMPERSONATION if user.get(key)}
    if user.get("as-user-extra") or any(len(values) > 1 for values in given.values()):
        message = "the kubeconfig impersonates a user with several groups or with extra fields, which is not supported here"
        raise ClusterError(_REQUEST, None, message, "Use a kubeconfig with at most one group in as-groups, and no as-user-extra.")
    return {_IMPERSONATION[key]: str(values[0]) for key, values in given.items()}


def _no_kubeconfig() -> ClusterError:
    message = "there is no kubeconfig: KUBECONFIG names no file that exists, and there is no ~/.kube/config"
    return ClusterError(_REQUEST, None, message, "Set KUBECONFIG to the file with your credentials.")


def _failed_login(user: Mapping[str, Any], logged: list[str]) -> ClusterError:
    if not user.get("exec"):
        message = "the kubeconfig logs in by an auth-provider that is not supported any more"
        return ClusterError(_REQUEST, None, message, "Use a kubeconfig with a log-in program (exec), as your cloud hands it out.")
    program = str(user["exec"].get("command"))
    # Others may quote the whole user.
    said = next((one for one in reversed(logged) if one.startswith(("exec:", "[Errno"))), "it gave no credentials")
    failed = "is not installed" if said.startswith("[Errno 2]") else f"failed: {said}"
    aks = "Install kubelogin, or log in (az login; in a pipeline AAD_LOGIN_METHOD)."
    remedy = aks if Path(program).name == "kubelogin" else "Install the program that the kubeconfig names, or log in with it."
    return ClusterError(_REQUEST, None, f"getting credentials: {program} {failed}", remedy)


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.logged: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self.logged.append(record.getMessage())


@contextlib.contextmanager
def logged_errors() -> Iterator[list[str]]:
    """What is logged on this thread: the client's loader logs why a log-in program failed, and raises nothing."""
    collector = _Collector()
    logging.getLogger().addHandler(collector)
    try:
        yield collector.logged
    finally:
        logging.getLogger().removeHandler(collector)
