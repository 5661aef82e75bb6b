"""The section ``gpu-pools:verification``: whether, and how patiently, the nodes of all pools are verified after a deploy.

Only settings. What the verifier may do is in gpus/verifier_rights.py, its pods are in gpus/verifier_pods.py, and what a node must
be in gpus/node_expectation.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpus.section import Section

if TYPE_CHECKING:
    from gpus.errors import Problems

#: A tag, because a digest could not be looked up where this was written: sites that pin images give their own.
#: Of the Python that this project runs on, since the verifier then starts with the bytecode that was packed here.
DEFAULT_IMAGE: Final = "python:3.11.13-slim-bookworm"
#: The operator compiles a driver for some ten minutes; MIG may cost a reboot.
_DEADLINE_SECONDS: Final = 1200
_INTERVAL_SECONDS: Final = 300
_DAY_SECONDS: Final = 86_400
_LEAST_SECONDS: Final = 10


@dataclass(frozen=True)
class VerificationSettings:
    """How nodes are verified.

    Attributes:
        enabled: whether they are.
        deadline_seconds: how long a node may take to become what was declared, from the start of its verifier on.
        interval_seconds: between two assertions afterwards.
        image: Python 3.11 or newer with nothing else in it.
    """

    enabled: bool
    deadline_seconds: int = _DEADLINE_SECONDS
    interval_seconds: int = _INTERVAL_SECONDS
    image: str = DEFAULT_IMAGE


def parse_verification(value: object, path: str, problems: Problems) -> VerificationSettings:
    """The section; absent means that nothing is verified, an empty one that all pools are, with defaults."""
    if value is None:
        return VerificationSettings(enabled=False)
    section = Section(value, path, problems)
    enabled = section.flag("enabled")
    deadline = section.integer("deadlineSeconds", minimum=_LEAST_SECONDS, maximum=_DAY_SECONDS)
    interval = section.integer("intervalSeconds", minimum=_LEAST_SECONDS, maximum=_DAY_SECONDS)
    image = section.text(
        "image", pattern=r"[^\s@]+[:@]\S+", allowed="an image with a tag or digest, e.g. registry.example.com/python:3.12-slim"
    )
    section.finish()
    return VerificationSettings(
        enabled=enabled is not False,
        deadline_seconds=deadline or _DEADLINE_SECONDS,
        interval_seconds=interval or _INTERVAL_SECONDS,
        image=image or DEFAULT_IMAGE,
    )
