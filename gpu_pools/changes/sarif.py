"""The blast radius as SARIF 2.1.0, which code-scanning shows beside the lines of the stack file.

What is told at a pool points to the line on which the stack file names the pool; the rest points to its first line.
"""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text import harmless

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.changes.blast import BlastRadius

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"mandatory": "error", "advisory": "warning"}
_HOW: Final = {"vanishes": "vanishes", "shrinks": "shrinks", "interrupted": "is away until the change is done"}
#: What this tells by itself, beside policies.
_OWN: Final = {
    "protected": "What is protected is neither replaced nor deleted",
    "ends-pods-without-acknowledgement": "What ends pods is done only after somebody acknowledged it",
    "nodes-renewed": "Operands, driver or Kubernetes start anew on nodes that stay",
    "unsupported-step": "The GPU operator is upgraded one release at a time",
    "change-limit": "A change adds no more than it may",
    "gpus-away": "GPUs are away for a time",
    "drain-first": "Nodes must be free of pods before their sharing changes",
    "resource-less": "A resource that workloads ask for becomes less",
}


def sarif(file: str, text: str, radius: BlastRadius) -> dict[str, Any]:
    """The log: `file` is the stack file's path in the repository, `text` what is in it."""
    results = [_result(file, text, *one) for one in _findings(radius)]
    rules = dict.fromkeys(result["ruleId"] for result in results)
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "gpu-pools",
                        "rules": [
                            {"id": rule, "shortDescription": {"text": harmless.sarif(_OWN.get(rule, rule))}} for rule in rules
                        ],
                    }
                },
                "results": results,
            }
        ],
    }


def _findings(radius: BlastRadius) -> Iterator[tuple[str, str, str, str]]:
    """(rule, level, pool or "", message)."""
    yield from _ended(radius)
    for name in radius.protected:
        yield "protected", "error", _pool_of(radius, name), f"{name} is protected: the engine refuses to replace or delete it."
    for reason in radius.refused:
        yield "unsupported-step", "error", "", f"{reason}."
    for reason in radius.broken:
        yield "change-limit", "error", "", f"{reason}."
    for dip in radius.dips:
        yield "gpus-away", "warning", dip.pool, f"{dip.pool} is without {dip.text}."
    for pool in radius.pools:
        if pool.drain:
            yield "drain-first", "warning", pool.name, f"{pool.name}: {'; '.join(pool.drain)}."
    for less in radius.affected:
        message = f"{less.asking.who} asks for {less.asking.resource}, which {_HOW[less.how]}."
        yield "resource-less", "error" if less.how == "vanishes" else "warning", less.pools[0], message
    for found in radius.findings:
        yield found.rule, _LEVELS.get(found.level, "note"), _pool_of(radius, found.resource), found.message


def _ended(radius: BlastRadius) -> Iterator[tuple[str, str, str, str]]:
    """The same, of what ends pods and of what starts anew."""
    for one in radius.endings:
        if one.acknowledged is None:
            how = f"Acknowledge it as change {one.id}, or avoid it." if one.id else "Avoid it."
            which = one.called()
            message = f"{which[0].upper()}{which[1:]} {one.how}. {how}"
            yield "ends-pods-without-acknowledgement", "error", _pool_of(radius, one.resource), message
    for renewed in radius.renewed:
        if renewed.effect:
            message = f"{renewed.what}: {', '.join(renewed.pools)}: {renewed.happens}"
            yield "nodes-renewed", "warning", renewed.pools[0], message


def _pool_of(radius: BlastRadius, resource: str) -> str:
    """The pool whose resource it is: our components name it after the pool."""
    names = sorted((pool.name for pool in radius.pools), key=len, reverse=True)
    return next((name for name in names if re.search(rf"(^|-){re.escape(name)}(-|$)", resource)), "")


def _result(file: str, text: str, rule: str, level: str, pool: str, message: str) -> dict[str, Any]:
    # JSON can hold half of a pair of surrogates.
    fingerprint = hashlib.sha256(f"{rule}\n{pool}\n{message}".encode(errors="surrogatepass")).hexdigest()
    region = {"startLine": _line(text, pool)}
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": harmless.sarif(message)},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": urllib.parse.quote(file)}, "region": region}}],
        "partialFingerprints": {"gpuPools/v1": fingerprint},
    }


def _line(text: str, pool: str) -> int:
    named = re.compile(rf"\bname:\s*[\"']?{re.escape(pool)}[\"']?\s*([,}}#]|$)")
    lines = text.splitlines()
    return next((number for number, line in enumerate(lines, 1) if pool and named.search(line)), 1)
