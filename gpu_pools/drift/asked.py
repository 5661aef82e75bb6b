"""Asks the engine: what a refresh would find, and what the programs of the state's resources have told it. It changes nothing.

Previews take no lock and write no state. Secrets are masked in the events and encrypted in the export.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.text import programs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: A refresh asks for each resource, at ten at a time.
_SECONDS: Final = 1500


class EngineError(Exception):
    """The engine could not be asked."""


def events_of(stack: str, config_file: Path | None) -> tuple[str, str]:
    """The events of a refresh of a stack, and what the engine said beside them where it failed, else ``""``.

    Args:
        stack: its name, as `pulumi --stack` takes it.
        config_file: of the stack, where it is not beside Pulumi.yaml.

    Raises:
        EngineError: where there is no engine, or it does not end.
    """
    more = [] if config_file is None else ["--config-file", str(config_file)]
    done = _run(["refresh", "--preview-only", "--json", "--non-interactive", "--stack", stack, *more])
    return done.text, "" if done.code == 0 else done.errors or f"it ended with {done.code}"


def preview_of(stack: str, config_file: Path | None) -> str:
    """The preview of a deploy of a stack, as one document.

    Args:
        stack: its name.
        config_file: of the stack, where it is not beside Pulumi.yaml.

    Raises:
        EngineError: where there is no engine, or the preview fails.
    """
    more = [] if config_file is None else ["--config-file", str(config_file)]
    done = _run(["preview", "--json", "--non-interactive", "--stack", stack, *more], streams="false")
    if done.code != 0:
        message = f"pulumi does not preview {stack}: {done.errors or done.code}"
        raise EngineError(message)
    return done.text


def export_of(stack: str) -> str:
    """The state of a stack, its secrets encrypted.

    Args:
        stack: its name.

    Raises:
        EngineError: where the engine does not tell it.
    """
    done = _run(["stack", "export", "--non-interactive", "--stack", stack])
    if done.code != 0:
        message = f"pulumi does not export {stack}: {done.errors or done.code}"
        raise EngineError(message)
    return done.text


def _run(arguments: Sequence[str], streams: str = "true") -> programs.Said:
    try:
        return programs.run(["pulumi", *arguments], _SECONDS, PULUMI_ENABLE_STREAMING_JSON_PREVIEW=streams)
    except programs.AbsentError:
        message = "there is no pulumi on PATH: install it, or give its events with --events FILE"
        raise EngineError(message) from None
    except programs.SilentError as error:
        message = f"pulumi does not answer: {error}"
        raise EngineError(message) from None
