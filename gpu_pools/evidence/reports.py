"""The report that a verifier has left on its node, read from the annotation (gpu_pools/verifier/evidence.py writes it).

Whoever can write to a node can write anything there, so everything is checked before it is used, and sizes are bounded. What is
wrong with a report is said in one sentence; nothing here decides what that means.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

API_VERSION: Final = "gpu-pools/v1"
KIND: Final = "NodeEvidence"
HOLDS: Final = "holds"
DIFFERS: Final = "differs"
CANNOT_TELL: Final = "cannot tell"
#: A verifier writes 16 KiB at most.
MOST_BYTES: Final = 16 * 1024
_MOST_GPUS: Final = 64
_MOST_UNITS: Final = 64
_SHOWN: Final = 60


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
    notes: tuple[str, ...]
    omitted: Mapping[str, int]
    document: Mapping[str, Any]


def parse_report(text: str) -> Report:
    """The annotation's value as a report.

    Raises:
        ReportError: where it is none.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        message = f"it has {size} bytes, and a verifier writes {MOST_BYTES} at most"
        raise ReportError(message)
    try:
        document = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        message = f"it is not JSON: {error}"
        raise ReportError(message) from None
    if not isinstance(document, dict):
        raise ReportError("it is not a mapping")
    head = (document.get("apiVersion"), document.get("kind"))
    if head != (API_VERSION, KIND):
        message = f"apiVersion and kind are {_shown(head)}, not {API_VERSION} and {KIND}"
        raise ReportError(message)
    return _report(document)


def _report(document: dict[str, Any]) -> Report:
    observed = _mapping(document, "observed")
    verdict = _text(document, "verdict")
    if verdict not in {HOLDS, DIFFERS, CANNOT_TELL}:
        message = f"verdict is {_shown(verdict)}"
        raise ReportError(message)
    versions = {"python": _text(document, "python")}
    versions |= {key: _text(observed, key) for key in ("driver", "nvml", "cuda", "failure") if key in observed}
    interval = document.get("intervalSeconds")
    mps = observed.get("mps")
    return Report(
        node=_text(document, "node"),
        pool=_text(document, "pool"),
        time=_time(_text(document, "time")),
        verdict=verdict,
        interval_seconds=None if interval is None else _number(document, "intervalSeconds"),
        expectation=_text(document, "expectation"),
        program=None if document.get("program") is None else _text(document, "program"),
        differences=_findings(document, "differences"),
        cannot_tell=_findings(document, "cannotTell"),
        versions=versions,
        mps={} if mps is None else {key: _text(mps, key) for key in sorted(_mapping(observed, "mps"))},
        gpus=_gpus(observed),
        set_by={key: _text(marks, key) for marks in [_optional(observed, "setBy")] for key in sorted(marks)},
        notes=_texts(document, "notes"),
        omitted={key: int(_number(omitted, key)) for omitted in [_optional(document, "omitted")] for key in sorted(omitted)},
        document=document,
    )


def _findings(document: Mapping[str, Any], key: str) -> tuple[Finding, ...]:
    return tuple(_finding(one) for one in _items(document, key))


def _finding(one: Mapping[str, Any]) -> Finding:
    uuid = one.get("uuid")
    return Finding(
        where=_text(one, "subject") + (f" ({_text(one, 'uuid')})" if uuid is not None else ""),
        gpu=None if one.get("gpu") is None else int(_number(one, "gpu")),
        field=_text(one, "field"),
        expected=one.get("expected"),
        observed=one.get("observed"),
        detail=_text(one, "detail"),
        cause=_text(one, "cause"),
        # The verifier of a version before did not write it.
        rank=int(_number(one, "rank")) if "rank" in one else 0,
        likely_cause=_text(one, "likelyCause"),
        remedy=_text(one, "remedy"),
        incidents=_texts(one, "incidents"),
    )


def _gpus(observed: Mapping[str, Any]) -> tuple[Gpu, ...]:
    items = _items(observed, "gpus")
    if len(items) > _MOST_GPUS:
        message = f"it tells of {len(items)} GPUs"
        raise ReportError(message)
    return tuple(
        Gpu(
            index=int(_number(one, "index")),
            uuid=_text(one, "uuid"),
            name=_text(one, "name"),
            compute_mode=_text(one, "computeMode"),
            mig=_text(one, "mig"),
            instances=_instances(one.get("instances")),
        )
        for one in items
    )


def _instances(value: object) -> tuple[Instance, ...]:
    if not isinstance(value, list) or len(value) > _MOST_UNITS:
        message = f"instances are {_shown(value)}"
        raise ReportError(message)
    found = []
    for one in value:
        match one:
            case [str(profile), int(start), int(size)] if 0 <= start < _MOST_UNITS and 0 < size <= _MOST_UNITS:
                found.append(Instance(profile, start, size))
            case _:
                message = f"an instance is {_shown(one)}"
                raise ReportError(message)
    return tuple(found)


# --- values of a kind ---------------------------------------------------------------------------------------


def _text(document: Mapping[str, Any], key: str) -> str:
    return str(_of(document, key, str, "text"))


def _texts(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = _of(document, key, list, "a list")
    if not all(isinstance(value, str) for value in values):
        message = f"{key} holds something else than text"
        raise ReportError(message)
    return tuple(values)


def _number(document: Mapping[str, Any], key: str) -> float:
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 10**9:
        message = f"{key} is {_shown(value)}, not a number"
        raise ReportError(message)
    return value


def _mapping(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _of(document, key, dict, "a mapping")
    return found


def _optional(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return _mapping(document, key) if key in document else {}


def _items(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    values = _of(document, key, list, "a list")
    if not all(isinstance(value, dict) for value in values):
        message = f"{key} holds something else than mappings"
        raise ReportError(message)
    return list(values)


def _of(document: Mapping[str, Any], key: str, kind: type, words: str) -> Any:  # noqa: ANN401 - of that kind
    value = document.get(key)
    if not isinstance(value, kind):
        message = f"{key} is {_shown(value)}, not {words}"
        raise ReportError(message)
    return value


def _time(text: str) -> dt.datetime:
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        message = f"time is {_shown(text)}, not RFC 3339"
        raise ReportError(message)
    return time


def _no_number(text: str) -> float:
    message = f"{text} is not a number of JSON"
    raise ValueError(message)


def _shown(value: object) -> str:
    return "missing" if value is None else f"{value!r:.{_SHOWN}}"
