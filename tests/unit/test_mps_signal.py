"""The admission policy as a file for clusters whose operator has another owner: the same as what a stack makes."""

from __future__ import annotations

from pathlib import Path

import yaml

from gpu_pools.rendering.mps_signal import POLICY, WRONG, binding_spec, has_wrong_name, policy_spec, probe_pod

MANIFEST = Path(__file__).resolve().parents[2] / "docs" / "mps-signal.yaml"


def test_the_manifest_is_what_a_stack_makes() -> None:
    policy, binding = yaml.safe_load_all(MANIFEST.read_text("utf-8"))
    assert [(one["kind"], one["metadata"]) for one in (policy, binding)] == [
        ("MutatingAdmissionPolicy", {"name": POLICY}),
        ("MutatingAdmissionPolicyBinding", {"name": POLICY}),
    ]
    assert (policy["spec"], binding["spec"]) == (policy_spec(), binding_spec())


def test_only_a_pod_with_the_wrong_name_has_it() -> None:
    assert has_wrong_name(probe_pod())
    for changed in ("", "mps-control-daemon", f"{WRONG} "):
        pod = probe_pod()
        pod["spec"]["containers"][0]["env"][0]["value"] = changed
        assert not has_wrong_name(pod)
    pod = probe_pod()
    pod["spec"]["containers"][0]["name"] = "config-manager-init"
    assert not has_wrong_name(pod), "the init container signals nobody"
    assert not has_wrong_name({"metadata": {}})
    assert not has_wrong_name({"spec": {"containers": [{"name": "config-manager"}]}})
