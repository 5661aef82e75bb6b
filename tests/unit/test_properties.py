"""Any well-formed stack plans to a consistent expectation; anything else ends in a refusal, never in another exception."""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_pools.hardware import azure_sizes
from gpu_pools.hardware.models import model, model_keys
from gpu_pools.mig.geometry import place
from gpu_pools.plan.document import plan_json
from gpu_pools.plan.planning import plan_config
from gpu_pools.sharing.mig import Mig
from gpu_pools.stack.kubernetes_names import qualified_name
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.text.yaml_text import load_yaml
from tests.examples import examples
from tests.unit.stacks import TWO_A100, aks, existing, magnum

if TYPE_CHECKING:
    from gpu_pools.plan.planned import Plan
    from gpu_pools.text.errors import Problem

LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
AZURE = ["Standard_NC24ads_A100_v4", TWO_A100, "Standard_NC4as_T4_v3", "Standard_ND96isr_H100_v5", "Standard_NV72ads_A10_v5"]
MODELS = [key for key in model_keys() if model(key).profiles is not None]


@dataclass
class Drawn:
    """One pool with its declaration, and what it must add up to."""

    pool: dict[str, Any]
    sharing: dict[str, Any]
    total: int
    flavor: dict[str, Any] = field(default_factory=dict)


@st.composite
def _layouts(draw: st.DrawFn, key: str) -> dict[str, int]:
    """A layout that fits, grown by instances for which a place is left."""
    layout: dict[str, int] = {}
    gpu = model(key)
    for profile in draw(st.lists(st.sampled_from(sorted(gpu.profiles)), min_size=1, max_size=6)):
        grown = {**layout, profile: layout.get(profile, 0) + 1}
        if place(gpu, grown) is not None:
            layout = grown
    return layout


@st.composite
def _shared(draw: st.DrawFn, most: int) -> dict[str, Any]:
    shared: dict[str, Any] = {"replicas": draw(st.integers(2, most))}
    for switch in ("renameByDefault", "failRequestsGreaterThanOne"):
        if draw(st.booleans()):
            shared[switch] = draw(st.booleans())
    return shared


@st.composite
def _mig(draw: st.DrawFn, key: str, gpus: int) -> tuple[dict[str, Any], int]:
    mig: dict[str, Any] = {}
    if draw(st.booleans()):
        mig["layout"] = draw(_layouts(key))
        layouts = [mig["layout"]] * gpus
    else:
        layouts = [draw(_layouts(key)), *(draw(st.one_of(st.just({}), _layouts(key))) for _ in range(gpus - 1))]
        mig["gpus"] = [{"index": index if index % 2 else [index], "layout": layout} for index, layout in enumerate(layouts)]
    times: dict[str, int] = {}
    if draw(st.booleans()):
        mig["timeSlicing"], times = draw(_slicing(sorted({profile for layout in layouts for profile in layout})))
    total = sum(count * times.get(profile, 1) for layout in layouts for profile, count in layout.items())
    return {"mig": mig}, total + sum(not layout for layout in layouts)


@st.composite
def _slicing(draw: st.DrawFn, profiles: list[str]) -> tuple[dict[str, Any], dict[str, int]]:
    """Time-slicing of all instances alike, or of those of some profiles; and the replicas of each profile."""
    shared = draw(_shared(16))
    if draw(st.booleans()):
        return shared, dict.fromkeys(profiles, shared["replicas"])
    some = draw(st.lists(st.sampled_from(profiles), min_size=1, unique=True))
    shared["replicas"] = {profile: draw(st.integers(2, 16)) for profile in some}
    return shared, shared["replicas"]


@st.composite
def _sharing(draw: st.DrawFn, key: str, gpus: int) -> tuple[dict[str, Any], int]:
    strategies = ["exclusive", "timeSlicing", "mps", "mig"] if model(key).profiles else ["exclusive", "timeSlicing", "mps"]
    strategy = draw(st.sampled_from(strategies))
    if strategy == "exclusive":
        return {"exclusive": {}}, gpus
    if strategy == "mig":
        return draw(_mig(key, gpus))
    shared = draw(_shared(16 if strategy == "mps" else 100))
    return {strategy: shared}, gpus * shared["replicas"]


_TAINTS = st.lists(
    st.sampled_from(["nvidia.com/gpu=true:NoSchedule", "example.com/team=a:NoExecute", "example.com/soft:PreferNoSchedule"]),
    unique=True,
    max_size=3,
)
_LABELS = st.dictionaries(st.sampled_from(["example.com/team", "example.com/tier"]), st.sampled_from(["a", "", "b.c_d-e"]))


@st.composite
def _pools(draw: st.DrawFn, platform: str, number: int) -> Drawn:
    pool: dict[str, Any] = {"name": f"p{number}", "sharing": f"s{number}", "taints": draw(_TAINTS), "labels": draw(_LABELS)}
    flavor: dict[str, Any] = {}
    if platform == "aks":
        size = azure_sizes.size(draw(st.sampled_from(AZURE)))
        pool["vmSize"] = size.name
        key, gpus = size.gpu_model, int(size.gpus)
    else:
        key, gpus = draw(st.sampled_from(MODELS)), draw(st.integers(1, 4))
        declared = {"gpuModel": key, "gpusPerNode": gpus}
        if platform == "magnum":
            flavor = declared
            pool["flavor"] = f"g{number}.large"
        else:
            pool |= {**declared, "nodeSelector": {"pool": str(number)}}
    if draw(st.booleans()):
        pool["count"] = draw(st.integers(0, 5))
    elif platform != "existing" or draw(st.booleans()):
        low = draw(st.integers(0, 3))
        pool["nodes"] = {"min": low, "max": draw(st.integers(max(low, 1), 9))}
    sharing, total = draw(_sharing(key, gpus))
    if draw(st.booleans()):
        sharing["needs"] = {"memoryPerReplica": draw(st.sampled_from(["1Mi", "40Mi"]))}
    return Drawn(pool, sharing, total, flavor)


@st.composite
def well_formed_stacks(draw: st.DrawFn) -> tuple[str, list[Drawn]]:
    platform = draw(st.sampled_from(["aks", "magnum", "existing"]))
    drawn = [draw(_pools(platform, number)) for number in range(draw(st.integers(1, 4)))]
    sharing = {f"s{number}": entry.sharing for number, entry in enumerate(drawn)}
    pools = [entry.pool for entry in drawn]
    sections: dict[str, Any] = {}
    if platform == "magnum":
        sections["flavors"] = {entry.pool["flavor"]: entry.flavor for entry in drawn}
    if draw(st.booleans()):
        sections["operator"] = {"migStrategy": "mixed", "driver": draw(st.sampled_from(["operator", "preinstalled"]))}
    good = {"aks": aks, "magnum": magnum, "existing": existing}[platform]
    return good(sharing=sharing, pools=pools, **sections), drawn


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(well_formed_stacks())
def test_a_well_formed_stack_has_a_consistent_plan(case: tuple[str, list[Drawn]]) -> None:
    text, drawn = case
    plan = plan_config(load_yaml(text)["config"])
    parted = yaml.safe_load(plan.mig_parted_config)["mig-configs"]
    assert [pool.name for pool in plan.pools] == [entry.pool["name"] for entry in drawn]
    for pool_plan, entry in zip(plan.pools, drawn, strict=True):
        assert sum(pool_plan.advertises.values()) == entry.total
        assert min(pool_plan.advertises.values()) > 0
        assert all(qualified_name(resource) for resource in pool_plan.advertises)
        for labels in (pool_plan.labels, pool_plan.gfd_labels):
            assert all(qualified_name(key) for key in labels)
            assert all(LABEL_VALUE.fullmatch(value) for value in labels.values())
        _check_configs(pool_plan, plan.device_plugin_configs, parted)
        assert len(pool_plan.nvml.gpus) == pool_plan.hardware.gpus
        for taint in pool_plan.taints:
            assert {"key": taint.key, "operator": "Exists", "effect": taint.effect} in plan.tolerations
    assert plan.default_config_key in plan.device_plugin_configs
    assert set(plan.device_plugin_configs) == {plan.default_config_key, *(pool.config_key for pool in plan.pools)}
    assert set(parted) == {"all-disabled", *(pool.mig_config_key for pool in plan.pools if pool.mig_config_key)}
    json.dumps([plan_json(plan), plan.operator_values, plan.nfd_values])


@settings(max_examples=examples(75), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(_pools("existing", 0), min_size=2, max_size=4))
def test_what_concerns_other_pools_never_changes_a_key(drawn: list[Drawn]) -> None:
    """But where they change the MIG strategy, which holds for the whole cluster, so that resources really are renamed."""
    named = {f"p{number}": replace(entry, pool={**entry.pool, "name": f"p{number}"}) for number, entry in enumerate(drawn)}
    sharing = {name: entry.sharing for name, entry in named.items()}
    pools = [{**entry.pool, "sharing": name, "nodeSelector": {"pool": name}} for name, entry in named.items()]
    whole = {pool.name: pool for pool in plan_config(load_yaml(existing(sharing=sharing, pools=pools))["config"]).pools}
    for pool in pools:
        (alone,) = plan_config(load_yaml(existing(sharing=sharing, pools=[pool]))["config"]).pools
        beside = whole[alone.name]
        renamed = alone.advertises.keys() != beside.advertises.keys()
        assert (alone.config_key != beside.config_key) == renamed
        assert alone.mig_config_key == beside.mig_config_key
        assert isinstance(alone.sharing, Mig) or not renamed


def _check_configs(planned: Any, configs: Any, parted: Any) -> None:
    config = yaml.safe_load(configs[planned.config_key])
    for shared in config.get("sharing", {}).values():
        suffix = ".shared" if shared["renameByDefault"] else ""
        for resource in shared["resources"]:
            assert f"{resource['name']}{suffix}" in planned.advertises
    # What the plugin refuses to start on.
    assert not ("mps" in config.get("sharing", {}) and config["flags"]["migStrategy"] == "mixed")
    if planned.mig_config_key is None:
        assert all(not gpu.instances for gpu in planned.nvml.gpus)
        return
    by_index: dict[int, dict[str, int]] = {}
    for group in parted[planned.mig_config_key]:
        indexes = range(planned.hardware.gpus) if group["devices"] == "all" else group["devices"]
        by_index |= {index: group.get("mig-devices", {}) for index in indexes}
    assert by_index == {gpu.index: dict(gpu.instances) for gpu in planned.nvml.gpus}
    assert all((gpu.mig_mode == "enabled") == bool(gpu.instances) for gpu in planned.nvml.gpus)


_BASES = [
    load_yaml(text)["config"]
    for text in (
        aks(
            {
                "labels": {"a": "b"},
                "taints": ["sku=gpu:NoSchedule"],
                "zones": ["1"],
                "spot": {"maxPrice": -1},
                "vmSize": TWO_A100,
                "osSku": "Ubuntu",
            },
            sharing={
                "cut": {"mig": {"gpus": [{"index": [0], "layout": {"1g.10gb": 7}}, {"index": 1, "layout": {}}]}},
                "nb": {"timeSlicing": {"replicas": 4, "renameByDefault": True}},
            },
            operator={
                "driver": "operator",
                "version": "v26.7.0",
                "values": {"driver": {"version": "580"}},
                "chart": {"path": "x"},
            },
            nodeFeatureDiscovery={"install": True, "values": {"worker": {"labels": {}}}},
        ),
        magnum(
            {"nodeGroupLabels": {"a": "b"}, "image": "x", "dockerVolumeSize": 50, "taints": ["nvidia.com/gpu=true:NoSchedule"]},
            sharing={"cut": {"mig": {"layout": {"1g.5gb": 7}, "timeSlicing": {"replicas": 2}}}},
            cluster={"masters": 3, "workers": 2, "labels": {"a": "b"}, "keypair": "k"},
        ),
        existing({"labels": {"example.com/a": "b"}}, sharing={"inf": {"mps": {"replicas": 10}}}, cluster={"context": "c"}),
    )
]
_JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**30), 10**30),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(
            ["exclusive", "aks", "1g.10gb", "whole", "4", "nvidia.com/gpu", "a=b:NoSchedule", "Standard_NV6ads_A10_v5"]
        ),
        st.just(dt.date(2026, 1, 1)),
        st.binary(max_size=4),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.text(max_size=6),
                st.integers(),
                st.none(),
                st.sampled_from(["replicas", "mig", "layout", "gpus", "nodes", "driver"]),
            ),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in entries for place in _places(inner, (*path, key)))]


@st.composite
def _spoiled(draw: st.DrawFn) -> dict[str, Any]:
    """A good stack in which some values are replaced by junk, removed, or joined by junk."""
    config: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(_BASES)))
    for _ in range(draw(st.integers(1, 3))):
        *parents, key = draw(st.sampled_from([place for place in _places(config) if place]))
        holder: Any = config
        for parent in parents:
            holder = holder[parent]
        change = draw(st.sampled_from(["replace", "remove", "add"]))
        if change == "replace":
            holder[key] = draw(_JUNK)
        elif change == "remove" and len(holder) > 1:
            del holder[key]
        elif isinstance(holder, dict):
            holder[draw(st.text(min_size=1, max_size=6))] = draw(_JUNK)
        else:
            holder.append(draw(_JUNK))
    return config


@pytest.mark.parametrize("complete", [True, False], ids=["deploy", "plan"])
@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(config=_spoiled())
def test_junk_anywhere_is_refused_or_planned(complete: bool, config: dict[str, Any]) -> None:  # noqa: FBT001
    plan, problems = _planned(config, complete=complete)
    for problem in problems:
        texts = (problem.path, problem.message, problem.allowed, problem.remedy)
        assert all(text and len(text.splitlines()) == 1 for text in texts)
    if plan:
        assert plan.pools
        json.dumps(plan_json(plan), allow_nan=False)
    else:
        assert problems


def _planned(config: dict[str, Any], *, complete: bool) -> tuple[Plan | None, tuple[Problem, ...]]:
    try:
        return plan_config(config, complete=complete), ()
    except InvalidStackError as error:
        return None, error.problems


@settings(max_examples=examples(100), deadline=None)
@given(_JUNK)
def test_a_config_of_nothing_but_junk_is_refused(junk: Any) -> None:
    config = {
        f"gpu-pools:{key}": junk
        for key in ("cluster", "sharing", "flavors", "pools", "operator", "nodeFeatureDiscovery", "verification")
    }
    with pytest.raises(InvalidStackError):
        plan_config(config)


@settings(max_examples=examples(200), deadline=None)
@given(st.text(alphabet=st.sampled_from(list("abc:-[]{}&*!|>'\"#%@`, \n\t0x2.~<=?")), max_size=40))
def test_any_text_is_yaml_or_a_yaml_error(text: str) -> None:
    with contextlib.suppress(yaml.YAMLError):
        load_yaml(text)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), min_size=1), min_size=2, max_size=6))
def test_every_pair_of_overlapping_selectors_is_named(selectors: list[dict[str, str]]) -> None:
    pools = [
        {"name": f"p{number}", "gpuModel": "t4-16gb", "gpusPerNode": 1, "sharing": "whole", "nodeSelector": selector}
        for number, selector in enumerate(selectors)
    ]
    expected = {
        (f"gpu-pools:pools[{later}].nodeSelector", f'of pool "p{earlier}" too')
        for later, mine in enumerate(selectors)
        for earlier, theirs in enumerate(selectors[:later])
        if mine.items() <= theirs.items() or theirs.items() <= mine.items()
    }
    _, problems = _planned(load_yaml(existing(pools=pools))["config"], complete=True)
    assert {(problem.path, problem.message.partition("nodes ")[2]) for problem in problems} == expected
