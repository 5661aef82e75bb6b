"""What an assertion leaves on the node: a condition for whoever looks there, and an annotation for whoever collects reports.

**The condition** GpuSharingVerified. True: the last assertion held. False: the node differs. Unknown: it could not be told. The
message is the line of the termination message, the heartbeat the time of the assertion. Beside it, in the same request and with
the same time, goes the annotation: a status may be patched together with annotations, and one request costs the API half of
two. Nothing is decided by the write: where it is refused the verdict stays what it is, and the reason is told.

**The annotation** is a short JSON document. It says what was found and what was seen, and by what: which expectation and which
program, so that a report about something else than what is deployed can be told apart. A node object is read by many and often,
so the document is bounded: what is most important goes in first, long texts are cut, and what did not fit is counted. The whole
report is `assert --json`.

**The program** is named by the digest by which a deploy names it, found again in the file that runs. It is that of the sources,
not of the file's bytes: these depend on the compression and the bytecode of whoever built it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .api import ApiError
from .findings import Verdict, ordered
from .names import moment
from .reading import Failed, Hung, Mode, Reading, Unreadable, instance_name, profiles_by_id
from .report import API_VERSION, finding_json, shown, termination_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .expectation import Expectation
    from .expectation import Profile as Described
    from .mps import MpsReading
    from .node import NodeReader
    from .observation import Assertion, Observation
    from .reading import Gpu

# --- the condition ------------------------------------------------------------------------------------------------

CONDITION: Final = "GpuSharingVerified"
_STATUS: Final = {Verdict.HOLDS: "True", Verdict.DIFFERS: "False", Verdict.CANNOT_TELL: "Unknown"}
_REASON: Final = {Verdict.HOLDS: "AsDeclared", Verdict.DIFFERS: "Differs", Verdict.CANNOT_TELL: "CannotTell"}
#: A node object is read by many and often.
_MOST_BYTES: Final = 1024


def mark(node: NodeReader, origin: Origin, expected: Expectation, assertion: Assertion) -> str | None:
    """Write condition and annotation; returns what of it was not possible and why, None where all was."""
    now = moment()
    path = f"/api/v1/nodes/{node.name}"
    metadata = {"annotations": {ANNOTATION: evidence(expected, assertion, origin, node=node.name, at=now)}}
    try:
        conditions = (node.api.get(path).get("status") or {}).get("conditions") or []
        # Merged by type: the conditions of others stay as they are, whoever writes them meanwhile.
        status = {"conditions": [_condition(expected, assertion, conditions, now)]}
        try:
            node.api.patch(f"{path}/status", {"metadata": metadata, "status": status})
        except ApiError as error:
            if error.status is None:
                raise
            node.api.patch(f"{path}/status", {"status": status})
            return f"the annotation {ANNOTATION} cannot be written: {error}"
    except ApiError as error:
        return f"the condition {CONDITION} cannot be written: {error}"
    return None


def _condition(expected: Expectation, assertion: Assertion, conditions: list[dict[str, Any]], now: str) -> dict[str, Any]:
    verdict = assertion.findings.verdict
    before: dict[str, Any] = next((one for one in conditions if one.get("type") == CONDITION), {})
    same = before.get("status") == _STATUS[verdict]
    return {
        "type": CONDITION,
        "status": _STATUS[verdict],
        "reason": _REASON[verdict],
        "message": termination_message(expected, assertion, _MOST_BYTES),
        "lastHeartbeatTime": now,
        "lastTransitionTime": before.get("lastTransitionTime", now) if same else now,
    }


# --- the annotation -----------------------------------------------------------------------------------------------

ANNOTATION: Final = "gpu-pools/verification"
KIND: Final = "NodeEvidence"
#: Of the value. All annotations of an object together may have 256 KiB.
MOST_BYTES: Final = 16 * 1024
_MOST_CHARACTERS: Final = 300
_NAME_CHARACTERS: Final = 80
_SWITCH: Final = {0: "disabled", 1: "enabled"}
#: For "omitted" with its counts.
_RESERVE: Final = 160


@dataclass(frozen=True)
class Origin:
    """Who asserts what.

    Attributes:
        expectation: SHA-256 of the expectation's file.
        program: digest of the verifier; None where it runs from sources.
        interval_seconds: until the next assertion; None for one that has no next.
    """

    expectation: str
    program: str | None
    interval_seconds: float | None


def evidence(expected: Expectation, assertion: Assertion, origin: Origin, *, node: str, at: str) -> str:
    """The annotation's value: ASCII, at most MOST_BYTES.

    Args:
        expected: what was asserted.
        assertion: what came of it.
        origin: by what.
        node: its name.
        at: when, RFC 3339.
    """
    findings, seen = assertion.findings, assertion.observation
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "node": node,
        "pool": expected.pool,
        "time": at,
        "verdict": findings.verdict.text,
        "intervalSeconds": origin.interval_seconds,
        "expectation": origin.expectation,
        "program": origin.program,
        "python": ".".join(map(str, sys.version_info[:3])),
        "differences": [],
        "cannotTell": [],
        "observed": {**_versions(seen), "mps": _mps(seen.mps), "allocatable": {}, "setBy": {}, "gpus": []},
        "notes": [],
    }
    observed = document["observed"]
    if devices := _devices(expected, seen):
        # As reports were before there were claims, on nodes without.
        observed["devices"] = devices
    parts: list[tuple[str, Any, Any]] = [
        *(("differences", document["differences"], _finding(one)) for one in ordered(findings.differences)),
        *(("cannotTell", document["cannotTell"], _finding(one)) for one in ordered(findings.unknown)),
        *(("allocatable", observed["allocatable"], item) for item in _allocatable(seen)),
        *(("gpus", observed["gpus"], one) for one in _gpus(seen, expected.profiles)),
        *(("setBy", observed["setBy"], item) for item in _set_by(seen)),
        *(("notes", document["notes"], _cut(note)) for note in findings.notes),
    ]
    omitted = _fill(parts, MOST_BYTES - _RESERVE - len(_compact(document)))
    return _compact({**document, "omitted": omitted} if omitted else document)


def _fill(parts: list[tuple[str, Any, Any]], room: int) -> dict[str, int]:
    """Put each part where it belongs as long as there is room; returns how many of each kind did not fit."""
    omitted: Counter[str] = Counter()
    for kind, place, part in parts:
        room -= len(_compact(part)) + 1
        # Nothing less important takes the place of what did not fit.
        if room < 0:
            omitted[kind] += 1
        elif isinstance(place, dict):
            place.update(part)
        else:
            place.append(part)
    return dict(omitted)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _finding(finding: Any) -> dict[str, Any]:  # noqa: ANN401 - a finding, whose values are anything
    written = finding_json(finding)
    for key in ("expected", "observed"):
        if len(_compact(written[key])) > _MOST_CHARACTERS:
            written[key] = _cut(shown(written[key]))
    return {key: _cut(value) if isinstance(value, str) else value for key, value in written.items()}


def _cut(text: str, most: int = _MOST_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _versions(seen: Observation) -> dict[str, Any]:
    nvml = seen.nvml
    if isinstance(nvml, Hung):
        return {"failure": f"NVML did not answer within {nvml.seconds:g} s"}
    if isinstance(nvml, Unreadable):
        return {"failure": _cut(nvml.reason)}
    failure = nvml.failure or (nvml.gpus if isinstance(nvml.gpus, Failed) else None)
    versions = {"driver": str(nvml.driver), "nvml": str(nvml.nvml), "cuda": str(nvml.cuda)}
    return {**({"failure": _cut(str(failure))} if failure else {}), **{key: _cut(text) for key, text in versions.items()}}


def _mps(reading: MpsReading | None) -> dict[str, Any] | None:
    if reading is None:
        return None
    if reading.failure is not None:
        return {"failure": _cut(reading.failure)}
    limits = sorted(set(reading.memory_limits))
    return {"activeThreadPercentage": _cut(reading.percentage, _NAME_CHARACTERS), "memoryLimits": _cut(", ".join(limits))}


def _allocatable(seen: Observation) -> Iterator[dict[str, int]]:
    if seen.node is not None:
        yield from ({name: count} for name, count in seen.node.allocatable.items())


def _devices(expected: Expectation, seen: Observation) -> dict[str, int]:
    """What the DRA driver announces, as the resources by which pods ask for it; what nobody declared has its type."""
    claims = expected.node.claims if expected.node else None
    found = seen.node.claims if seen.node else None
    if claims is None or found is None:
        return {}
    counts: Counter[str] = Counter()
    for resource, device in found.by_resource(claims):
        counts[resource or f"device {_cut(device.type, _NAME_CHARACTERS)}"] += device.capacity
    return dict(sorted(counts.items()))


def _set_by(seen: Observation) -> Iterator[dict[str, str]]:
    if seen.node is not None:
        yield from ({_cut(what): _cut(who, _NAME_CHARACTERS)} for what, who in seen.node.set_by.items())


def _gpus(seen: Observation, described: Mapping[str, Described]) -> Iterator[dict[str, Any]]:
    if not isinstance(seen.nvml, Reading) or isinstance(seen.nvml.gpus, Failed):
        return
    for gpu in seen.nvml.gpus:
        yield {
            "index": gpu.index,
            "uuid": _cut(str(gpu.uuid), _NAME_CHARACTERS),
            "name": _cut(str(gpu.name), _NAME_CHARACTERS),
            "computeMode": _cut(str(gpu.compute_mode), _NAME_CHARACTERS),
            "mig": _cut(_mig(gpu), _NAME_CHARACTERS),
            # Profile, first placement unit, number of units.
            "instances": _instances(gpu, described),
        }


def _mig(gpu: Gpu) -> str:
    if not isinstance(gpu.mig, Mode):
        return "unsupported" if gpu.mig.error == "NOT_SUPPORTED" else str(gpu.mig)
    current, pending = (_SWITCH.get(mode, str(mode)) for mode in (gpu.mig.current, gpu.mig.pending))
    return current if current == pending else f"{current}, {pending} pending"


def _instances(gpu: Gpu, described: Mapping[str, Described]) -> list[tuple[str, int, int]]:
    if isinstance(gpu.instances, Failed):
        return []
    profiles = profiles_by_id(gpu)
    placed = ((instance_name(one, profiles, described), one.start, one.size) for one in gpu.instances)
    return sorted(placed, key=lambda one: (one[1], one))


# --- the program --------------------------------------------------------------------------------------------------


def digest_of(entries: Iterable[tuple[str, bytes]]) -> str:
    """SHA-256, in hexadecimal, of (name, content) pairs sorted by name."""
    digest = hashlib.sha256()
    for name, content in entries:
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def own_digest(file: Path = Path(__file__).parents[1]) -> str | None:
    """The digest of the file that this module was loaded from; None where that is not a file but a folder of sources.

    Raises:
        OSError: when it cannot be read any more.
    """
    if not file.is_file():
        return None
    import zipfile  # noqa: PLC0415 - only who writes to the node needs it, and it takes time to load

    with zipfile.ZipFile(file) as packed:
        sources = sorted(name for name in packed.namelist() if not name.endswith(".pyc"))
        return digest_of((name, packed.read(name)) for name in sources)
