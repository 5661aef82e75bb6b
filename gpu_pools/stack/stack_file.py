"""Reads a stack file (``Pulumi.<env>.yaml``) strictly.

A key that is given twice is a problem with its line (gpu_pools/text/yaml_text.py). Only the ``config:`` mapping is returned: the
engine's own keys (``encryptionsalt``, ``secretsprovider``, ``environment``) are left to the engine. Values are not checked here.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import yaml

from gpu_pools.text.errors import InvalidStackError, Problem, show
from gpu_pools.text.files import read_text
from gpu_pools.text.yaml_text import DuplicateKeyError, load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SHAPE = "a YAML file with `config:` and under it `gpu-pools:cluster`, `gpu-pools:sharing` and `gpu-pools:pools`"
#: Stands for the standard input where a file is named.
STANDARD_INPUT: Final = "-"
#: Larger files are not stack files.
_LARGEST: Final = 16 << 20


def read_stack_file(path: Path | str) -> Mapping[str, object]:
    """The ``config`` mapping of a stack file; ``-`` is the standard input.

    Raises:
        InvalidStackError: if the file cannot be read, is empty, is not YAML, or has no ``config`` mapping.
    """
    name = str(path)
    document = _parse(name, _read(name))
    if document is None:
        raise _refusal(name, "the file is empty", "Write the three sections; stacks/ has five examples.")
    if not isinstance(document, dict):
        raise _refusal(name, f"the file holds {show(document)}, not a mapping", "Start the file with `config:`.")
    config = document.get("config")
    if not isinstance(config, dict) or not config:
        found = f"`config` is {show(config)}" if "config" in document else "there is no `config:`"
        raise _refusal(name, f"{found}, so nothing is declared", "Put the three sections under `config:`.")
    return {str(key): value for key, value in config.items()}


def _read(name: str) -> str:
    try:
        if name == STANDARD_INPUT and sys.stdin:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return read_text(name, _LARGEST)
    except FileNotFoundError:
        raise _refusal(name, "there is no such file", "Name an existing stack file, e.g. stacks/Pulumi.aks-dev.yaml.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _refusal(name, f"the file cannot be read: {error}", "Name a readable UTF-8 text file.") from error


def _parse(name: str, text: str) -> object:
    try:
        return load_yaml(text)
    except DuplicateKeyError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise _refusal(f"{name}:{line}", str(error.problem), "Keep one of the two; YAML would silently keep the last.") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        reason = getattr(error, "problem", None) or str(error)
        raise _refusal(where, f"not YAML: {reason}", "Mend the syntax at that line; indent with spaces.") from error


def _refusal(path: str, message: str, remedy: str) -> InvalidStackError:
    return InvalidStackError([Problem(path, message, _SHAPE, remedy)])
