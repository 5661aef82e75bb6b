"""The report that a verifier has left on its node, read from the annotation (gpu_pools/verifier/evidence.py writes it).

Whoever can write to a node can write anything there, so everything is checked before it is used, and sizes are bounded. The types
in gpu_pools/evidence/report_document.py are the document as it is written; msgspec holds a document against them and names the
first place that does not fit. Nothing here decides what a report means.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from gpu_pools.evidence.report_document import FindingDocument, GpuDocument, ReportDocument

API_VERSION: Final = "gpu-pools/v1"
KIND: Final = "NodeEvidence"
HOLDS: Final = "holds"
DIFFERS: Final = "differs"
CANNOT_TELL: Final = "cannot tell"
#: A verifier writes 16 KiB at most.
MOST_BYTES: Final = 16 * 1024
#: Of what msgspec says, which may quote the document.
_SHOWN: Final = 160


class ReportError(Exception):
    """A report that cannot be read; the text says why."""


@dataclass(frozen=True)
class Finding:
    """A difference, or a question that could not be answered; in words, but for what is expected and observed (JSON values).

    Those of a low rank explain those of a higher one.
    """

    where: str
    gpu: int | None
    field: str
    expected: Any
    observed: Any
    detail: str
    cause: str
    rank: int
    likely_cause: str
    remedy: str
    incidents: tuple[str, ...]


@dataclass(frozen=True)
class Instance:
    """A GPU instance: its profile, its first placement unit, how many it covers."""

    profile: str
    start: int
    size: int


@dataclass(frozen=True)
class Gpu:
    """A GPU as NVML shows it; MIG mode and compute mode in words."""

    index: int
    uuid: str
    name: str
    compute_mode: str
    mig: str
    instances: tuple[Instance, ...]


@dataclass(frozen=True)
class Report:
    """The whole report.

    Attributes:
        node: whose it is.
        pool: what it was held against.
        time: when.
        verdict: HOLDS, DIFFERS or CANNOT_TELL.
        interval_seconds: until the next one; None where there is none.
        expectation: SHA-256 of the asserted document.
        program: digest of the program that asserted; None where it ran from sources.
        differences: the most important first.
        cannot_tell: the same.
        versions: driver, nvml, cuda, python, and failure where the GPUs could not be read.
        mps: what the MPS daemon said, by name.
        gpus: by index.
        set_by: label or taint -> who has set it.
        devices: what the DRA driver announces, as resources -> count; empty with the device plugin.
        notes: remarks.
        omitted: how many of which kind the report had no room for.
        document: the whole as it was read.
    """

    node: str
    pool: str
    time: dt.datetime
    verdict: str
    interval_seconds: float | None
    expectation: str
    program: str | None
    differences: tuple[Finding, ...]
    cannot_tell: tuple[Finding, ...]
    versions: Mapping[str, str]
    mps: Mapping[str, str]
    gpus: tuple[Gpu, ...]
    set_by: Mapping[str, str]
    devices: Mapping[str, int]
    notes: tuple[str, ...]
    omitted: Mapping[str, int]
    document: Mapping[str, Any]


def parse_report(text: str) -> Report:
    """The annotation's value as a report.

    Raises:
        ReportError: where it is none.
    """
    import msgspec  # noqa: PLC0415 - it takes time, which commands that read no report save

    from gpu_pools.evidence.report_document import ReportDocument  # noqa: PLC0415 - the same

    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        message = f"it has {size} bytes, and a verifier writes {MOST_BYTES} at most"
        raise ReportError(message)
    try:
        document = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        message = f"it is not JSON: {error}"
        raise ReportError(message) from None
    try:
        return _report(msgspec.convert(document, ReportDocument), document)
    except (msgspec.ValidationError, UnicodeError, RecursionError) as error:
        message = f"it is not a report of this version: {str(error)[:_SHOWN]}"
        raise ReportError(message) from None


def _report(read: ReportDocument, document: Mapping[str, Any]) -> Report:
    observed = read.observed
    known = {"driver": observed.driver, "nvml": observed.nvml, "cuda": observed.cuda, "failure": observed.failure}
    return Report(
        node=read.node,
        pool=read.pool,
        time=read.time,
        verdict=read.verdict,
        interval_seconds=read.interval_seconds,
        expectation=read.expectation,
        program=read.program,
        differences=tuple(map(_finding, read.differences)),
        cannot_tell=tuple(map(_finding, read.cannot_tell)),
        versions={"python": read.python, **{key: version for key, version in known.items() if version is not None}},
        mps=dict(sorted((observed.mps or {}).items())),
        gpus=tuple(map(_gpu, observed.gpus)),
        set_by=dict(sorted(observed.set_by.items())),
        devices=dict(sorted(observed.devices.items())),
        notes=read.notes,
        omitted=dict(sorted(read.omitted.items())),
        document=document,
    )


def _finding(read: FindingDocument) -> Finding:
    return Finding(
        where=read.subject + (f" ({read.uuid})" if read.uuid is not None else ""),
        gpu=read.gpu,
        field=read.field,
        expected=read.expected,
        observed=read.observed,
        detail=read.detail,
        cause=read.cause,
        rank=read.rank,
        likely_cause=read.likely_cause,
        remedy=read.remedy,
        incidents=read.incidents,
    )


def _gpu(read: GpuDocument) -> Gpu:
    instances = tuple(Instance(*instance) for instance in read.instances)
    return Gpu(read.index, read.uuid, read.name, read.compute_mode, read.mig, instances)


def _no_number(text: str) -> float:
    message = f"{text} is not a number of JSON"
    raise ValueError(message)
