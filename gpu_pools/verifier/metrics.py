"""The last assertion for Prometheus, text format 0.0.4: the verdict, and what was declared and found as numbers. Decides nothing.

No series names a node, an address or a GPU's UUID: whoever scrapes knows which pod it asked, and the port is open to whoever
reaches it. What could not be read has no series: a missing one is not a zero. The number of series is bounded by the
declaration: 7 for the verdict and the assertion, one for each cause that was found, two for each resource, one for each
declared or found profile of each GPU.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

from .findings import Verdict
from .reading import Failed, Reading, instances_by_profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .expectation import ClaimsExpectation, Expectation
    from .node import ClaimsReading, NodeReading
    from .observation import Assertion, Observation

_VERDICTS: Final = (Verdict.HOLDS, Verdict.DIFFERS, Verdict.CANNOT_TELL)


def metrics(expected: Expectation, assertion: Assertion, *, finished: float, runs: int) -> str:
    """The text.

    Args:
        expected: the expectation.
        assertion: the last one.
        finished: when it ended, seconds since the epoch.
        runs: how many assertions there were.
    """
    lines = [*_verdict(expected, assertion), *_devices(expected, assertion), *_instances(expected, assertion)]
    pool = {"pool": expected.pool}
    last = "gpu_pools_last_assertion_timestamp_seconds"
    lines += _family(last, "gauge", "When the last assertion ended.", [(pool, f"{finished:.3f}")])
    took = f"{assertion.seconds:.3f}"
    lines += _family("gpu_pools_assertion_seconds", "gauge", "How long the last assertion took.", [(pool, took)])
    lines += _family("gpu_pools_assertions_total", "counter", "How many assertions there were.", [(pool, runs)])
    return "\n".join(lines) + "\n"


def _verdict(expected: Expectation, assertion: Assertion) -> Iterator[str]:
    pool, verdict = expected.pool, assertion.findings.verdict
    about = "Whether the node is as its pool declares."
    yield from _family("gpu_pools_verified", "gauge", about, [({"pool": pool}, int(verdict is Verdict.HOLDS))])
    verdicts = [({"pool": pool, "verdict": one.text}, int(one is verdict)) for one in _VERDICTS]
    yield from _family("gpu_pools_verdict", "gauge", "The verdict of the last assertion.", verdicts)
    causes = Counter(finding.cause.key for finding in assertion.findings.differences)
    counted = [({"pool": pool, "cause": cause}, count) for cause, count in sorted(causes.items())]
    yield from _family("gpu_pools_differences", "gauge", "Differences by likely cause.", counted)


def _devices(expected: Expectation, assertion: Assertion) -> Iterator[str]:
    """What Kubernetes must offer, and what it offers: by the device plugin, or by the DRA driver."""
    claims = expected.node.claims if expected.node else None
    declared = _declared_by_claims(claims) if claims else expected.node.allocatable if expected.node else {}
    about = "Devices of each resource that the node must advertise."
    yield from _family("gpu_pools_declared_devices", "gauge", about, _by_resource(expected, declared))
    found = _offered(claims, assertion.observation.node)
    if found is not None:
        # A resource that was declared and is not there is a zero that was read.
        about = "Devices of each resource that the node advertises."
        counts = {**dict.fromkeys(declared, 0), **found}
        yield from _family("gpu_pools_allocatable_devices", "gauge", about, _by_resource(expected, counts))


def _offered(claims: ClaimsExpectation | None, node: NodeReading | None) -> Mapping[str, int] | None:
    """Shares of each resource; None: not read."""
    if node is None or node.failure is not None:
        return None
    return _announced(claims, node.claims) if claims else node.allocatable


def _declared_by_claims(claims: ClaimsExpectation) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for one in claims.devices:
        counts[one.resource] += one.count * (one.shares or 1)
    return counts


def _announced(claims: ClaimsExpectation, found: ClaimsReading | None) -> Mapping[str, int] | None:
    """Shares in the ResourceSlices by resource; of devices that no declared class has, nothing. None: not read."""
    if found is None or not isinstance(found.devices, tuple):
        return None
    counts: Counter[str] = Counter()
    for resource, device in found.by_resource(claims):
        if resource is not None:
            counts[resource] += device.capacity
    return counts


def _by_resource(expected: Expectation, counts: Mapping[str, int]) -> list[tuple[Mapping[str, str], int]]:
    return [({"pool": expected.pool, "resource": resource}, count) for resource, count in sorted(counts.items())]


def _instances(expected: Expectation, assertion: Assertion) -> Iterator[str]:
    """The MIG layout of each GPU, declared and found."""
    declared = {gpu.index: gpu.instances for gpu in expected.gpus if gpu.instances}
    if not declared:
        return
    about = "MIG instances of each profile that a GPU must have."
    yield from _family("gpu_pools_declared_mig_instances", "gauge", about, _by_profile(expected, declared))
    found = _found(expected, assertion.observation)
    about = "MIG instances of each profile that a GPU has."
    yield from _family("gpu_pools_mig_instances", "gauge", about, _by_profile(expected, found))


def _found(expected: Expectation, observation: Observation) -> dict[int, Mapping[str, int]]:
    """The layouts that could be read, with a zero for a profile that is declared and not there."""
    if not isinstance(observation.nvml, Reading) or isinstance(observation.nvml.gpus, Failed):
        return {}
    declared = {gpu.index: gpu.instances for gpu in expected.gpus}
    return {
        gpu.index: {**dict.fromkeys(declared.get(gpu.index, ()), 0), **instances_by_profile(gpu, expected.profiles)}
        for gpu in observation.nvml.gpus
        if not isinstance(gpu.instances, Failed)
    }


def _by_profile(expected: Expectation, layouts: Mapping[int, Mapping[str, int]]) -> list[tuple[Mapping[str, str], int]]:
    return [
        ({"pool": expected.pool, "gpu": str(index), "profile": profile}, count)
        for index, layout in sorted(layouts.items())
        for profile, count in sorted(layout.items())
    ]


def _family(name: str, kind: str, about: str, samples: Iterable[tuple[Mapping[str, str], object]]) -> Iterator[str]:
    """One metric: its help, its type, its samples."""
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        yield f"{name}{_labels(labels)} {value}"


def _labels(labels: Mapping[str, str]) -> str:
    # JSON escapes quotes, backslashes and line breaks as the text format does.
    return "{" + ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items()) + "}"
