"""What kubeconfigs say, as far as it is needed before the official client reads one. Nothing is written or checked here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from sandbox.cluster.api_errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_kubeconfig(kubeconfig: str) -> dict[str, Any]:
    """Take a kubeconfig given by its content or by its path.

    Raises:
        UnreachableError: it is neither, or holds no cluster.
    """
    text = kubeconfig
    if "\n" not in kubeconfig and not kubeconfig.lstrip().startswith("{"):
        try:
            text = Path(kubeconfig).expanduser().read_text(encoding="utf-8")
        except OSError as error:
            raise UnreachableError(f"unable to read kubeconfig file {kubeconfig!r}: {error.strerror}") from error
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UnreachableError("failed to parse kubeconfig data: it is not valid YAML") from error
    if not isinstance(config, dict) or not config.get("clusters"):
        raise UnreachableError("invalid configuration: no configuration has been provided: the kubeconfig has no clusters")
    return config


def context_namespace(config: Mapping[str, Any], context: str) -> str:
    """The namespace that a kubeconfig's context names, "" when it names none."""
    wanted = context or config.get("current-context", "")
    for entry in config.get("contexts") or []:
        if entry.get("name") == wanted:
            return str(entry.get("context", {}).get("namespace") or "")
    return ""


def login_program(config: Mapping[str, Any], context: str) -> str:
    """The program with which a kubeconfig's context logs in, "" when it needs none."""
    wanted = context or config.get("current-context", "")
    users = [(entry.get("context") or {}).get("user") for entry in config.get("contexts") or [] if entry.get("name") == wanted]
    found = [entry.get("user") or {} for entry in config.get("users") or [] if entry.get("name") in users]
    return str((found[0].get("exec") or {}).get("command") or "") if found else ""
