"""The operator's last minor versions, and one of the user's own: what a plan makes of each, refuses and warns of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.hardware.operands import OPERANDS, documented_kubernetes
from gpu_pools.stack.charts import VERSIONS, check_values
from gpu_pools.text.errors import InvalidStackError, Problems
from tests.unit.stacks import aks, existing, plan_of

if TYPE_CHECKING:
    from pathlib import Path

EACH = VERSIONS["gpu-operator"]


def warnings(config: Any) -> str:
    return "\n".join(plan_of(config).pools[0].warnings)


def test_the_last_four_minor_versions_can_be_declared() -> None:
    minors = [tuple(map(int, version.removeprefix("v").split(".")[:2])) for version in EACH]
    assert minors == sorted({*minors}, reverse=True)
    assert len(minors) >= 4


@pytest.mark.parametrize("version", EACH)
@pytest.mark.parametrize("stack", [aks, existing])
def test_a_plan_writes_no_value_that_the_chart_lacks(version: str, stack: Any) -> None:
    plan = plan_of(stack(operator={"version": version}))
    problems = Problems()
    check_values(plan.operator_values, "gpu-operator", version, "v", problems)
    assert not problems.found
    assert set(plan.settings.operator.chart.operands) == set(OPERANDS)
    assert documented_kubernetes(version) is not None


def test_a_chart_without_hooks_leaves_the_nodes_as_they_are_and_says_so() -> None:
    assert "nothing cleans the nodes" in warnings(existing(operator={"version": "v25.10.1"}))
    assert "nothing cleans the nodes" not in warnings(existing(operator={"version": "v26.3.3"}))
    assert "nothing cleans the nodes" not in warnings(aks(operator={"version": "v25.10.1"}))


@pytest.mark.parametrize(("kubernetes", "said"), [("1.36", True), ("1.33", False), ("1.29", False), ("1.28", True)])
def test_kubernetes_beyond_what_is_documented_is_told(kubernetes: str, *, said: bool) -> None:
    text = warnings(aks(cluster={"kubernetesVersion": kubernetes}, operator={"version": "v25.3.4"}))
    assert ("v25.3.4 is documented for Kubernetes 1.29 to 1.33" in text) is said


def test_an_older_chart_s_plugin_counts_as_an_overridden_one() -> None:
    shared: Any = {"whole": {"mps": {"replicas": 4, "failRequestsGreaterThanOne": False}}}
    plan = plan_of(aks(sharing=shared, operator={"version": "v25.10.1"}))
    assert "device plugin v0.18.1 forces failRequestsGreaterThanOne" in "\n".join(plan.pools[0].warnings)
    assert not plan_of(aks(sharing=shared)).pools[0].refuses_two


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """What `helm show values` might print of a chart of the future."""
    file = tmp_path / "values.yaml"
    values = {
        "devicePlugin": {"version": "v0.21.0", "config": {"create": False, "name": "", "default": ""}, "turbo": False},
        "gfd": {"version": "v0.21.0"},
        "migManager": {"enabled": True, "version": "v0.16.0", "env": [], "config": {"create": False, "name": "", "default": ""}},
        "driver": {"version": "600.10.01", "enabled": True},
    }
    file.write_text(yaml.safe_dump(values))
    return file


def test_a_file_of_one_s_own_says_what_another_version_knows_and_brings(own: Path) -> None:
    operator = {"version": "v26.11.0", "valuesFile": str(own), "values": {"devicePlugin": {"turbo": True}}}
    plan = plan_of(aks(operator=operator))
    chart = plan.settings.operator.chart
    assert (chart.version, chart.operands["driver"]) == ("v26.11.0", "600.10.01")
    assert plan.operator_values["devicePlugin"]["turbo"] is True
    assert "v26.11.0 is known by its default values alone" in "\n".join(plan.pools[0].warnings)


@pytest.mark.parametrize(("brings", "said"), [("600.10.01", False), ("600.10.01-ubuntu24.04", True), (None, True)])
def test_a_driver_that_such_a_file_does_not_tell_is_not_demanded(own: Path, brings: str | None, said: bool) -> None:  # noqa: FBT001
    values = yaml.safe_load(own.read_text())
    values["driver"]["version"] = brings
    own.write_text(yaml.safe_dump(values))
    operator = {"version": "v26.11.0", "valuesFile": str(own)}
    told = "which driver gpu-operator v26.11.0 brings is not known, so the verifiers demand none"
    assert (told in warnings(aks(operator=operator, verification={}))) is said
    assert told not in warnings(aks(operator={**operator, "values": {"driver": {"version": "600.1"}}}, verification={}))
    assert told not in warnings(aks(operator={**operator, "driver": "preinstalled"}, verification={}))
    assert told not in warnings(aks(operator=operator)), "nobody demands any"


def test_drivers_that_are_replaced_by_hand_are_not_demanded_and_that_is_said() -> None:
    by_hand: dict[str, Any] = {"driver": {"upgradePolicy": {"autoUpgrade": False}}}
    told = "drivers are replaced by hand (autoUpgrade is off), so the verifiers do not demand the chart's own"
    assert told in warnings(aks(operator={"values": by_hand}, verification={}))
    by_hand["driver"]["version"] = "580.105.08"
    assert told not in warnings(aks(operator={"values": by_hand}, verification={}))


def test_values_are_held_against_that_file(own: Path) -> None:
    operator = {"version": "v26.11.0", "valuesFile": str(own), "values": {"devicePlugin": {"trubo": True}, "driver": 1}}
    with pytest.raises(InvalidStackError) as refused:
        plan_of(aks(operator=operator))
    text = str(refused.value)
    assert "the chart gpu-operator v26.11.0 has no value `devicePlugin.trubo`" in text
    assert "Did you mean `turbo`?" in text
    assert "as the chart's own `driver` is" in text


@pytest.mark.parametrize("text", ["- a list", "a: [", "just text"])
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "v.yaml").write_text(text)
    with pytest.raises(InvalidStackError, match=r"operator\.valuesFile: .*v\.yaml. cannot be read"):
        plan_of(aks(operator={"version": "v26.11.0", "valuesFile": str(tmp_path / "v.yaml")}))
