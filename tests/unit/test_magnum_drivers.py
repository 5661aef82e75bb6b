"""What Magnum's drivers pass over, as far as the stack file tells it; what they refuse is in tests/unit/bad_stacks.py."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.stacks import GONE, magnum, plan_of


@pytest.mark.parametrize(
    ("driver", "pool", "template", "id_"),
    [
        ("capi-helm", {"image": "gpu"}, {}, "W80"),
        ("capi-helm", {"nodeGroupLabels": {"a": "b"}}, {}, "W80"),
        ("capi-helm", {}, {}, None),
        ("heat", {"image": "gpu"}, {}, None),
        ("magnum-cluster-api", {}, {}, "W81"),
        ("magnum-cluster-api", {"image": "gpu"}, {"networkDriver": "calico"}, None),
    ],
)
def test_what_a_driver_of_magnum_passes_over_is_told(
    driver: str, pool: dict[str, Any], template: dict[str, Any], id_: str | None
) -> None:
    made = {"image": "i", "externalNetwork": "n", "flavor": "f", **template}
    stack = magnum(pool, cluster={"driver": driver, "templateId": GONE, "template": made})
    warnings = " ".join(plan_of(stack).pools[0].warnings)
    assert re.findall(r"\((W8\d)\)", warnings) == ([id_] if id_ else [])


def test_everything_that_capi_helm_passes_over_is_named() -> None:
    stack = magnum({"image": "gpu", "dockerVolumeSize": 80, "nodeGroupLabels": {"a": "b"}}, cluster={"driver": "capi-helm"})
    (warning,) = [text for text in plan_of(stack).pools[0].warnings if "W80" in text]
    assert warning.endswith("passes over `image`, `dockerVolumeSize`, `nodeGroupLabels` (W80)")
