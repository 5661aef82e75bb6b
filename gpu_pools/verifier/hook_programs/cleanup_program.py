"""Takes from the nodes what NVIDIA's operator and our verifier leave there; runs once, in a pod, when the operator has gone.

Started with this text as an argument by a Job of the operator's chart (node_cleanup.py), so it needs Python alone, and no
double brace may stand in it: Helm would take it for its own. Only names that are the operator's or ours are removed. What others
have written under them stays: a part of the operator that was switched off by hand, an upgrade that is to be skipped.

``all``: every node. ``others``: nodes of pools go with the stack, and what a cloud has put on them it lets nobody take away; the
operator has labelled each other node with a GPU, too.
"""

import sys
import time
import urllib.error
from typing import Any

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

LABELS = ("nvidia.com/gpu.present", "nvidia.com/mig.config", "nvidia.com/mig.config.state", "nvidia.com/gpu-driver-upgrade-state")
DEPLOY = "nvidia.com/gpu.deploy."
WRITTEN_BY_OPERATOR = ("true", "", "paused-for-mig-change", "paused-for-driver-upgrade")
ANNOTATIONS = (REPORT, LEAVING, CHANGE, "nvidia.com/gpu-driver-upgrade-enabled", "nvidia.com/gpu-driver-upgrade.")
#: What the operator's chart brings; Helm never deletes definitions.
DEFINITIONS = ("clusterpolicies", "nvidiadrivers", "gpuclusters")
GROUP = "nvidia.com"
POOL = "gpu-pools/pool"
NOT_FOUND = 404
#: Pods that are just ending may write once more.
LOOKS, PAUSE_SECONDS = 20, 1.0


def leftovers(node: dict[str, Any]) -> dict[str, Any] | None:
    """The merge patch that takes everything away but the condition; None where there is nothing."""
    meta, spec = node["metadata"], spec_without_traces(node)
    labels = [key for key, value in (meta.get("labels") or {}).items() if _is_label(key, value)]
    notes = [key for key in meta.get("annotations") or {} if key.startswith(ANNOTATIONS)]
    if not labels and not notes and not spec:
        return None
    gone = {"labels": dict.fromkeys(labels), "annotations": dict.fromkeys(notes)}
    metadata = {"resourceVersion": meta["resourceVersion"], **gone}
    return {"metadata": metadata} | ({"spec": spec} if spec else {})


def _is_label(key: str, value: str) -> bool:
    ours = key == PLUGIN and OUR_KEY.fullmatch(value) is not None
    return ours or key in LABELS or (key.startswith(DEPLOY) and value in WRITTEN_BY_OPERATOR)


def clean(which: str) -> dict[str, list[str]]:
    """Look at every node once, of all or of others; those that were changed, or could not be -> what was found there."""
    touched = {}
    for node in request("/api/v1/nodes")["items"]:
        if which == "others" and POOL in (node["metadata"].get("labels") or {}):
            continue
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        patch, condition = leftovers(node), has_condition(node)
        if patch is None and not condition:
            continue
        touched[node["metadata"]["name"]] = [*found_on(node, patch), *(["a condition of the verifier"] if condition else [])]
        try:
            if patch is not None:
                request(path, patch)
            if condition:
                take_condition(path)
        except urllib.error.HTTPError as error:
            # A node that has changed or gone is looked at again.
            sys.stderr.write(f"{path}: {error.code} {error.read()[:500]!r}\n")
    return touched


def found_on(node: dict[str, Any], patch: dict[str, Any] | None) -> list[str]:
    """What is taken from a node, each label and annotation with who wrote it as the API server knows it."""
    metadata = (patch or {}).get("metadata", {})
    found = []
    for part in ("labels", "annotations"):
        for key in metadata.get(part) or ():
            writers = sorted(
                {str(one.get("manager")) for one in node["metadata"].get("managedFields") or () if wrote(one, part, key)}
            )
            found.append(f"{key} (by {', '.join(writers) or 'nobody known'})")
    return [*found, *(patch or {}).get("spec", {})]


def wrote(entry: dict[str, Any], part: str, key: str) -> bool:
    """Whether an entry of managedFields has a label or an annotation."""
    fields = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    return f"f:{key}" in (fields.get(f"f:{part}") or {})


def found_or_none(path: str) -> dict[str, Any] | None:
    """What is at this path; None where there is nothing."""
    try:
        return request(path)
    except urllib.error.HTTPError as error:
        if error.code == NOT_FOUND:
            return None
        raise


def tie_definitions(namespace: str) -> None:
    """Have the operator's definitions go with its namespace, that came with it, and of which nobody has objects.

    What is older than the namespace, which the stack made before the release, was somebody else's. They are not deleted here: a
    Helm that is killed before it has forgotten the release needs them to go on (helm v3.20.2, pkg/action/uninstall.go,
    deleteRelease). The engine deletes the namespace once Helm has ended, and Kubernetes then what belongs to it.
    """
    space = found_or_none(f"/api/v1/namespaces/{namespace}")
    if space is None:
        return
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": namespace, "uid": space["metadata"]["uid"]}
    for kind in DEFINITIONS:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}.{GROUP}"
        definition = found_or_none(path)
        if definition is None:
            continue
        owners = definition["metadata"].get("ownerReferences") or []
        wanted = [one for one in owners if one["uid"] != owner["uid"]]
        if _made(definition) >= _made(space) and not _objects(definition, kind):
            wanted.append(owner)
        if wanted != owners:
            metadata = {"resourceVersion": definition["metadata"]["resourceVersion"], "ownerReferences": wanted}
            request(path, {"metadata": metadata})


def _objects(definition: dict[str, Any], kind: str) -> list[Any]:
    """One object of a definition, or none."""
    version = next(one["name"] for one in definition["spec"]["versions"] if one["storage"])
    found = found_or_none(f"/apis/{GROUP}/{version}/{kind}?limit=1") or {}
    return found.get("items") or []


def _made(item: dict[str, Any]) -> str:
    # RFC 3339 in UTC, to the second: as texts they are in their order.
    return str(item["metadata"]["creationTimestamp"])


def main() -> int:
    """Clean until two looks find nothing; 1 if that never happens."""
    quiet, touched = 0, {}
    for _ in range(LOOKS):
        touched = clean(sys.argv[2])
        quiet = 0 if touched else quiet + 1
        if quiet > 1:
            tie_definitions(sys.argv[1])
            return 0
        time.sleep(PAUSE_SECONDS)
    again = "; ".join(f"{name}: {', '.join(found)}" for name, found in touched.items())
    sys.stderr.write(f"after {LOOKS} looks somebody still writes what is removed. Stop the writer, and try again: {again}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
