"""What a stack on Magnum needs of its cloud, held against what the cloud says it has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_pools.plan.planning import plan_config
from gpu_pools.platforms.judgement import Judgement, Unread
from gpu_pools.platforms.magnum.answers import Cloud, Free, Group, Image, MachineFlavor, MadeOf, Magnum, Named, Template
from gpu_pools.platforms.magnum.cloud import judge, needs
from gpu_pools.platforms.magnum.cluster import MagnumSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings

MADE = {"image": "fcos", "externalNetwork": "public", "flavor": "m2.large"}
NEW = Magnum(
    (1, 14), (Template("t-1", "k8s", "m2.large", "m2.medium", load_balancer=False, labels={"kube_tag": "v1.36.0"}),), (), 3
)
CLOUD = Cloud(
    magnum=NEW,
    flavors=(
        MachineFlavor("1", "m2.large", 4, 8192),
        MachineFlavor("2", "m2.medium", 2, 4096),
        MachineFlavor("3", "g2", 16, 65536),
    ),
    images=(Image("i-1", "fcos", "fedora-coreos", "v1.34.2"), Image("i-2", "bare", ""), Image("i-3", "gpu", "")),
    keypairs=(Named("admin", "admin"),),
    networks=(Named("n-1", "public"),),
    free=Free(None, None, None),
)


def settings(pool: dict[str, Any] | None = None, **cluster: Any) -> Settings:
    """A stack's settings; `template` and everything else of the cluster can be changed."""
    whole = {"platform": "magnum", "name": "mine", "driver": "heat", "keypair": "admin", "template": MADE, **cluster}
    declared = {"name": "a", "flavor": "g2", "count": 2, "sharing": "whole", **(pool or {})}
    config = {
        "gpu-pools:cluster": {key: value for key, value in whole.items() if value is not None},
        "gpu-pools:flavors": {"g2": {"gpuModel": "a100-40gb", "gpusPerNode": 1}, "g9": {"gpuModel": "a30", "gpusPerNode": 1}},
        "gpu-pools:sharing": {"whole": {"exclusive": {}}},
        "gpu-pools:pools": [{key: value for key, value in declared.items() if value is not None}],
    }
    return plan_config(config, complete=False).settings


def parts(stack: Settings) -> tuple[MagnumSettings, Sequence[Pool]]:
    assert isinstance(stack.cluster, MagnumSettings)
    return stack.cluster, stack.pools


def judged(stack: Settings, cloud: Cloud) -> Judgement:
    return judge(*parts(stack), cloud)


def problems(stack: Settings, cloud: Cloud = CLOUD) -> dict[str, str]:
    """Path -> message, allowed and remedy."""
    return {one.path: f"{one.message} | {one.allowed} | {one.remedy}" for one in judged(stack, cloud).problems}


def magnum(**changed: Any) -> Cloud:
    return replace(CLOUD, magnum=replace(NEW, **changed))


def test_a_stack_whose_cloud_has_everything_is_good() -> None:
    assert judged(settings(), CLOUD) == judged(settings(template=None, templateId="k8s"), CLOUD)
    assert judged(settings(), CLOUD).problems == judged(settings(), CLOUD).unchecked == ()


def test_everything_that_is_missing_comes_at_once() -> None:
    stack = settings(
        {"flavor": "g9", "image": "none"},
        template={"image": "fcos-", "externalNetwork": "x", "flavor": "y", "masterFlavor": "z"},
        keypair="nobody",
        workerFlavor="w",
    )
    found = problems(stack)
    cluster = "gpu-pools:cluster"
    assert list(found) == [
        f"{cluster}.template.image",
        f"{cluster}.template.externalNetwork",
        f"{cluster}.template.flavor",
        f"{cluster}.template.masterFlavor",
        f"{cluster}.keypair",
        f"{cluster}.workerFlavor",
        "gpu-pools:pools[0].flavor",
        "gpu-pools:pools[0].image",
    ]
    assert found[f"{cluster}.template.image"] == (
        'this cloud has no image "fcos-" for this project and user | bare, fcos, gpu | Did you mean `fcos`?'
    )
    assert "admin | Choose one of those" in found[f"{cluster}.keypair"]


def test_a_cloud_that_has_none_at_all_says_so() -> None:
    found = problems(settings(), replace(CLOUD, keypairs=()))["gpu-pools:cluster.keypair"]
    assert found.endswith("nothing: there is no keypair at all | Have it made first.")


def test_many_names_are_shortened() -> None:
    many = [Named(f"key-{number:02}", f"key-{number:02}") for number in range(20)]
    assert "key-07 and 12 more |" in problems(settings(), replace(CLOUD, keypairs=many))["gpu-pools:cluster.keypair"]
    assert "key-07 |" in problems(settings(), replace(CLOUD, keypairs=many[:8]))["gpu-pools:cluster.keypair"]
    assert "key-07 and 1 more |" in problems(settings(), replace(CLOUD, keypairs=many[:9]))["gpu-pools:cluster.keypair"]
    nameless = [Named("7c1f", ""), Named("k", "key")]
    assert "| 7c1f, key |" in problems(settings(), replace(CLOUD, keypairs=nameless))["gpu-pools:cluster.keypair"]


@pytest.mark.parametrize("name", ["i-1", "fcos"])
def test_names_and_ids_will_do(name: str) -> None:
    assert problems(settings(template={**MADE, "image": name})) == {}


def test_a_name_that_two_have_is_refused_and_the_id_of_one_is_not() -> None:
    twice = replace(CLOUD, networks=(Named("n-1", "public"), Named("n-2", "public")))
    assert "2 external networks" in problems(settings(), twice)["gpu-pools:cluster.template.externalNetwork"]
    assert problems(settings(template={**MADE, "externalNetwork": "n-2"}), twice) == {}


def test_only_the_template_s_image_needs_a_distribution() -> None:
    made_of_it = settings(template={**MADE, "image": "bare"})
    assert problems(made_of_it)["gpu-pools:cluster.template.image"] == (
        'the image "bare" has no property os_distro | an image that has it: Magnum chooses its driver by it | '
        "`openstack image set --property os_distro=… bare`, e.g. ubuntu or fedora-coreos."
    )
    assert problems(made_of_it, magnum(in_use=frozenset({("image", "bare")}))) == {}
    assert problems(settings({"image": "bare"})) == {}


def test_what_the_cluster_uses_is_not_asked_for_again() -> None:
    """Keypairs belong to a user: a colleague who deploys to the same cluster has another."""
    alive = magnum(clusters=("mine",), in_use=frozenset({("keypair", "colleague"), ("flavor", "g9")}), groups={"a": Group(2)})
    stack = settings({"flavor": "g9"}, keypair="colleague")
    assert problems(stack, alive) == {}
    assert set(problems(stack)) == {"gpu-pools:cluster.keypair", "gpu-pools:pools[0].flavor"}


@pytest.mark.parametrize(
    ("newest", "pool", "path"),
    [
        ((1, 8), {}, "gpu-pools:pools"),
        ((1, 9), {"count": 0}, "gpu-pools:pools[0]"),
        ((1, 9), {"count": None, "nodes": {"min": 0, "max": 2}}, "gpu-pools:pools[0]"),
    ],
)
def test_a_magnum_that_is_too_old_is_named(newest: tuple[int, int], pool: dict[str, Any], path: str) -> None:
    assert list(problems(settings(pool), magnum(newest=newest))) == [path]
    assert problems(settings(pool), magnum(newest=(1, 10))) == {}


def test_magnum_s_quota_is_for_new_clusters() -> None:
    full = problems(settings(), magnum(clusters=("b", "c", "a")))["gpu-pools:cluster.name"]
    assert "3 of the 3" in full
    assert "| a, b, c |" in full
    assert "0 of the 0 that it may have | no cluster |" in problems(settings(), magnum(limit=0))["gpu-pools:cluster.name"]
    unread = judged(settings(), magnum(limit=Unread("403")))
    assert (unread.problems, unread.unchecked) == ((), ("Magnum's quota (403)",))
    assert problems(settings(), magnum(clusters=("mine", "c", "a"), groups={"a": Group(2)})) == {}
    assert problems(settings(), magnum(clusters=("b", "c"))) == {}
    assert problems(settings(), magnum(clusters=("b", "c"), limit=-1)) == {}


def test_several_masters_need_a_template_with_a_load_balancer() -> None:
    given_template = {"template": None, "templateId": "k8s", "masters": 3}
    assert list(problems(settings(**given_template))) == ["gpu-pools:cluster.masters"]
    assert problems(settings(**{**given_template, "masters": 1})) == {}
    balanced = Template("t-2", "k8s", "m2.large", "m2.medium", load_balancer=True)
    assert problems(settings(**given_template), magnum(templates=(balanced,))) == {}


def test_a_template_is_known_by_its_name_or_id_among_others() -> None:
    other = Template("t-0", "old", "m2.large", "m2.medium", load_balancer=True)
    both = magnum(templates=(other, *NEW.templates))
    for name in ("k8s", "t-1"):
        named = settings(template=None, templateId=name, masters=3)
        assert list(problems(named, both)) == ["gpu-pools:cluster.masters"]
    unknown = problems(settings(template=None, templateId="k9s"), both)
    assert list(unknown) == ["gpu-pools:cluster.templateId"]
    assert unknown["gpu-pools:cluster.templateId"].endswith("| k8s, old | Did you mean `k8s`?")
    # What it says cannot be known, and is no second problem.
    alive = replace(both, magnum=replace(NEW, clusters=("mine",), made_of=MadeOf(frozenset({"t-0"}), {}), groups={"a": Group(2)}))
    gone = settings(template=None, templateId="gone", driver="magnum-cluster-api")
    assert list(problems(gone, alive)) == ["gpu-pools:cluster.templateId"]


def test_magnum_cluster_api_needs_a_template_whose_network_it_knows() -> None:
    given_template = {"template": None, "templateId": "k8s", "driver": "magnum-cluster-api"}
    for driver, refused in (("calico", 0), ("cilium", 0), ("", 0), ("flannel", 1)):
        known = Template("t-1", "k8s", "m2.large", "m2.medium", load_balancer=False, network_driver=driver)
        assert len(problems(settings(**given_template), magnum(templates=(known,)))) == refused
        assert problems(settings(**{**given_template, "driver": "heat"}), magnum(templates=(known,))) == {}


@pytest.mark.parametrize(
    ("free", "text"),
    [
        (Free(4, None, None), None),
        (Free(3, None, None), "4 more machines are asked for in all, and Nova's quota leaves 3"),
        (Free(None, 40, 144 * 1024), None),
        (Free(None, 39, None), "40 more vCPUs"),
        (Free(None, None, 143 * 1024), "144 more GiB of memory are asked for in all, and Nova's quota leaves 143"),
    ],
)
def test_nova_s_quota_is_for_the_machines_of_the_cluster_and_its_pools(free: Free, text: str | None) -> None:
    found = problems(settings(template={**MADE, "masterFlavor": "m2.large"}), replace(CLOUD, free=free))
    assert list(found) == ([] if text is None else ["gpu-pools:pools"])
    assert (text or "") in found.get("gpu-pools:pools", "")


@pytest.mark.parametrize(
    ("changed", "vcpus"),
    [
        # Two of g2 with 16 each, one master of m2.medium with 2, one worker of m2.large with 4.
        ({"template": None, "templateId": "k8s"}, 38),
        ({"template": None, "templateId": "k8s", "workerFlavor": "g2"}, 50),
        ({"template": None, "templateId": "k8s", "workers": 3}, 46),
        ({"template": {**MADE, "masterFlavor": "m2.medium"}, "masters": 3}, 42),
        ({"template": MADE, "workerFlavor": "m2.medium"}, 38),
    ],
)
def test_machines_are_of_the_flavors_that_the_stack_or_its_template_names(changed: dict[str, Any], vcpus: int) -> None:
    balanced = replace(NEW, templates=(replace(NEW.templates[0], load_balancer=True),))
    enough, one_less = (replace(CLOUD, magnum=balanced, free=Free(None, left, None)) for left in (vcpus, vcpus - 1))
    assert problems(settings(**changed), enough) == {}
    assert f"{vcpus} more vCPUs are asked for" in problems(settings(**changed), one_less)["gpu-pools:pools"]


def test_room_is_judged_by_flavors_that_are_known_and_counted_once() -> None:
    free = Free(4, 40, 144 * 1024)
    assert problems(settings(), replace(CLOUD, flavors=Unread("403"), free=Free(0, 0, 0))) == {}
    twice = replace(CLOUD, flavors=(*CLOUD.flavors, MachineFlavor("4", "g2", 16, 65536)), free=free)  # type: ignore[misc]
    assert list(problems(settings(), twice)) == ["gpu-pools:pools[0].flavor"]


def test_a_pool_that_shrinks_makes_no_room_before_another_grows() -> None:
    cluster, (pool,) = parts(settings({"count": 2}))
    alive = replace(magnum(clusters=("mine",), groups={"a": Group(4), "b": Group(1)}), free=Free(0, None, None))
    grown = replace(pool, name="b", path="gpu-pools:pools[1]")
    (problem,) = judge(cluster, (pool, grown), alive).problems
    assert problem.message.startswith("1 more machines are asked for in all, and Nova's quota leaves 0")


def test_what_is_there_needs_no_more_room() -> None:
    alive = replace(magnum(clusters=("mine",), groups={"a": Group(1)}), free=Free(1, 16, 65536))
    assert problems(settings({"count": 2}), alive) == {}
    assert len(judged(settings({"count": 3}), alive).problems) == 3
    assert problems(settings({"count": 0}), alive) == {}


SAYS = {
    "image": "fcos",
    "flavor": "m2.large",
    "masterFlavor": "m2.large",
    "externalNetwork": "public",
    "labels": {"kube_tag": "v1.35.2"},
}
TAGGED = {**MADE, "labels": {"kube_tag": "v1.35.2"}}


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        ({"template": TAGGED}, {}),
        ({"template": TAGGED}, {"networkDriver": "flannel", "dnsNameserver": "8.8.8.8"}),
        ({"template": None, "templateId": "k8s"}, {"image": "other"}),
        ({"template": None, "templateId": "t-1"}, {"image": "other"}),
    ],
)
def test_a_cluster_stays_on_its_template(cluster: dict[str, Any], says: dict[str, Any]) -> None:
    alive = magnum(clusters=("mine",), groups={"a": Group(2)}, made_of=MadeOf(frozenset({"t-1", "k8s"}), {**SAYS, **says}))
    assert judged(settings(**cluster), alive) == judged(settings(), CLOUD)


@pytest.mark.parametrize(
    ("cluster", "changed"),
    [
        ({"template": {**MADE, "labels": {"kube_tag": "v1.36.0"}}}, "labels"),
        (
            {"template": {**TAGGED, "networkDriver": "calico", "flavor": "g2", "masterFlavor": "m2.large"}},
            "flavor, networkDriver",
        ),
        ({"template": {**TAGGED, "dockerVolumeSize": 50, "dnsNameserver": "8.8.8.8"}}, "dockerVolumeSize, dnsNameserver"),
        ({"template": None, "templateId": "k8s"}, "templateId"),
    ],
)
def test_another_template_is_an_upgrade_and_refused_where_the_driver_cannot(cluster: dict[str, Any], changed: str) -> None:
    alive = magnum(clusters=("mine",), groups={"a": Group(2)}, made_of=MadeOf(frozenset({"t-0", "old"}), SAYS))
    refused = problems(settings(**cluster), alive)
    assert list(refused) == [f"gpu-pools:cluster.{'template' if cluster['template'] else 'templateId'}"]
    assert f"({changed})" in next(iter(refused.values()))
    # Magnum 18 speaks 1.11; the heat driver refuses from the version on that speaks 1.12.
    refusing = magnum(**{**vars(alive.magnum), "newest": (1, 12)})
    assert problems(settings(**cluster), refusing) == refused
    older = judged(settings(**cluster), magnum(**{**vars(alive.magnum), "newest": (1, 11)}))
    assert older.problems == ()
    assert "A heat driver since Magnum 18" in older.notes[0]
    able = judged(settings(**cluster, driver="capi-helm"), alive)
    assert able.problems == ()
    assert able.notes == (f"the cluster mine is upgraded in place to another template ({changed}).",)
    assert judged(settings({"image": "gpu"}, **cluster, driver="capi-helm"), alive).notes == able.notes
    network = {"template": cluster["template"] and {"networkDriver": "calico", **cluster["template"]}}
    for image, warned in ((None, False), ("gpu", True)):
        stack = settings({"image": image}, **{**cluster, **network}, driver="magnum-cluster-api")
        assert ("The driver then gives the template's image to a, too" in judged(stack, alive).notes[0]) is warned
        assert ("The driver then" in judged(stack, alive).notes[0]) is warned


@pytest.mark.parametrize(
    ("tag", "refused"),
    [("v1.35.1", True), ("v1.35.2", False), ("v1.36.9", False), ("v1.37.0", True), ("v2.0.0", True), ("latest", False)],
)
def test_a_version_that_cluster_api_does_not_take_is_refused(tag: str, refused: bool) -> None:  # noqa: FBT001
    alive = magnum(clusters=("mine",), groups={"a": Group(2)}, made_of=MadeOf(frozenset({"t-0", "old"}), SAYS))
    template = {**TAGGED, "labels": {"kube_tag": tag}, "flavor": "g2", "networkDriver": "calico"}
    found = problems(settings(template=template, driver="magnum-cluster-api"), alive)
    assert list(found) == (["gpu-pools:cluster.template.labels.kube_tag"] if refused else [])
    if refused:
        (told,) = found.values()
        assert f"has Kubernetes v1.35.2, and cannot go to {tag}" in told
        assert "v1.35.2 to v1.36" in told
    assert problems(settings(template=template, driver="capi-helm"), alive) == {}, "it goes by its image"


@pytest.mark.parametrize(
    ("version", "refused"), [("1.34.2", True), ("v1.35.2", False), ("v1.36.9", False), ("1.37.0", True), ("latest", False)]
)
def test_capi_helm_goes_by_the_version_of_the_template_s_image(version: str, refused: bool) -> None:  # noqa: FBT001
    images = (Image("i-1", "fcos", "ubuntu", "v1.35.2"), Image("i-2", "new", "ubuntu", version))
    known = (Template("t-1", "k8s", "m2.large", "m2.medium", load_balancer=False, image="i-2"),)
    alive = replace(
        magnum(clusters=("mine",), groups={"a": Group(2)}, templates=known, made_of=MadeOf(frozenset({"t-0", "old"}), SAYS)),
        images=images,
    )
    for key, template in (("template.image", {**TAGGED, "image": "new"}), ("templateId", None)):
        found = problems(settings(template=template, templateId=None if template else "k8s", driver="capi-helm"), alive)
        assert list(found) == ([f"gpu-pools:cluster.{key}"] if refused else [])
        if refused:
            assert f"has Kubernetes v1.35.2, and cannot go to {version}" in found[f"gpu-pools:cluster.{key}"]
            assert "whose image's kube_version is of these" in found[f"gpu-pools:cluster.{key}"]


def test_an_image_that_is_not_known_or_not_the_only_one_of_its_name_is_no_step() -> None:
    alive = magnum(clusters=("mine",), groups={"a": Group(2)}, made_of=MadeOf(frozenset({"t-0", "old"}), SAYS))
    two = (
        Image("i-1", "fcos", "ubuntu", "v1.35.2"),
        Image("i-2", "new", "ubuntu", "v1.30.0"),
        Image("i-3", "new", "ubuntu", "v1.35.2"),
    )
    stack = settings(template={**TAGGED, "image": "new"}, driver="capi-helm")
    assert all("cannot go to" not in text for text in problems(stack, replace(alive, images=two)).values())
    assert problems(stack, replace(alive, images=Unread("no right"))) == {}


def test_a_template_of_others_that_skips_a_version_is_refused_by_its_name() -> None:
    says = {**SAYS, "labels": {"kube_tag": "v1.34.0"}}
    alive = magnum(clusters=("mine",), groups={"a": Group(2)}, made_of=MadeOf(frozenset({"t-0", "old"}), says))
    (path,) = problems(settings(template=None, templateId="k8s", driver="magnum-cluster-api"), alive)
    assert path == "gpu-pools:cluster.templateId"


ALIVE = {"clusters": ("mine",), "made_of": MadeOf(frozenset({"t-1"}), {**SAYS, "labels": {}, "dockerVolumeSize": 50})}


@pytest.mark.parametrize(
    ("changed", "path", "text"),
    [
        (
            {"groups": {"a": Group(2, "CREATE_FAILED", "no host")}},
            "gpu-pools:pools[0]",
            "the node group a is CREATE_FAILED: no host (W82)",
        ),
        ({"groups": {"a": Group(2, "DELETE_FAILED")}}, "gpu-pools:pools[0]", "| `openstack coe nodegroup delete mine a`, then"),
        ({"groups": {"a": Group(2, "DELETE_IN_PROGRESS")}}, "gpu-pools:pools[0]", "| Wait until it is gone, then"),
        ({"status": "CREATE_FAILED", "reason": "quota"}, "gpu-pools:cluster.name", "the cluster mine is CREATE_FAILED: quota"),
    ],
)
def test_what_was_made_by_halves_is_no_base(changed: dict[str, Any], path: str, text: str) -> None:
    """The plugin keeps it in its state as if it had been made: the next `up` would end green with no node of it."""
    found = problems(settings(), magnum(**{**ALIVE, **changed}))
    assert list(found) == [path]
    assert text in found[path]
    assert found[path].endswith("then `pulumi refresh --target '**openstack:**'` and `pulumi up`.")


def test_a_half_made_group_that_no_pool_wants_is_nobody_s_matter() -> None:
    others = {"a": Group(2), "z": Group(1, "CREATE_FAILED"), "default-worker": Group(1, "UPDATE_IN_PROGRESS")}
    assert judged(settings(), magnum(**ALIVE, status="UPDATE_IN_PROGRESS", groups=others)) == judged(settings(), CLOUD)


def test_an_update_that_failed_is_told_of() -> None:
    failed = {"groups": {"a": Group(2, "UPDATE_FAILED", "no host")}, "status": "UPDATE_FAILED"}
    seen = judged(settings(), magnum(**ALIVE, **failed))
    assert seen.problems == ()
    assert [note.partition(":")[0] for note in seen.notes] == [
        "the last change of the cluster mine failed",
        "the last change of the node group a failed (no host)",
    ]


CLUSTER_API = {"driver": "magnum-cluster-api", "template": {**MADE, "networkDriver": "cilium"}}


def test_another_number_of_workers_is_refused_where_the_driver_cannot() -> None:
    there = {"a": Group(2), "default-worker": Group(3)}
    made = MadeOf(frozenset({"t-1"}), {**SAYS, "networkDriver": "cilium", "labels": {}})
    alive = magnum(clusters=("mine",), made_of=made, groups=there)
    found = problems(settings(**CLUSTER_API, workers=4), alive)
    assert list(found) == ["gpu-pools:cluster.workers"]
    assert "| 3, as there are | `openstack coe cluster resize mine 4`, then `pulumi refresh" in found.popitem()[1]
    assert problems(settings(**CLUSTER_API, workers=3), alive) == {}
    assert problems(settings(workers=4), alive) == {}
    scaled = magnum(clusters=("mine",), made_of=made, groups=there, labels={"auto_scaling_enabled": "True"})
    assert problems(settings(**CLUSTER_API, workers=4), scaled) == {}
    declared = {**CLUSTER_API, "labels": {"auto_scaling_enabled": "true"}}
    assert problems(settings(**declared, workers=4), alive) == {}


@pytest.mark.parametrize(
    ("cluster", "path"),
    [
        ({"template": {**MADE, "networkDriver": "cilium"}}, "gpu-pools:cluster.template.labels"),
        ({"template": None, "templateId": "t-9"}, "gpu-pools:cluster.templateId"),
    ],
)
def test_an_upgrade_needs_the_version_in_a_label_where_the_driver_reads_it(cluster: dict[str, Any], path: str) -> None:
    untagged = Template("t-9", "k9s", "m2.large", "m2.medium", load_balancer=False)
    old = MadeOf(frozenset({"t-0"}), {**SAYS, "networkDriver": "calico", "labels": {}})
    alive = magnum(clusters=("mine",), groups={"a": Group(2)}, made_of=old, templates=(untagged,))
    assert list(problems(settings(**cluster, driver="magnum-cluster-api"), alive)) == [path]
    assert problems(settings(**cluster, driver="capi-helm"), alive) == {}


def test_an_image_for_capi_helm_says_its_kubernetes_version() -> None:
    assert problems(settings(driver="capi-helm")) == {}
    unversioned = replace(CLOUD, images=(Image("i-1", "fcos", "flatcar"),))
    assert problems(settings(driver="capi-helm"), unversioned)["gpu-pools:cluster.template.image"] == (
        'the image "fcos" has no property kube_version | an image that has it: the driver capi-helm installs that version | '
        "`openstack image set --property kube_version=… fcos`, e.g. v1.34.2."
    )
    assert problems(settings(), unversioned) == {}


@pytest.mark.parametrize(
    ("pool", "group", "notes"),
    [
        ({}, Group(2, image="gpu"), ["pool a keeps image gpu: taking the key away changes nothing. Write `image: fcos` (W85)."]),
        (
            {},
            Group(2, volume=80),
            ["pool a keeps dockerVolumeSize 80: taking the key away changes nothing. Write `dockerVolumeSize: 50` (W85)."],
        ),
        ({}, Group(2, image="fcos", volume=50), []),
        ({"image": "gpu", "dockerVolumeSize": 80}, Group(2, image="fcos", volume=50), []),
        ({"image": "gpu", "dockerVolumeSize": 80}, Group(2, image="bare", volume=60), []),
    ],
)
def test_a_key_that_is_written_no_more_is_told_of(pool: dict[str, Any], group: Group, notes: list[str]) -> None:
    assert list(judged(settings(pool), magnum(**ALIVE, groups={"a": group})).notes) == notes
    assert not judged(settings(pool, driver="capi-helm"), magnum(**ALIVE, groups={"a": group})).notes
    # Where the template says nothing, there is nothing to write instead.
    silent = {**ALIVE, "made_of": MadeOf(frozenset({"t-1"}), {"image": None, "labels": {}})}
    assert not [note for note in judged(settings(pool), magnum(**silent, groups={"a": group})).notes if "W85" in note]


def test_what_the_cloud_did_not_say_is_named_and_refuses_nothing() -> None:
    shut = replace(CLOUD, keypairs=Unread("Nova answers 403"), free=Unread("Nova answers 503"), images=Unread("x"))
    seen = judged(settings(keypair="nobody", template={**MADE, "image": "none"}), shut)
    assert seen.problems == ()
    assert seen.unchecked == ("images (x)", "keypairs (Nova answers 403)", "Nova's quota (Nova answers 503)")


def test_without_magnum_nothing_is_judged() -> None:
    """Who knows what the cluster uses already?"""
    seen = judged(settings(keypair="nobody"), replace(CLOUD, magnum=Unread("no login")))
    assert (seen.problems, seen.unchecked) == ((), ("anything (no login)",))


_NAMES = st.sampled_from(["fcos", "public", "m2.large", "g2", "admin", "other"])


@given(images=st.sets(_NAMES), networks=st.sets(_NAMES), keypairs=st.sets(_NAMES), used=st.sets(_NAMES))
def test_a_need_is_a_problem_exactly_if_it_is_neither_there_nor_used(
    images: set[str], networks: set[str], keypairs: set[str], used: set[str]
) -> None:
    has = {"image": images, "external network": networks, "keypair": keypairs, "flavor": {"m2.large", "g2"}}
    cloud = replace(
        magnum(in_use=frozenset((kind, name) for kind in has for name in used)),  # type: ignore[misc]
        images=[Image(name, name, "x") for name in images],
        networks=[Named(name, name) for name in networks],
        keypairs=[Named(name, name) for name in keypairs],
    )
    missing = [need.path for need in needs(*parts(settings())) if need.name not in has[need.kind] | used]
    assert list(problems(settings(), cloud)) == missing


def test_a_cluster_without_pools_needs_no_node_groups_of_magnum() -> None:
    cluster, pools = parts(settings())
    old = magnum(newest=(1, 8))
    assert judge(cluster, (), old).problems == ()
    assert [one.path for one in judge(cluster, pools, old).problems] == ["gpu-pools:pools"]
