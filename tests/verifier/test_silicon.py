"""What `export` said on a real H100 (SXM, driver 580.159.04, MIG off, idle), held against declarations.

Of the recording only the UUID and the bus address were replaced.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_pools.verifier.compare_gpus import compare_gpus
from gpu_pools.verifier.documents import read
from gpu_pools.verifier.expectation import Minimum, Profile
from gpu_pools.verifier.findings import Findings
from gpu_pools.verifier.reading import Gpu, Reading, why_illegal
from tests.verifier import nodes

RECORDED = json.loads((Path(__file__).parent / "readings" / "h100-80gb.json").read_text())
H100 = "h100-80gb"
UNKNOWN = Profile(id=None, other_names=(), starts=(), size=0)


def reading() -> Reading:
    return read(Reading, RECORDED["nvml"])


def causes(sharing: dict[str, Any], key: str = H100, **changes: Any) -> list[str]:
    expected = nodes.healthy(*nodes.plan_and_pool(sharing, key=key)).expected
    findings = Findings()
    # Which driver it had was nobody's declaration.
    compare_gpus(replace(expected, **{"driver": None, **changes}), reading(), findings)
    assert not findings.unknown
    return [finding.cause.key for finding in findings.differences]


@pytest.mark.parametrize("sharing", [{"exclusive": {}}, {"timeSlicing": {"replicas": 4}}])
def test_whole_and_time_sliced_gpus_pass(sharing: dict[str, Any]) -> None:
    assert causes(sharing) == []


def test_mig_mps_another_model_and_a_newer_driver_differ() -> None:
    assert causes({"mig": {"layout": {"1g.10gb": 7}}}) == ["mig-not-on"]
    assert causes({"mps": {"replicas": 4}}) == ["mps-mode-default"]
    assert causes({"exclusive": {}}, key="h200-141gb") == ["wrong-model"]
    assert causes({"exclusive": {}}, minimum=Minimum("580.159.04", "13.0")) == []
    assert causes({"exclusive": {}}, minimum=Minimum("580.160", "13.1")) == ["driver-old", "driver-old"]


def test_a_real_gpu_says_which_layouts_it_could_have_while_mig_is_off() -> None:
    gpus = reading().gpus
    assert isinstance(gpus, tuple)
    gpu: Gpu = gpus[0]
    assert isinstance(gpu.profiles, tuple)
    for layout, legal in (
        ({"1g.10gb": 7}, True),
        ({"3g.40gb": 1, "4g.40gb": 1}, True),
        ({"1g.20gb": 3, "1g.10gb": 1}, True),
        ({"1g.20gb": 4, "1g.10gb": 1}, False),
        ({"1g.5gb": 7}, False),
        ({"3g.40gb": 3}, False),
    ):
        assert (why_illegal(layout, gpu.profiles, dict.fromkeys(layout, UNKNOWN)) is None) == legal, layout
