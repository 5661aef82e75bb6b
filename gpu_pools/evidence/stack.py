"""What a deploy left behind: the stack's outputs, from a file or from the engine, and the kubeconfig among them.

The kubeconfig is a secret: it is never printed.
One from a file that somebody has sent may also name programs to run and files to read (a log-in by `exec`, `tokenFile`): such a
one is used only where the user says that he trusts it. That of a stack's own outputs is the stack's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

import yaml

from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.shared_text import plain
from gpu_pools.text import programs
from gpu_pools.text.files import read_text
from gpu_pools.text.yaml_text import load_yaml

_KUBECONFIG: Final = "kubeconfig"
#: What the engine prints in a secret's place.
_MASKED: Final = "[secret]"
#: In YAML and in JSON.
_LEAST_KUBECONFIG: Final = "clusters"
_SECONDS: Final = 300
#: The keys of a kubeconfig's users and clusters that run no program and read no other file.
_PLAIN: Final = {
    "user": {"token", "client-certificate-data", "client-key-data", "username", "password"},
    "cluster": {"server", "certificate-authority-data", "insecure-skip-tls-verify", "tls-server-name", "proxy-url"},
}


def read_outputs(path: str) -> Mapping[str, Any]:
    """The outputs in a file, as `pulumi stack output --json` prints them.

    Args:
        path: ``-`` for the standard input.

    Raises:
        EvidenceError: where it cannot be read.
    """
    try:
        text = sys.stdin.read() if path == "-" else read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        message = f"{plain(path)} cannot be read: {error}"
        raise EvidenceError(message, "Give a file with what `pulumi stack output --json` prints.") from None
    return _parsed(text, plain(path))


def outputs_of(stack: str, *, with_secrets: bool) -> Mapping[str, Any]:
    """The outputs of a stack, asked of the engine.

    Args:
        stack: its name, as `pulumi --stack` takes it.
        with_secrets: whether the kubeconfig is needed.

    Raises:
        EvidenceError: where the engine does not tell them.
    """
    command = ["pulumi", "stack", "output", "--json", "--non-interactive", "--stack", stack]
    command += ["--show-secrets"] if with_secrets else []
    remedy = f"Try it: pulumi stack output --stack {plain(stack)}; or give the outputs with --outputs FILE."
    try:
        done = programs.run(command, _SECONDS)
    except programs.AbsentError:
        raise EvidenceError("There is no pulumi on PATH.", "Install it, or give the outputs with --outputs FILE.") from None
    except programs.SilentError as error:
        message = f"pulumi does not answer: {error}"
        raise EvidenceError(message, remedy) from None
    if done.code != 0:
        # The outputs are on the other stream: nothing secret is in this one.
        message = f"pulumi does not tell the outputs of {plain(stack)}: {plain(done.errors) or done.code}"
        raise EvidenceError(message, remedy)
    return _parsed(done.text, "what pulumi printed")


def _parsed(text: str, what: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        # Its text may hold a secret.
        found = None
    if not isinstance(found, Mapping):
        message = f"{what} is not a JSON mapping of outputs."
        raise EvidenceError(message, "Give what `pulumi stack output --json` prints.")
    return found


def kubeconfig_of(outputs: Mapping[str, Any], *, trusted: bool = True) -> str:
    """The kubeconfig of the outputs.

    Args:
        outputs: of a stack.
        trusted: whether it may run programs and read files.

    Raises:
        EvidenceError: where the outputs have none, or one that is not trusted would.
    """
    text = outputs.get(_KUBECONFIG)
    if not isinstance(text, str) or _LEAST_KUBECONFIG not in text:
        masked = text == _MASKED
        why = "is masked" if masked else "is not a kubeconfig"
        message = f"The kubeconfig in the outputs {why}."
        raise EvidenceError(message, "Print them with --show-secrets, or give --kubeconfig FILE or --context NAME.")
    return text if trusted else _harmless(text)


def _harmless(text: str) -> str:
    """A kubeconfig that runs nothing and reads nothing, written again, so that what was checked is what is used.

    Raises:
        EvidenceError: where it does, or cannot be read.
    """
    remedy = "If you trust where the file comes from, say --trust-outputs; else give --kubeconfig FILE or --context NAME."
    try:
        config = load_yaml(text)
        entries = [
            (kind, key, value)
            for kind in _PLAIN
            for entry in config.get(f"{kind}s") or []
            for key, value in (entry.get(kind) or {}).items()
        ]
    except (yaml.YAMLError, AttributeError, TypeError):
        raise EvidenceError("The kubeconfig in the outputs is not understood.", remedy) from None
    if wrong := sorted({f"{kind}.{key}" for kind, key, value in entries if key not in _PLAIN[kind] and value}):
        message = f"The kubeconfig in the outputs would run programs or read files: {plain(', '.join(wrong))}."
        raise EvidenceError(message, remedy)
    return json.dumps(config)
