"""Records the previews of this folder anew: ``python -m tests.changes.record``, a minute or two.

The stack is brought up in a sandbox, each change is previewed by the real engine with the policy pack, and what is read of the
events is kept: steps that do something, inputs of clusters and pools, findings of policies.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from gpu_pools.changes.resource_types import CLUSTER_TYPES, POOL_TYPES
from tests.changes.stacks import BEFORE, CHANGES, after
from tests.engine.trial import Trial

PREVIEWS = Path(__file__).parent / "previews"
_KEPT = {*CLUSTER_TYPES, *POOL_TYPES, "azure-native:resources:ResourceGroup"}


def shortened(text: str) -> str:
    """The events of a preview, without what nobody reads."""
    return "".join(f"{json.dumps(kept)}\n" for line in text.splitlines() if (kept := _shortened(json.loads(line))))


def _shortened(event: dict[str, Any]) -> dict[str, Any] | None:
    if "policyEvent" in event:
        kept = ("policyName", "enforcementLevel", "resourceUrn", "message")
        return {"policyEvent": {key: event["policyEvent"][key] for key in kept if key in event["policyEvent"]}}
    if event.get("diagnosticEvent", {}).get("severity") == "error":
        return {"diagnosticEvent": {key: event["diagnosticEvent"][key] for key in ("severity", "message")}}
    if "summaryEvent" in event:
        return {"summaryEvent": {"resourceChanges": event["summaryEvent"]["resourceChanges"]}}
    metadata = event.get("resourcePreEvent", {}).get("metadata", {"op": "same"})
    if metadata["op"] == "same":
        return None
    sides = {
        side: {"inputs": metadata[side]["inputs"]} for side in ("old", "new") if metadata.get(side) and metadata["type"] in _KEPT
    }
    return {"resourcePreEvent": {"metadata": {key: metadata.get(key) for key in ("op", "urn", "type", "keys")} | sides}}


def main() -> None:
    """Record all of them."""
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder), BEFORE, "shop")
        try:
            trial.up().ok()
            for change in CHANGES:
                trial.write(after(change))
                trial.run("preview", "shop", "--save", str(Path(folder) / "events")).ok()
                (PREVIEWS / f"{change}.jsonl").write_text(shortened((Path(folder) / "events").read_text()))
        finally:
            trial.end()


if __name__ == "__main__":
    main()
