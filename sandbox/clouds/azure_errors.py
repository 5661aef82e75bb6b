"""Refusals of Azure, in the shape in which the azure-native provider prints what ARM answered.

Which words are the service's, and where they were seen, is data (data/azure_refusals.yaml): a refusal with others is an error of
the stand-in.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from gpu_pools.text.yaml_text import load_yaml
from sandbox.clouds.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping


class AzureError(Refusal):
    """A refusal in the shape in which the azure-native provider prints what ARM answered.

    Attributes:
        status: the HTTP status.
        code: ARM's error code.
        message: what it says.
    """

    def __init__(self, status: int, code: str, message: str, target: str = "") -> None:
        entry_of(code, message)
        text = f'Code="{code}" Message="{message}"'
        super().__init__(f'{text} Target="{target}"' if target else text)
        self.status = status
        self.code = code
        self.message = message


@lru_cache(maxsize=1)
def refusals() -> Mapping[str, list[dict[str, Any]]]:
    """Code -> entries, each with a text and where it was seen."""
    text = (resources.files("sandbox.clouds") / "data" / "azure_refusals.yaml").read_text(encoding="utf-8")
    entries: dict[str, list[dict[str, Any]]] = load_yaml(text)
    return entries


def entry_of(code: str, message: str) -> dict[str, Any]:
    """The entry of a refusal.

    Raises:
        LookupError: no entry has such a text.
    """
    for entry in refusals().get(code, []):
        if re.fullmatch(_pattern(entry["text"]), message, re.DOTALL):
            return entry
    unknown = f"data/azure_refusals.yaml has no text of {code} like: {message}"
    raise LookupError(unknown)


@lru_cache(maxsize=256)
def _pattern(text: str) -> str:
    return ".*".join(map(re.escape, text.split("…")))


def invalid(parameter: str, details: str = "") -> AzureError:
    """A value that the service does not take."""
    middle = f" Error details: {details.rstrip('.')}." if details else ""
    message = (
        f"The value of parameter {parameter} is invalid.{middle} Please see https://aka.ms/aks-naming-rules for more details."
    )
    return AzureError(400, "InvalidParameter", message, parameter)


def missing(parameter: str) -> AzureError:
    """A parameter that is required and absent."""
    return AzureError(400, "InvalidParameter", f"Required parameter {parameter} is missing (null).", parameter)
