"""Refusals of Azure, in the shape in which the azure-native provider prints what ARM answered."""

from __future__ import annotations

from sandbox.clouds.refusal import Refusal


class AzureError(Refusal):
    """A refusal in the shape in which the azure-native provider prints what ARM answered.

    Attributes:
        status: the HTTP status.
        code: ARM's error code.
        message: what it says.
    """

    def __init__(self, status: int, code: str, message: str, target: str = "") -> None:
        text = f'Code="{code}" Message="{message}"'
        super().__init__(f'{text} Target="{target}"' if target else text)
        self.status = status
        self.code = code
        self.message = message


def invalid(parameter: str, details: str = "") -> AzureError:
    """A value that the service does not take (seen: with and without details)."""
    middle = f" Error details: {details.rstrip('.')}." if details else ""
    message = (
        f"The value of parameter {parameter} is invalid.{middle} Please see https://aka.ms/aks-naming-rules for more details."
    )
    return AzureError(400, "InvalidParameter", message, parameter)


def missing(parameter: str) -> AzureError:
    """A parameter that is required and absent (seen)."""
    return AzureError(400, "InvalidParameter", f"Required parameter {parameter} is missing (null).", parameter)
