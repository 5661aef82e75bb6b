"""The commands `adopt` and `release` as a user sees them: files, messages, exit codes, and what is left when something is wrong.

az, openstack and pulumi are scripts here, which answer with what is in a file and write down how they were called: only
how they are asked is tried. What the real engine does with an import file, and when it forgets, is in tests/engine/test_adopt.py.
"""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.adopting import live
from gpu_pools.adopting.adopted import NotAdoptableError
from gpu_pools.adopting.release import released
from gpu_pools.cli.main import main
from gpu_pools.plan.planning import plan_config
from gpu_pools.text.yaml_text import load_yaml
from tests.adopting.recorded import CASES
from tests.api_server import ApiServer, Refusal, kubeconfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Programs = Callable[..., Path]

#: What a cluster is asked for.
PATHS = [
    "/api/v1/nodes",
    "/apis/nvidia.com/v1/clusterpolicies",
    "/api/v1/namespaces/gpu-operator/configmaps",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/deployments",
]
#: Of a stack file that adopt writes for an AKS cluster.
SECTIONS = ("cluster", "adoption", "sharing", "operator", "nodeFeatureDiscovery", "verification", "pools")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command is run: a project with a folder of stacks."""
    (tmp_path / "stacks").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Puts programs on PATH, and nothing else; returns the file with their calls."""
    place = tmp_path / "programs"
    place.mkdir()
    monkeypatch.setenv("PATH", str(place))

    def make(**scripts: str) -> Path:
        for name, script in scripts.items():
            (place / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{place}/calls\n{script}\n')
            (place / name).chmod(0o700)
        return place / "calls"

    return make


def document(folder: Path, name: str, content: Any) -> str:
    (folder / name).write_text(json.dumps(content))
    return str(folder / name)


def aks(folder: Path, case: str = "aks-time-slicing") -> list[str]:
    found = CASES[case]
    cluster, pools = document(folder, "cluster.json", found["cluster"]), document(folder, "pools.json", found["pools"])
    inside = document(folder, "inside.json", {"kind": "List", "items": found["kubernetes"]})
    return ["adopt", "aks", "--stack", "prod", "--cluster", cluster, "--pools", pools, "--kubernetes", inside]


def test_two_files_are_written_and_the_next_steps_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(aks(folder)) == 1
    out = capsys.readouterr().out
    assert (folder / "stacks" / "Pulumi.prod.yaml").exists()
    assert json.loads((folder / "import-prod.json").read_text())["resources"]
    assert "pulumi import --stack prod --file import-prod.json --generate-code=false" in out
    assert "all in place (no node is replaced)" in out
    assert "- pool win: is not adopted" in out


def test_what_is_not_in_the_stack_file_is_told_to_machines_with_its_place_and_why(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*aks(folder), "--json"]) == 1
    unsaid = json.loads(capsys.readouterr().out)["unsaid"]
    assert {frozenset(one) for one in unsaid} == {frozenset({"place", "why"})}
    assert any(one["place"] == "pool win" and "is not adopted" in one["why"] for one in unsaid)


def test_all_that_is_there_in_the_stack_file_ends_with_0(folder: Path) -> None:
    inside = {
        "kind": "List",
        "items": [
            {
                "kind": "Node",
                "metadata": {
                    "name": "a",
                    "labels": {"pool": "x", "nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "1"},
                },
            },
            {"kind": "Node", "metadata": {"name": "b", "labels": {}}},
        ],
    }
    assert main(["adopt", "existing", "--stack", "prod", "--kubernetes", document(folder, "inside.json", inside)]) == 0
    # Nothing of a cloud is there to be imported.
    assert not (folder / "import-prod.json").exists()


@pytest.mark.parametrize("there", ["stacks/Pulumi.prod.yaml", "import-prod.json"])
def test_files_that_are_there_are_not_written_over_unless_it_is_told_to(
    folder: Path, there: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / there).write_text("mine")
    assert main(aks(folder)) == 2
    assert f"{there}: is there already" in capsys.readouterr().err
    assert (folder / there).read_text() == "mine"
    assert not all((folder / one).exists() for one in ("stacks/Pulumi.prod.yaml", "import-prod.json"))
    assert main([*aks(folder), "--force"]) == 1
    assert (folder / there).read_text() != "mine"


def test_of_two_files_none_is_written_where_one_cannot_be(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "import-prod.json").mkdir()
    assert main([*aks(folder), "--force"]) == 2
    assert "cannot be written: Is a directory" in capsys.readouterr().err
    assert not (folder / "stacks" / "Pulumi.prod.yaml").exists()


def test_a_folder_that_is_not_there_is_told_before_anything_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*aks(folder), "--import-file", str(folder / "no" / "i.json")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert not (folder / "stacks" / "Pulumi.prod.yaml").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is not JSON"),
        ("[]", "is a list of 0, not one object"),
        ("{}", "is a mapping with no keys, not one object"),
        ('{"id": 5}', "has 5 as `id`, not a text"),
        ('{"id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/a"}', "none of an AKS cluster"),
        ('{"id": "/subscriptions/s/resourceGroups/g/providers/M/managedClusters/c"}', "has no agentPoolProfiles"),
        ("[" * 100000, "is not JSON"),
    ],
)
def test_what_is_no_cluster_is_refused_with_the_command_that_prints_one(
    folder: Path, content: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cluster.json").write_text(content)
    assert main(["adopt", "aks", "--stack", "prod", "--cluster", "cluster.json"]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert "az aks show" in told
    assert list((folder / "stacks").iterdir()) == []


def test_what_is_wrong_with_several_documents_is_told_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = document(folder, "cluster.json", CASES["aks-time-slicing"]["cluster"])
    (folder / "cut.json").write_text('[{"name": "a100", "vmSi')
    (folder / "text.json").write_text("Please run 'az login'")
    wrong = ["--cluster", "nowhere.json", "--pools", "cut.json", "--kubernetes", "text.json", "missing.json"]
    assert main(["adopt", "aks", "--stack", "prod", *wrong]) == 2
    told = capsys.readouterr().err
    assert "4 problems" in told
    assert all(f"- {name}: " in told for name in ("nowhere.json", "cut.json", "text.json", "missing.json"))
    assert main(["adopt", "aks", "--stack", "prod", "--cluster", good, "--kubernetes", "text.json", "missing.json"]) == 2
    assert "2 problems" in capsys.readouterr().err
    groups = ["--groups", "cut.json", "missing.json"]
    assert main(["adopt", "magnum", "--driver", "heat", "--stack", "prod", "--cluster", "text.json", *groups]) == 2
    assert "3 problems" in capsys.readouterr().err
    assert list((folder / "stacks").iterdir()) == []


def test_machines_are_not_taken_for_agent_pools(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `az vm list` prints has names, too."""
    cluster = document(folder, "cluster.json", CASES["aks-time-slicing"]["cluster"])
    machines = document(
        folder, "vm.json", [{"name": "vm-1", "hardwareProfile": {"vmSize": "Standard_NC24ads_A100_v4"}}, {"name": 5}]
    )
    assert main(["adopt", "aks", "--stack", "prod", "--cluster", cluster, "--pools", machines]) == 2
    told = capsys.readouterr().err
    assert 'pool "vm-1": has no `vmSize`' in told
    assert "pool 5: has no `vmSize`" in told
    assert "az aks nodepool list" in told


@pytest.mark.parametrize("place", [1, 3, 7], ids=["subscription", "resource group", "cluster"])
def test_pools_of_another_cluster_are_refused(folder: Path, place: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Their names would be looked up in this one: of two clusters made alike, the wrong pool."""
    case = CASES["aks-time-slicing"]
    parts = case["cluster"]["id"].strip("/").split("/")
    command = ["adopt", "aks", "--stack", "prod", "--force", "--cluster", document(folder, "cluster.json", case["cluster"])]
    for parts_of, code in ((parts, {0, 1}), ([*parts[:place], "another", *parts[place + 1 :]], {2})):
        pools = [{**one, "id": f"/{'/'.join(parts_of)}/agentPools/{one['name']}"} for one in case["pools"]]
        assert main([*command, "--pools", document(folder, "pools.json", pools)]) in code
    assert "which is of another cluster" in capsys.readouterr().err


def test_a_cluster_whose_gpus_aks_manages_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the deploy refuses it; the profile is what azure-aks-docs shows of such a pool (aks-managed-gpu-nodes)."""
    case = json.loads(json.dumps(CASES["aks-time-slicing"]))
    command = ["adopt", "aks", "--stack", "prod", "--cluster", document(folder, "cluster.json", case["cluster"]), "--pools"]
    for mode, code in (("Unmanaged", 1), ("Managed", 2)):
        for path in ("stacks/Pulumi.prod.yaml", "import-prod.json"):
            (folder / path).unlink(missing_ok=True)
        nvidia = {"managementMode": mode, "migStrategy": None}
        case["pools"][1]["gpuProfile"] = {"driver": "Install", "driverType": "", "nvidia": nvidia}
        assert main([*command, document(folder, "pools.json", case["pools"])]) == code
    assert 'pool "a100": AKS manages its GPUs itself' in capsys.readouterr().err
    assert not (folder / "stacks" / "Pulumi.prod.yaml").exists()


def test_node_groups_of_another_cluster_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = json.loads(json.dumps(CASES["magnum-heat"]))
    cluster = document(folder, "cluster.json", case["cluster"])
    groups = document(folder, "groups.json", [{**one, "cluster_id": "of-another"} for one in case["groups"]])
    assert main(["adopt", "magnum", "--driver", "heat", "--stack", "prod", "--cluster", cluster, "--groups", groups]) == 2
    assert "is of the cluster of-another" in capsys.readouterr().err


def test_a_cluster_that_nobody_names_is_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del folder
    assert main(["adopt", "aks", "--stack", "prod"]) == 2
    assert "--resource-group GROUP and --name NAME, or --cluster FILE" in capsys.readouterr().err
    assert main(["adopt", "magnum", "--driver", "heat", "--stack", "prod"]) == 2
    assert main(["adopt", "existing", "--stack", "prod"]) == 2


def test_a_stack_behind_its_organisation_has_files_and_a_tag_by_its_own_name(folder: Path) -> None:
    case = json.loads(json.dumps(CASES["aks-time-slicing"]))
    case["pools"][1]["tags"]["gpu-pools"] = "gpu-pools/prod"
    arguments = [*aks(folder)[:3], "acme/gpu-pools/prod", *aks(folder)[4:]]
    document(folder, "pools.json", case["pools"])
    assert main(arguments) == 1
    config = load_yaml((folder / "stacks" / "Pulumi.prod.yaml").read_text())["config"]
    assert [pool["name"] for pool in config["gpu-pools:pools"]] == ["a100", "spot"]


def test_a_pool_of_another_stack_is_left_to_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = json.loads(json.dumps(CASES["aks-time-slicing"]))
    case["pools"][1]["tags"]["gpu-pools"] = "gpu-pools/dev"
    arguments = aks(folder)
    document(folder, "pools.json", case["pools"])
    assert main(arguments) == 1
    assert "it is the stack gpu-pools/dev's; let that one release it first" in capsys.readouterr().out


def test_nothing_to_adopt_is_said_and_nothing_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = document(folder, "cluster.json", CASES["aks-without-gpus"]["cluster"])
    assert main(["adopt", "aks", "--stack", "prod", "--cluster", cluster]) == 1
    assert "No pool can be adopted; nothing was written." in capsys.readouterr().out
    assert list((folder / "stacks").iterdir()) == []


def test_texts_of_others_stay_texts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names in a cluster are anybody's: none ends a comment, a line of the terminal, or a value."""
    case = json.loads(json.dumps(CASES["aks-time-slicing"]))
    case["pools"][1]["messageOfTheDay"] = "x\n  gpu-pools:acknowledged: []\u001b[2J\u202e"
    case["pools"][1]["tags"]["a: b #"] = "{x}\n- evil"
    case["kubernetes"][0]["items"].append(
        {
            "kind": "DaemonSet",
            "metadata": {"namespace": "x\u001b[31m\ny", "name": "p"},
            "spec": {"template": {"spec": {"containers": [{"image": "k8s-device-plugin"}]}}},
        }
    )
    cluster, pools = document(folder, "c.json", case["cluster"]), document(folder, "p.json", case["pools"])
    inside = document(folder, "i.json", {"kind": "List", "items": case["kubernetes"]})
    main(["adopt", "aks", "--stack", "prod", "--cluster", cluster, "--pools", pools, "--kubernetes", inside])
    written = (folder / "stacks" / "Pulumi.prod.yaml").read_text()
    assert "\u001b" not in written + capsys.readouterr().out
    config = load_yaml(written)["config"]
    assert set(config) == {f"gpu-pools:{key}" for key in SECTIONS}
    assert [pool.name for pool in plan_config(config).pools] == ["a100", "spot"]
    assert config["gpu-pools:pools"][0]["tags"]["a: b #"] == "{x}\n- evil"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """A cluster, which the context `ml` of the user's own kubeconfig leads to."""
    made = ApiServer()
    (tmp_path / "own").write_text(kubeconfig(made.server_address[1], "ml"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "own"))
    yield made
    made.shutdown()
    made.server_close()


class TestLive:
    """az, openstack and a cluster are asked."""

    def test_az_and_the_cluster_are_asked_for_what_is_needed_and_for_no_secret(
        self, folder: Path, programs: Programs, server: ApiServer
    ) -> None:
        case = CASES["aks-time-slicing"]
        cluster, pools = document(folder, "c.json", case["cluster"]), document(folder, "p.json", case["pools"])
        calls = programs(az=f'case "$*" in *nodepool*) /bin/cat {pools};; *) /bin/cat {cluster};; esac')
        for kind in ("Node", "ConfigMap", "DaemonSet", "Deployment"):
            listed = [one for one in case["kubernetes"] if one["kind"] == kind]
            # As an API server has them: the list alone says of which kind they are.
            server.items[f"{kind.lower()}s"] = [{key: one[key] for key in one if key != "kind"} for one in listed]
        command = ["adopt", "aks", "--stack", "prod", "--resource-group", "Team-ML", "--name", "ml-prod", "--context", "ml"]
        assert main(command) == 1
        # Nothing else: no Secret, and no credentials of the cluster.
        assert calls.read_text().splitlines() == [
            "az aks show --resource-group Team-ML --name ml-prod --output json",
            "az aks nodepool list --resource-group Team-ML --cluster-name ml-prod --output json",
        ]
        assert server.collections == PATHS
        assert (folder / "stacks" / "Pulumi.prod.yaml").exists()

    def test_what_a_cluster_need_not_have_may_be_missing(self, server: ApiServer, tmp_path: Path) -> None:
        (tmp_path / "mine").write_text(kubeconfig(server.server_address[1], "mine"))
        server.items |= {"nodes": [], "configmaps": []}
        kinds = ["NodeList", "ClusterPolicyList", "ConfigMapList", "DaemonSetList", "DeploymentList"]
        assert live.kubernetes(None, str(tmp_path / "mine")) == [{"kind": kind, "items": []} for kind in kinds]
        assert server.collections == PATHS

    @pytest.mark.parametrize("missing", ["nodes", "daemonsets"])
    def test_what_each_cluster_has_must_be_told(self, missing: str, server: ApiServer) -> None:
        server.items |= {"nodes": [], "configmaps": [], missing: Refusal(404, "NotFound")}
        with pytest.raises(NotAdoptableError, match="NotFound"):
            live.kubernetes("ml", None)

    def test_a_right_that_is_missing_is_told_with_the_way_around_it(
        self, server: ApiServer, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.items["nodes"] = Refusal(403, "nodes is forbidden")
        assert main(["adopt", "existing", "--context", "ml", "--stack", "prod"]) == 2
        told = capsys.readouterr().err
        assert "GET /api/v1/nodes: nodes is forbidden" in told
        assert "the right to list nodes. Or give files: --kubernetes FILE." in told
        assert main(["adopt", "existing", "--context", "other", "--stack", "prod"]) == 2
        assert "no context other" in capsys.readouterr().err
        assert list((folder / "stacks").iterdir()) == []

    def test_of_each_group_openstack_is_asked(self, folder: Path, programs: Programs) -> None:
        case = CASES["magnum-heat"]
        cluster, groups = document(folder, "c.json", case["cluster"]), document(folder, "g.json", case["groups"])
        shown = {one["uuid"]: document(folder, f"{one['uuid']}.json", one) for one in case["groups"]}
        shows = "".join(f"*{uuid}*) /bin/cat {path};; " for uuid, path in shown.items())
        calls = programs(openstack=f'case "$*" in *cluster*show*) /bin/cat {cluster};; *list*) /bin/cat {groups};; {shows} esac')
        command = ["adopt", "magnum", "--stack", "prod", "--name", "k8s", *case["arguments"]]
        assert main(command) == 1
        assert [line.partition("openstack ")[2] for line in calls.read_text().splitlines()] == [
            "coe cluster show k8s --format json",
            "coe nodegroup list k8s --format json",
            *(f"coe nodegroup show k8s {one['uuid']} --format json" for one in case["groups"]),
        ]

    @pytest.mark.parametrize("flavor", ["g2", "g2=:1", "=a30-24gb:1", "g2=a30-24gb", "g2=a30-24gb:0", "g2=a30-24gb:x"])
    def test_a_flavor_is_told_with_all_its_parts(self, flavor: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["adopt", "magnum", "--stack", "prod", "--name", "k8s", "--driver", "heat", "--gpus", flavor])
        assert ended.value.code == 2
        assert f"'{flavor}' is not FLAVOR=MODEL:COUNT" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "program", "instead"),
        [
            (["aks", "--resource-group", "g", "--name", "n"], "az", "--cluster FILE and --pools FILE"),
            (["magnum", "--driver", "heat", "--name", "n"], "openstack", "--cluster FILE and --groups FILE"),
        ],
    )
    def test_a_program_that_is_missing_or_fails_is_told_with_the_way_around_it(
        self,
        folder: Path,
        programs: Programs,
        arguments: list[str],
        program: str,
        instead: str,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        assert main(["adopt", *arguments, "--stack", "prod"]) == 2
        told = capsys.readouterr().err
        assert f"there is no {program} on PATH" in told
        assert instead in told
        programs(**{program: "echo please log in >&2; exit 3"})
        assert main(["adopt", *arguments, "--stack", "prod"]) == 2
        assert f"{program} ended with 3: please log in" in capsys.readouterr().err
        programs(**{program: "echo nonsense"})
        assert main(["adopt", *arguments, "--stack", "prod"]) == 2
        assert f"{program} printed no JSON" in capsys.readouterr().err
        assert list((folder / "stacks").iterdir()) == []


_IN = "urn:pulumi:prod::gpu-pools::gpu-pools:index:GpuPlatform$"
STATE: dict[str, Any] = {
    "version": 3,
    "deployment": {
        "resources": [
            {"urn": "urn:pulumi:prod::gpu-pools::pulumi:pulumi:Stack::gpu-pools-prod", "type": "pulumi:pulumi:Stack"},
            {"urn": "u::gpu", "type": "gpu-pools:index:GpuPlatform"},
            {"urn": "u::default", "type": "pulumi:providers:azure-native", "custom": True},
            {
                "urn": f"{_IN}azure-native:containerservice:AgentPool::gpu-a-pool",
                "type": "azure-native:containerservice:AgentPool",
                "custom": True,
                "protect": True,
            },
            {
                "urn": f"{_IN}kubernetes:helm.sh/v3:Release::gpu-operator-release",
                "type": "kubernetes:helm.sh/v3:Release",
                "custom": True,
            },
            {"urn": "u::read", "type": "kubernetes:core/v1:Namespace", "custom": True, "external": True},
        ]
    },
}


class TestRelease:
    """What a stack leaves."""

    def test_what_is_in_a_cloud_is_told_and_what_nobody_does_any_more(self) -> None:
        found = released(STATE)
        assert found.resources == {
            "azure-native:containerservice:AgentPool": ["gpu-a-pool"],
            "kubernetes:helm.sh/v3:Release": ["gpu-operator-release"],
        }
        assert found.protected == 1
        assert len(found.no_longer) == 2

    @pytest.mark.parametrize(
        ("type_", "name", "sentence"),
        [
            ("azure-native:containerservice:ManagedCluster", "gpu-cluster", "the cluster's Kubernetes version stays"),
            ("openstack:containerinfra/nodeGroup:NodeGroup", "gpu-a-pool", "node groups keep their labels for good"),
            ("kubernetes:nvidia.com/v1:ClusterPolicyPatch", "gpu-policy", "the ClusterPolicy keeps what the stack has set"),
            ("kubernetes:core/v1:ConfigMapPatch", "gpu-key", "configs of the device plugin stay as they are"),
            ("kubernetes:apps/v1:DaemonSet", "gpu-a-verifier", "the verifiers go on comparing"),
            (
                "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicyBinding",
                "gpu-verifier",
                "admission policies stay in force",
            ),
        ],
    )
    def test_of_each_kind_it_is_told_what_nobody_does_any_more(self, type_: str, name: str, sentence: str) -> None:
        one = {"urn": f"{_IN}{type_}::{name}", "type": type_, "custom": True}
        resources = [{"urn": "u::gpu", "type": "gpu-pools:index:GpuPlatform"}, one]
        (told,) = released({"deployment": {"resources": resources}}).no_longer
        assert told.startswith(sentence)

    def test_the_kubeconfig_that_magnum_made_is_told_to_go(self) -> None:
        stash = {"urn": f"{_IN}pulumi:index:Stash::gpu-kubeconfig", "type": "pulumi:index:Stash", "custom": True}
        found = released({"deployment": {"resources": [*STATE["deployment"]["resources"], stash]}})
        assert any("the administrator's kubeconfig goes with the state" in one for one in found.no_longer)
        assert found.resources == released(STATE).resources

    def test_without_yes_nothing_is_let_go(self, folder: Path, programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
        calls = programs(pulumi=f"/bin/cat {document(folder, 'state.json', STATE)}")
        assert main(["release", "prod"]) == 0
        assert calls.read_text().splitlines() == ["pulumi stack export --stack prod --non-interactive"]
        assert "Nothing was let go. To do it: add --yes" in capsys.readouterr().out

    def test_with_yes_the_state_is_saved_for_its_owner_before_it_is_forgotten(self, folder: Path, programs: Programs) -> None:
        state = document(folder, "state.json", STATE)
        saved = folder / "released-prod.json"
        calls = programs(pulumi=f'case "$*" in *delete*) /bin/ls {saved} >/dev/null || exit 9;; *) /bin/cat {state};; esac')
        assert main(["release", "prod", "--yes"]) == 0
        assert calls.read_text().splitlines()[-1] == "pulumi state delete --all --force --yes --stack prod --non-interactive"
        assert json.loads(saved.read_text()) == STATE
        assert stat.S_IMODE(saved.stat().st_mode) == 0o600

    def test_a_saved_state_is_never_written_over(
        self, folder: Path, programs: Programs, capsys: pytest.CaptureFixture[str]
    ) -> None:
        calls = programs(pulumi=f"/bin/cat {document(folder, 'state.json', STATE)}")
        (folder / "released-prod.json").write_text("the one before")
        assert main(["release", "prod", "--yes"]) == 2
        assert "is there already" in capsys.readouterr().err
        assert "delete" not in calls.read_text()
        assert (folder / "released-prod.json").read_text() == "the one before"

    @pytest.mark.parametrize(
        ("state", "says"),
        [
            (None, "is not a state of a stack"),
            ({"deployment": {}}, "has nothing in it"),
            ({"deployment": {"resources": STATE["deployment"]["resources"][3:]}}, "has no component of gpu-pools in it"),
            ({"deployment": {"pending_operations": [{"resource": {"urn": "u::gpu-a-pool"}}]}}, "gpu-a-pool were being changed"),
        ],
    )
    def test_half_a_deploy_or_none_is_refused(
        self, folder: Path, programs: Programs, state: object, says: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        calls = programs(pulumi=f"/bin/cat {document(folder, 'state.json', state)}")
        assert main(["release", "prod", "--yes"]) == 2
        assert says in capsys.readouterr().err
        assert "delete" not in calls.read_text()

    def test_an_engine_that_is_missing_or_refuses_is_told(self, programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["release", "prod"]) == 2
        assert "there is no pulumi on PATH" in capsys.readouterr().err
        programs(pulumi="echo the backend is away >&2; exit 255")
        assert main(["release", "prod"]) == 2
        assert "pulumi ended with 255: the backend is away" in capsys.readouterr().err

    def test_a_stack_that_the_engine_does_not_know_is_refused_with_where_to_look(
        self, folder: Path, programs: Programs, capsys: pytest.CaptureFixture[str]
    ) -> None:
        programs(pulumi="""echo "error: no stack named 'prod' found" >&2; exit 255""")
        assert main(["release", "prod", "--yes"]) == 2
        told = capsys.readouterr().err
        assert "prod: is not a stack that the engine knows" in told
        assert "pulumi stack ls --all" in told
        assert not (folder / "released-prod.json").exists()

    def test_a_file_is_not_a_stack(self, folder: Path, programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
        calls = programs(pulumi=f"/bin/cat {document(folder, 'state.json', STATE)}")
        assert main(["release", document(folder, "released-prod.json", STATE), "--yes"]) == 2
        told = capsys.readouterr().err
        assert "released-prod.json: is a file" in told
        assert "pulumi stack import" in told
        assert not calls.exists()

    def test_the_tag_is_told_of_where_a_pool_has_it(self) -> None:
        """A pool that was only held has never got it."""
        assert not any("tag gpu-pools" in one for one in released(STATE).no_longer)
        state = json.loads(json.dumps(STATE))
        state["deployment"]["resources"][3]["inputs"] = {"tags": {"gpu-pools": "gpu-pools/prod"}}
        assert any("the tag gpu-pools of gpu-a-pool still names the stack" in one for one in released(state).no_longer)

    def test_what_a_program_has_beside_the_components_is_told_by_name(self) -> None:
        own = {"urn": "urn:pulumi:prod::gpu-pools::azure-native:network:VirtualNetwork::hub", "custom": True}
        state = json.loads(json.dumps(STATE))
        state["deployment"]["resources"].append({**own, "type": "azure-native:network:VirtualNetwork"})
        assert any("is let go, too: hub" in one for one in released(state).no_longer)
        assert not any("is let go, too" in one for one in released(STATE).no_longer)

    def test_a_state_that_the_engine_does_not_forget_stays_saved_and_that_is_told(
        self, folder: Path, programs: Programs, capsys: pytest.CaptureFixture[str]
    ) -> None:
        state = document(folder, "state.json", STATE)
        programs(pulumi=f'case "$*" in *delete*) echo locked >&2; exit 1;; *) /bin/cat {state};; esac')
        assert main(["release", "prod", "--yes"]) == 2
        told = capsys.readouterr().err
        assert "pulumi ended with 1: locked" in told
        assert "The state is saved in released-prod.json" in told
        assert json.loads((folder / "released-prod.json").read_text()) == STATE
