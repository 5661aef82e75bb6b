"""Outputs among arguments whose settings are read as texts: out before they are read, back among a resource's inputs.

What is only placed, an id of a subnet or a tag, may be an Output, also one that a preview does not know. Whatever looks into a
text refuses it there, with its place.
"""

from typing import Any

import pulumi

from gpu_pools.reading.later import Later


def put_off(written: Any) -> Any:  # noqa: ANN401 - as it was written, in its shape
    """The same, with a text for each Output."""
    if isinstance(written, pulumi.Output):
        return Later(written)
    if isinstance(written, dict):
        return {key: put_off(value) for key, value in written.items()}
    return [put_off(entry) for entry in written] if isinstance(written, list) else written


def put_back(inputs: Any) -> Any:  # noqa: ANN401 - as `put_off`
    """The same, with the Outputs that such texts stand for."""
    if isinstance(inputs, Later):
        return inputs.output
    if isinstance(inputs, dict):
        return {key: put_back(value) for key, value in inputs.items()}
    return [put_back(entry) for entry in inputs] if isinstance(inputs, list) else inputs
