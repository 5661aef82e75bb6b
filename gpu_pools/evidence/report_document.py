"""The report of a verifier as it is written into the annotation, for msgspec: types alone.

A module of its own, since msgspec takes some 30 ms to load and only who reads reports needs it. What the fields mean says
gpu_pools/evidence/reports.py, which reads documents by these types.
"""

from __future__ import annotations

import datetime as dt  # noqa: TC003 - msgspec reads the types below
from collections.abc import Mapping  # noqa: TC003 - the same
from typing import Annotated, Any, Final, Literal

import msgspec

_MOST_GPUS: Final = 64
_MOST_UNITS: Final = 64
_Count = Annotated[int, msgspec.Meta(ge=0, lt=10**9)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, lt=10**9)]
_Start = Annotated[int, msgspec.Meta(ge=0, lt=_MOST_UNITS)]
_Size = Annotated[int, msgspec.Meta(gt=0, le=_MOST_UNITS)]


class FindingDocument(msgspec.Struct, rename="camel"):
    """A difference, or a question that could not be answered."""

    subject: str
    field: str
    detail: str
    cause: str
    likely_cause: str
    remedy: str
    incidents: tuple[str, ...]
    expected: Any = None
    observed: Any = None
    uuid: str | None = None
    gpu: _Count | None = None
    #: The verifier of a version before did not write it.
    rank: _Count = 0


class GpuDocument(msgspec.Struct, rename="camel"):
    """A GPU as NVML shows it."""

    index: _Count
    uuid: str
    name: str
    compute_mode: str
    mig: str
    instances: Annotated[tuple[tuple[str, _Start, _Size], ...], msgspec.Meta(max_length=_MOST_UNITS)]


class ObservedDocument(msgspec.Struct, rename="camel"):
    """What the node showed."""

    gpus: Annotated[tuple[GpuDocument, ...], msgspec.Meta(max_length=_MOST_GPUS)]
    driver: str | None = None
    nvml: str | None = None
    cuda: str | None = None
    failure: str | None = None
    mps: Mapping[str, str] | None = None
    set_by: Mapping[str, str] = {}
    devices: Mapping[str, _Count] = {}


class ReportDocument(msgspec.Struct, rename="camel"):
    """The whole annotation."""

    api_version: Literal["gpu-pools/v1"]
    kind: Literal["NodeEvidence"]
    node: str
    pool: str
    time: Annotated[dt.datetime, msgspec.Meta(tz=True)]
    verdict: Literal["holds", "differs", "cannot tell"]
    expectation: str
    python: str
    differences: tuple[FindingDocument, ...]
    cannot_tell: tuple[FindingDocument, ...]
    observed: ObservedDocument
    notes: tuple[str, ...]
    interval_seconds: _Seconds | None = None
    program: str | None = None
    omitted: Mapping[str, _Count] = {}
