"""Which ConfigMap of a cluster the verifier's program belongs into: one that holds it, or one that nobody has taken.

The engine compares a deploy with the one before, not with the cluster: that somebody has replaced an object under its name it
does not see. And a kubelet that runs a pod with an immutable ConfigMap looks at it no more, so putting the right one back under
the same name would not reach the pods. So a replaced, or removed, program goes into a ConfigMap of the next name: the engine
makes that one, renews the pods, and deletes the old name last.

Pure: what the cluster has comes in.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpu_pools.proof.verifier_pods import PROGRAM_FILE, program_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def program_place(
    sha256: str, config_maps: Iterable[Mapping[str, Any]], daemon_sets: Iterable[Mapping[str, Any]], file: str = PROGRAM_FILE
) -> str:
    """The name of the ConfigMap.

    Args:
        sha256: of the program's file.
        config_maps: those of the verifiers' namespace, as the API has them.
        daemon_sets: the same of the DaemonSets, which run what was deployed last.
        file: which one it is: the verifier, or what changes nodes.
    """
    there = {str(_part(one, "metadata").get("name")): program_sha256(_part(one, "binaryData"), file) for one in config_maps}
    mounted = {name for one in daemon_sets for name in _mounted(one)}
    numbers = (re.fullmatch(rf"{program_name(sha256, file=file)}(?:-(\d{{1,6}}))?", name) for name in mounted)
    number = max((int(found[1] or 0) for found in numbers if found), default=0)
    while not _free(program_name(sha256, number, file), sha256, there, mounted):
        number += 1
    return program_name(sha256, number, file)


def program_sha256(binary_data: Mapping[str, Any], file: str = PROGRAM_FILE) -> str | None:
    """SHA-256 of a program's file in the ``binaryData`` of a ConfigMap; None where there is none."""
    try:
        return hashlib.sha256(base64.b64decode(str(binary_data[file]), validate=True)).hexdigest()
    except (KeyError, ValueError):
        return None


def _free(name: str, sha256: str, there: Mapping[str, str | None], mounted: set[str]) -> bool:
    """Whether the ConfigMap of that name holds the program, or is not there and missed by nobody."""
    return there[name] == sha256 if name in there else name not in mounted


def _mounted(daemon_set: Mapping[str, Any]) -> Iterator[str]:
    spec = _part(_part(_part(daemon_set, "spec"), "template"), "spec")
    for volume in spec.get("volumes") or []:
        yield str(_part(volume, "configMap").get("name"))


def _part(value: Any, key: str) -> Mapping[str, Any]:  # noqa: ANN401 - of an object of the API
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}
