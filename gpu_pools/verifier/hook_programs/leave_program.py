"""Takes MIG back from nodes that leave, before anything of the operator goes; runs once, in a pod that Helm waits for.

``all``: the stack goes, and with it all its pools. ``removed``: it goes on without some pools, whose nodes are found by the rules
that are still there; these rules go first, since NFD would put the layout's label back. Pods that hold GPUs of such nodes are
named, and then nothing is changed: it evicts nobody. Where the operator has gone already there is nothing to do, as Helm never
deletes it before this has ended well.

What was on the GPUs before the stack came nobody has written down, so MIG goes off. What stands against it becomes the reason
for which the Job fails: Helm tells that, and with it `pulumi destroy` and `pulumi up`. Started with this text as an argument by
a Job of the operator's chart (node_leaving.py): Python alone, and no double brace, which Helm would take for its own.

What mig-manager does and where it is silent was read in mig-parted v0.15.0 (cmd/nvidia-mig-manager, pkg/mig/reconfigure).
"""

import json
import sys
import time
import urllib.error
import urllib.parse
from collections.abc import Iterator
from typing import Any

from gpu_pools.verifier.changer.nfd_rules import names_of_setters
from gpu_pools.verifier.hook_programs.node_traces import (
    CHANGE,
    LEAVING,
    OUR_KEY,
    PLUGIN,
    REPORT,
    has_condition,
    spec_without_traces,
    take_condition,
)
from gpu_pools.verifier.hook_programs.pod_api import request
from gpu_pools.verifier.quantities import read_count

OFF = "all-disabled"
CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
DEPLOY, PAUSED = "nvidia.com/gpu.deploy.mig-manager", "paused-for-mig-change"
POOL, RULE = "gpu-pools/pool", "gpu-pools-"
#: An annotation of a node that leaves, by which whoever takes over after an interruption knows how far it has come.
MARKED, ASKED = "marked", "mig-off-asked"
#: What a person sets there who does not want to wait for mig-manager: MIG stays as it is, all else is given back.
AS_IS = "as-is"
BY_NFD = "nfd.node.kubernetes.io/feature-labels"
NODES, RULES = "/api/v1/nodes", "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
VERIFIERS = "gpu-pools-verifier"
FORBIDDEN, NOT_FOUND, CONFLICT = 403, 404, 409
#: How long pods that are ending are waited for, a node that is not ready, and all together.
ENDING_SECONDS, UNREADY_SECONDS, ALL_SECONDS, PAUSE_SECONDS = 120.0, 120.0, 1400.0, 2.0
#: How long mig-manager may be silent once it is asked, and how long a new one: it waits for the driver and the toolkit first. It
#: misses what happens to a label while its watch is broken, acts on none that is what it was before, and writes no state where it
#: cannot reach the host's systemd or copy its programs there.
SILENT_SECONDS, SILENT_ANEW_SECONDS = 60.0, 300.0
#: How long it may look at a label before it says so: it runs mig-parted thrice.
BEGINS_SECONDS = 20.0
#: How long it may be pending: where a client of its own has not gone after five minutes it gives up, and writes nothing.
PENDING_SECONDS = 330.0
#: How long its pod may not be there at all: without it nobody answers.
ABSENT_SECONDS = 120.0
#: How long NFD has to remove a label: where a rule that is still there names it, and where none does.
NAMED_SECONDS, NFD_SECONDS = 60.0, 300.0
#: mig-manager may still be ending what it was doing before.
LOOKS = 2
#: What Helm is told (the Job's policy): trying again is of no use.
STOPPED = 3
#: The engine still has in its state what has gone by then.
KEEP = " To keep the pool instead put it back, and run `pulumi up --refresh`."
#: So much of a text Helm passes on; the rest is in the Job's own condition. A controller counts failed Jobs by their reasons.
TOLD_CHARACTERS = 1000

DONE, LET_GO, SET, MEND, FORGET, WAIT, FAILED = "done", "let go", "set", "mend", "forget", "wait", "failed"
#: mig-manager's pod on a node: none, one that ends, one that has not begun, one that works.
ABSENT, GOING, STARTING, UP = "absent", "going", "starting", "up"


class StopError(Exception):
    """It cannot go on; its text says why, and what to do."""


def labels(node: dict[str, Any]) -> dict[str, str]:
    """Its labels."""
    found: dict[str, str] = node["metadata"].get("labels") or {}
    return found


def notes(node: dict[str, Any]) -> dict[str, str]:
    """Its annotations."""
    found: dict[str, str] = node["metadata"].get("annotations") or {}
    return found


def by_nfd(node: dict[str, Any], key: str) -> bool:
    """Whether NFD takes a label for its own."""
    return any(key in text.split(",") for name, text in notes(node).items() if name.endswith(BY_NFD))


def is_in(node: dict[str, Any], pools: dict[str, dict[str, str]]) -> bool:
    """Whether the selector of one of these pools selects the node."""
    return any(selector.items() <= labels(node).items() for selector in pools.values())


def leaves(node: dict[str, Any], stage: str, pools: dict[str, dict[str, str]]) -> bool:
    """Whether the node leaves.

    Args:
        node: the object.
        stage: ``all`` or ``removed``.
        pools: name -> selector; those that go, or those that stay.
    """
    if stage == "all":
        return is_in(node, pools)
    pool = labels(node).get(POOL)
    return (LEAVING in notes(node) or (pool is not None and pool not in pools)) and not is_in(node, pools)


def next_step(node: dict[str, Any], begun: str, seconds: float = 0.0, manager: str = UP) -> str:
    """What is to be done next.

    Args:
        node: the object.
        begun: the last step, of SET and MEND, that was done here; empty before the first.
        seconds: how long ago that was, or the first look.
        manager: what mig-manager's pod is there.
    """
    config, state = labels(node).get(CONFIG), labels(node).get(STATE)
    mark = notes(node).get(LEAVING)
    if mark == AS_IS:
        return DONE
    if mark != ASKED and (state is None or (config == OFF and state == "success")):
        return _of_others(node, seconds, manager)
    if by_nfd(node, CONFIG):
        return LET_GO
    if config != OFF:
        # Who is at something else would end it, and say of it what is then taken for the answer.
        return MEND if state == "pending" else SET
    return _of_asked(node, begun, seconds, manager)


def _of_others(node: dict[str, Any], seconds: float, manager: str) -> str:
    """What is to be done where nobody has asked, and mig-manager says nothing or that MIG is off."""
    if labels(node).get(STATE) == "success":
        return MEND if is_paused(node) and manager == UP else DONE
    # It has never done anything there, or is just about to.
    begins = labels(node).get(CONFIG) not in (None, OFF) and manager == UP and seconds <= BEGINS_SECONDS
    return WAIT if begins else DONE


def _of_asked(node: dict[str, Any], begun: str, seconds: float, manager: str) -> str:
    """What is to be done where mig-manager was asked: where it has not ended well it is begun anew, once."""
    state = labels(node).get(STATE)
    if state == "rebooting" or manager in (GOING, STARTING) or (manager == ABSENT and begun == MEND):
        return _of_away(state, seconds, manager)
    if state == "success":
        return MEND if is_paused(node) and begun != MEND and manager == UP else DONE
    if not begun:
        # One that was interrupted.
        return MEND
    silent, pending = state is None and seconds > SILENT_SECONDS, state == "pending" and seconds > PENDING_SECONDS
    if begun != MEND:
        # One that failed for the label that was there before, one that says nothing, and one that has given up.
        return MEND if state == "failed" or silent or pending else WAIT
    return FAILED if state == "failed" or pending else _late(seconds if state is None else 0.0, manager)


def _of_away(state: str | None, seconds: float, manager: str) -> str:
    """What is to be done while no mig-manager runs: what one has said that ends is taken away before a new one begins.

    But for `rebooting`: by that it knows after the reboot that it must not reboot once more.
    """
    if state == "rebooting":
        return WAIT
    return _late(seconds, manager) if state is None or manager == GOING else FORGET


def _late(seconds: float, manager: str) -> str:
    """Whether a new mig-manager is still waited for."""
    return FAILED if seconds > (ABSENT_SECONDS if manager == ABSENT else SILENT_ANEW_SECONDS) else WAIT


def is_paused(node: dict[str, Any]) -> bool:
    """Whether its clients are kept away; after a change that failed mig-manager brings them back no more, but a new one does."""
    return PAUSED in labels(node).values()


def state_of(pods: list[dict[str, Any]], old: frozenset[str]) -> str:
    """Which of the states mig-manager's pods on a node are in.

    Args:
        pods: the objects.
        old: uids of those that were deleted.
    """
    if any(pod["metadata"]["uid"] in old or pod["metadata"].get("deletionTimestamp") for pod in pods):
        return GOING
    conditions = [one for pod in pods for one in (pod.get("status") or {}).get("conditions") or []]
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return UP if ready else STARTING if pods else ABSENT


def waits_for(pods: list[dict[str, Any]]) -> str:
    """What keeps such pods from beginning, as their containers say it."""
    statuses = [pod.get("status") or {} for pod in pods]
    every = [
        one for status in statuses for key in ("initContainerStatuses", "containerStatuses") for one in status.get(key) or []
    ]
    reasons = [(one.get("state") or {}).get("waiting", {}).get("reason") for one in every]
    return ", ".join(sorted({str(reason) for reason in reasons if reason})) or "it has not begun"


def is_ready(node: dict[str, Any]) -> bool:
    """Whether it is, or reboots for the change of its MIG mode."""
    conditions = node.get("status", {}).get("conditions") or []
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready or labels(node).get(STATE) == "rebooting"


def listed(path: str, chosen: str = "") -> Iterator[dict[str, Any]]:
    """All objects of a kind, page by page; those that a selector chooses, where there is one."""
    after = ""
    while True:
        page = request(f"{path}?limit=500&continue={urllib.parse.quote(after)}{'&' if chosen else ''}{chosen}")
        yield from page.get("items") or []
        after = page.get("metadata", {}).get("continue") or ""
        if not after:
            return


def holds(pod: dict[str, Any]) -> bool:
    """Whether a pod is to have GPUs, and is not over; an amount that cannot be read counts as GPUs, and 0 as none."""
    every = [*(pod["spec"].get("initContainers") or []), *(pod["spec"].get("containers") or [])]
    wanted = [of for one in every for of in (one.get("resources") or {}).values() if isinstance(of, dict)]
    over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    gpus = [amount for names in wanted for name, amount in names.items() if name.startswith("nvidia.com/")]
    return not over and any(read_count(amount) != 0 for amount in gpus)


def holders(names: set[str], operators: str) -> list[dict[str, Any]]:
    """The pods that hold GPUs of these nodes; those of the operator's namespace only check them, and end by themselves."""
    pods = listed("/api/v1/pods") if names else iter(())
    found = [pod for pod in pods if pod["spec"].get("nodeName") in names and pod["metadata"]["namespace"] != operators]
    return [pod for pod in found if holds(pod)]


def told(pods: list[dict[str, Any]]) -> str:
    """Such pods by node, as messages name them."""
    lines = []
    for pod in sorted(pods, key=lambda one: (one["spec"]["nodeName"], one["metadata"]["namespace"], one["metadata"]["name"])):
        owners = [one["kind"] for one in pod["metadata"].get("ownerReferences") or [] if one.get("controller")]
        of = f" (of a {owners[0]})" if owners else " (a bare pod)"
        lines.append(f"{pod['spec']['nodeName']}: {pod['metadata']['namespace']}/{pod['metadata']['name']}{of}")
    return "; ".join(lines)


class Leaving:
    """Nodes that leave, from wherever they are to the end."""

    def __init__(self, stage: str, operators: str, pools: dict[str, dict[str, str]]) -> None:
        """Nothing is done yet.

        Args:
            stage: ``all`` or ``removed``.
            operators: the operator's namespace.
            pools: name -> selector; those that go, or those that stay.
        """
        self.stage, self.operators, self.pools = stage, operators, pools
        #: Node -> its last step, when, and the uids of mig-manager's pods that were deleted in it.
        self.begun: dict[str, tuple[str, float, frozenset[str]]] = {}
        #: Node -> mig-manager's pods.
        self.managers: dict[str, list[dict[str, Any]]] = {}
        self.unready: dict[str, float] = {}
        #: Node and label -> since when NFD is waited for.
        self.labelled: dict[tuple[str, str], float] = {}
        self.end = time.monotonic() + ALL_SECONDS
        #: Whether rules have gone that the engine takes for there.
        self.untied = False

    def nodes(self) -> list[dict[str, Any]]:
        """Those that leave, as they are."""
        return [node for node in request(NODES)["items"] if leaves(node, self.stage, self.pools)]

    def empty(self) -> None:
        """See that no pod holds GPUs of these nodes; one that is ending is waited for.

        Raises:
            StopError: naming the others.
        """
        end = time.monotonic() + ENDING_SECONDS
        while found := holders({node["metadata"]["name"] for node in self.nodes()}, self.operators):
            if time.monotonic() > end or any(not pod["metadata"].get("deletionTimestamp") for pod in found):
                message = (
                    f"nothing was changed, since pods hold GPUs of nodes that leave: {told(found)}. End them, and try again."
                )
                raise StopError(message)
            time.sleep(PAUSE_SECONDS)

    def untie(self) -> None:
        """Of removed pools: mark their nodes, then take away the rules by which NFD labels these, and by which they are found."""
        self.untied = True
        for node in request(NODES)["items"]:
            marked, going = LEAVING in notes(node), leaves(node, self.stage, self.pools)
            if marked != going:
                mark(node, MARKED if going else None)
        for rule in list(listed(RULES)):
            name = rule["metadata"]["name"]
            pool = name.removeprefix(RULE)
            ours = [one.get("name") for one in rule["spec"].get("rules") or []] == [f"gpu-pools {pool}"]
            if name.startswith(RULE) and ours and pool not in self.pools:
                request(f"{RULES}/{name}", method="DELETE")

    def run(self) -> None:
        """Go on until several looks find nothing left to do.

        Raises:
            StopError: where a node cannot go on.
        """
        quiet = 0
        while quiet < LOOKS:
            try:
                nodes = self.nodes()
                self.look()
                left = [node for node in nodes if self.go_on(node) != DONE]
                quiet = 0 if left else quiet + 1
                self.check(left)
            except urllib.error.HTTPError as error:
                if error.code not in (NOT_FOUND, CONFLICT):
                    raise
            time.sleep(PAUSE_SECONDS)

    def look(self) -> None:
        """Read mig-manager's pods."""
        self.managers = {}
        for pod in listed(f"/api/v1/namespaces/{self.operators}/pods", "labelSelector=app%3Dnvidia-mig-manager"):
            self.managers.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)

    def go_on(self, node: dict[str, Any]) -> str:
        """One step of a node; which."""
        name, now = node["metadata"]["name"], time.monotonic()
        begun, when, old = self.begun.setdefault(name, ("", now, frozenset()))
        there = self.managers.get(name, [])
        manager = state_of(there, old)
        step = next_step(node, begun, now - when, manager)
        if step == MEND:
            old = self.end_manager(there)
        if step in (SET, MEND, FORGET):
            self.ask(node, step)
        if step in (SET, MEND):
            self.begun[name] = step, now, old
        if step == FAILED:
            raise StopError(self.why(node, manager))
        if step == LET_GO:
            self.wait_for_nfd(name, CONFIG)
        return step

    def wait_for_nfd(self, name: str, key: str) -> None:
        """See that NFD may still remove a label from a node.

        Args:
            name: of the node.
            key: of the label.

        Raises:
            StopError: naming the rules that set it, or after a time in which NFD did nothing.
        """
        now = time.monotonic()
        since = self.labelled.setdefault((name, key), now)
        if since == now:
            tell(f"{name}: waiting until NFD removes the label {key}")
        waited = now - since
        rules = names_of_setters(listed(RULES), key) if waited > NAMED_SECONDS else []
        if rules:
            message = (
                f"{name}: NFD still sets the label {key} after {NAMED_SECONDS:.0f} s, since it is named by NodeFeatureRule "
                f"{', '.join(sorted(rules))}. Remove the label from that rule or delete the rule, and try again."
            )
            raise StopError(message)
        if waited > NFD_SECONDS:
            message = (
                f"{name}: NFD has not removed the label {key} in {NFD_SECONDS:.0f} s, and no NodeFeatureRule names it. See that "
                "nfd-master and nfd-worker run, and that no NodeFeature object or feature file sets it; then try again."
            )
            raise StopError(message)

    def end_manager(self, pods: list[dict[str, Any]]) -> frozenset[str]:
        """Delete a node's pods of mig-manager: a new one begins anew. Their uids."""
        for pod in pods:
            try:
                request(f"/api/v1/namespaces/{self.operators}/pods/{pod['metadata']['name']}", method="DELETE")
            except urllib.error.HTTPError as error:
                if error.code != NOT_FOUND:
                    raise
        return frozenset(pod["metadata"]["uid"] for pod in pods)

    @staticmethod
    def ask(node: dict[str, Any], step: str) -> None:
        """Set the label; without the state, so that what comes next is an answer to this."""
        name = node["metadata"]["name"]
        said = {
            SET: "MIG is taken back",
            MEND: "mig-manager is started anew",
            FORGET: "the old mig-manager's last word is dropped",
        }
        tell(f"{name}: {said[step]}")
        same = {"resourceVersion": node["metadata"]["resourceVersion"]}
        metadata = {**same, "labels": {CONFIG: OFF, STATE: None}, "annotations": {LEAVING: ASKED}}
        request(f"{NODES}/{name}", {"metadata": metadata})

    def why(self, node: dict[str, Any], manager: str) -> str:
        """What stands against a node, and what to do."""
        name = node["metadata"]["name"]
        found, deploy = told(holders({name}, self.operators)), labels(node).get(DEPLOY)
        reasons = {
            ABSENT: f"no pod of nvidia-mig-manager is there (the node's label {DEPLOY} is {deploy})",
            GOING: "its pod of nvidia-mig-manager does not end",
            STARTING: f"its pod of nvidia-mig-manager does not begin: {waits_for(self.managers.get(name, []))}",
            UP: f"nvidia-mig-manager says {labels(node).get(STATE)}, and the log of its pod why",
        }
        why = f"pods hold its GPUs: {found}" if found else reasons[manager]
        return (
            f"{name}: MIG could not be taken back; {why}. Nothing of the operator has gone: mend it and try again. To leave its "
            f"GPUs as they are: kubectl annotate --overwrite node {name} {LEAVING}={AS_IS}."
        )

    def check(self, left: list[dict[str, Any]], waits_for: str = "") -> None:
        """See that what is left may still come to an end.

        Args:
            left: the nodes that are not done.
            waits_for: what they wait for, if not for mig-manager.

        Raises:
            StopError: where it may not.
        """
        now = time.monotonic()
        names = [node["metadata"]["name"] for node in left]
        self.unready = {
            node["metadata"]["name"]: self.unready.get(node["metadata"]["name"], now) for node in left if not is_ready(node)
        }
        lost = sorted(name for name, since in self.unready.items() if now - since > UNREADY_SECONDS)
        if lost or now > self.end:
            state = ", ".join(sorted({str(labels(node).get(STATE)) for node in left}))
            waited = waits_for or f"still not without MIG, {STATE} is {state}"
            why = "not ready" if lost else f"{waited}, after {ALL_SECONDS:.0f} s"
            message = (
                f"{', '.join(lost or names)}: {why}. Nothing of the operator has gone: mend or delete these nodes, try again."
            )
            raise StopError(message)

    def withdraw(self) -> None:
        """Of removed pools: delete the verifiers, which would write on the nodes again, and change them."""
        sets = f"/apis/apps/v1/namespaces/{VERIFIERS}/daemonsets"
        try:
            for one in list(listed(sets)):
                pool = one["spec"]["template"]["metadata"]["labels"].get(POOL)
                if one["metadata"]["name"] == f"{VERIFIERS}-{pool}" and pool not in self.pools:
                    request(f"{sets}/{one['metadata']['name']}", method="DELETE")
        except urllib.error.HTTPError as error:
            if error.code not in (FORBIDDEN, NOT_FOUND):
                raise
            tell("what verifiers of removed pools have written stays: none are there, or their namespace does not allow it yet")

    def let_go(self) -> None:
        """Of removed pools: what verifiers have set goes with them; `all-disabled` stays, as the operator's own default.

        Raises:
            StopError: where that does not come to an end.
        """
        pods = f"/api/v1/namespaces/{VERIFIERS}/pods"
        while left := self.nodes():
            verifying = [pod["metadata"]["name"] for pod in listed(pods) if labels(pod).get(POOL) not in (None, *self.pools)]
            self.check(left, f"pods of verifiers did not end: {', '.join(sorted(verifying))}" if verifying else "")
            for node in left if not verifying else ():
                if by_nfd(node, POOL):
                    self.wait_for_nfd(node["metadata"]["name"], POOL)
                else:
                    give_back(node)
            time.sleep(PAUSE_SECONDS)


def give_back(node: dict[str, Any]) -> None:
    """Take the traces of verifiers from a node, one request a look; the mark goes with the last of them."""
    path = f"{NODES}/{node['metadata']['name']}"
    ours = {PLUGIN: None} if OUR_KEY.fullmatch(labels(node).get(PLUGIN, "")) else {}
    gone = {"labels": ours, "annotations": dict.fromkeys((LEAVING, REPORT, CHANGE))}
    spec = spec_without_traces(node)
    patch = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"], **gone}} | ({"spec": spec} if spec else {})
    try:
        if has_condition(node):
            take_condition(path)
        else:
            request(path, patch)
    except urllib.error.HTTPError as error:
        # A node that has changed or gone is looked at again.
        if error.code not in (NOT_FOUND, CONFLICT):
            raise


def mark(node: dict[str, Any], value: str | None) -> None:
    """Set the annotation of a node, or take it away."""
    request(f"{NODES}/{node['metadata']['name']}", {"metadata": {"annotations": {LEAVING: value}}})


def tell(text: str) -> None:
    """Into the pod's log."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def fail_job(text: str, operators: str, job: str) -> None:
    """Have a Job fail for this reason, which is what Helm tells of it (helm v3.20.2, pkg/kube/client.go, waitForJob).

    The Job controller makes `Failed` of the condition `FailureTarget`, with its reason and message (Kubernetes 1.26 and newer,
    pkg/controller/job, newFailedConditionForFailureTarget). It ends the pods then, so the text is in the message, too.
    """
    brief = text if len(text) <= TOLD_CHARACTERS else f"{text[:TOLD_CHARACTERS]}… (all of it: kubectl describe)"
    condition = {"type": "FailureTarget", "status": "True", "reason": brief, "message": text}
    path = f"/apis/batch/v1/namespaces/{operators}/jobs/{job}/status"
    try:
        request(path, {"status": {"conditions": [condition]}}, "strategic-merge-patch")
    except urllib.error.URLError as error:
        tell(f"the Job's reason could not be written: {error}")


def has_operator() -> bool:
    """Whether there still is one that could do it."""
    try:
        return bool(request(POLICIES)["items"])
    except urllib.error.HTTPError as error:
        if error.code == NOT_FOUND:
            return False
        raise


def main() -> int:
    """Take MIG back; STOPPED where that cannot be."""
    stage, operators, pools, job = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
    if not has_operator():
        tell("the operator has gone: there is nothing to take back")
        return 0
    leaving = Leaving(stage, operators, pools)
    try:
        leaving.empty()
        if stage == "removed":
            leaving.untie()
            leaving.withdraw()
        leaving.run()
        if stage == "removed":
            leaving.let_go()
    except StopError as error:
        text = f"{error}{KEEP if leaving.untied else ''}"
        tell(text)
        fail_job(text, operators, job)
        return STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
