"""``needs.memoryPerReplica`` where it fits, where it is close, where it cannot be known. More refusals are in bad_stacks.py."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_pools.plan.checks import CONTEXT_MIB, MPS_CONTEXT_MIB
from gpu_pools.plan.document import pool_json
from gpu_pools.text.errors import InvalidStackError
from tests.unit.stacks import TWO_A100, aks, existing, pool_of

#: MiB of an A100 80GB.
A100_MIB = 81920


def _warnings(need: str, sharing: dict[str, Any], pool: dict[str, Any] | None = None, *, key: str = "") -> list[str]:
    declared = {"x": {**sharing, "needs": {"memoryPerReplica": need}}}
    stack = existing({"gpuModel": key}, sharing=declared) if key else aks(pool, sharing=declared)
    return [text for text in pool_of(stack).warnings if "memory" in text or "CUDA context" in text]


@pytest.mark.parametrize(
    ("need", "sharing"),
    [
        ("70Gi", {"exclusive": {}}),
        ("16Gi", {"timeSlicing": {"replicas": 4}}),
        ("7Gi", {"mps": {"replicas": 10}}),
        ("9000Mi", {"mig": {"layout": {"1g.10gb": 7}}}),
        ("9Gi", {"mig": {"layout": {"3g.40gb": 2}, "timeSlicing": {"replicas": 4}}}),
    ],
    ids=str,
)
def test_what_fits_is_not_mentioned(need: str, sharing: dict[str, Any]) -> None:
    assert _warnings(need, sharing) == []


@pytest.mark.parametrize(
    ("mib", "sharing", "context"),
    [
        (A100_MIB, {"exclusive": {}}, CONTEXT_MIB),
        (A100_MIB // 4, {"timeSlicing": {"replicas": 4}}, CONTEXT_MIB),
        (A100_MIB // 10, {"mps": {"replicas": 10}}, MPS_CONTEXT_MIB),
        (19968 // 2, {"mig": {"layout": {"2g.20gb": 3}, "timeSlicing": {"replicas": 2}}}, CONTEXT_MIB),
    ],
    ids=str,
)
def test_a_budget_is_refused_above_its_share_and_doubted_where_the_context_needs_the_rest(
    mib: int, sharing: dict[str, Any], context: int
) -> None:
    assert _warnings(f"{mib - context}Mi", sharing) == []
    for need in (mib - context + 1, mib):
        (warning,) = _warnings(f"{need}Mi", sharing)
        assert f"beside {need} MiB little is left for the CUDA context, which took {context} MiB" in warning
    with pytest.raises(InvalidStackError, match=f"at most {mib}Mi there"):
        _warnings(f"{mib + 1}Mi", sharing)


@pytest.mark.parametrize(
    ("mib", "sharing", "remedy"),
    [
        (A100_MIB // 2, {"timeSlicing": {"replicas": 3}}, "Use at most 2 replicas, or a GPU with more memory."),
        (
            A100_MIB // 2 + 1,
            {"timeSlicing": {"replicas": 3}},
            "Use a larger MIG profile or GPU, fewer replicas, or a smaller budget.",
        ),
        (A100_MIB + 1, {"exclusive": {}}, "Use a larger MIG profile or GPU, fewer replicas, or a smaller budget."),
    ],
    ids=str,
)
def test_replicas_are_advised_where_more_than_one_would_fit(mib: int, sharing: dict[str, Any], remedy: str) -> None:
    with pytest.raises(InvalidStackError, match=re.escape(remedy)):
        _warnings(f"{mib}Mi", sharing)


def test_a_gpu_that_stays_whole_counts_as_a_whole() -> None:
    groups = [{"index": 0, "layout": {"7g.80gb": 1}}, {"index": 1, "layout": {}}]
    assert _warnings("60Gi", {"mig": {"gpus": groups}}, {"vmSize": TWO_A100}) == []
    with pytest.raises(InvalidStackError, match=r"7g\.80gb of a100-80gb has 80896 MiB"):
        _warnings("80900Mi", {"mig": {"gpus": groups}}, {"vmSize": TWO_A100})


@pytest.mark.parametrize(
    ("key", "sharing", "what"),
    [
        ("v100-16gb", {"timeSlicing": {"replicas": 4}}, "v100-16gb"),
        ("b200-180gb", {"mig": {"layout": {"3g.90gb": 2}}}, "3g.90gb of b200-180gb"),
        ("a800-80gb", {"mig": {"layout": {"1g.10gb": 7}}}, "1g.10gb of a800-80gb"),
        ("rtx-pro-5000-blackwell", {"mig": {"layout": {"1g.24gb": 2}}}, "1g.24gb of rtx-pro-5000-blackwell"),
    ],
)
def test_unknown_memory_is_said(key: str, sharing: dict[str, Any], what: str) -> None:
    said = f"the memory of {what} is unknown: memoryPerReplica cannot be checked before the deploy"
    assert _warnings("999Gi", sharing, key=key) == [said]


def test_needs_change_nothing_that_is_rendered() -> None:
    sharing = {"mig": {"layout": {"1g.10gb": 7}}}
    plain, needy = (pool_of(aks(sharing={"x": {**sharing, **more}})) for more in ({}, {"needs": {"memoryPerReplica": "1Gi"}}))
    assert (plain.config_key, plain.mig_config_key, plain.labels) == (needy.config_key, needy.mig_config_key, needy.labels)
    assert pool_json(needy)["sharing"]["needs"] == {"memoryPerReplica": "1024Mi"}
    assert "needs" not in pool_json(plain)["sharing"]


@given(st.integers(2, 48), st.integers(1, 100_000))
def test_what_fits_n_replicas_fits_fewer(replicas: int, mib: int) -> None:
    for strategy in ("timeSlicing", "mps"):
        if mib * replicas > A100_MIB:
            with pytest.raises(InvalidStackError):
                _warnings(f"{mib}Mi", {strategy: {"replicas": replicas}})
        else:
            _warnings(f"{mib}Mi", {strategy: {"replicas": max(2, replicas // 2)}})
