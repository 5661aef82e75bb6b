"""Run the Python programs of documentation pages with an installed wheel, against mocks: `python run_snippets.py PAGE...`.

It is started by the Python of the wheel's environment, in which this repository is not on the path. Prints for each page the
types of the resources that its program has registered, as JSON.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sys
from pathlib import Path
from typing import Any

import pulumi
from pulumi.runtime import config, mocks, stack

import gpu_pools

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: byo, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: byo, context: {cluster: byo, user: byo}}]
current-context: byo
users: [{name: byo, user: {token: none}}]
"""
MAGNUM = {"id": "5d12f6fd-a196-4bf0-ae4c-1f639a523a52", "kubeconfig": {"raw_config": KUBECONFIG}, "labels": {}}
AKS = {
    "id": "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/prod",
    "currentKubernetesVersion": "1.34.2",
    "provisioningState": "Succeeded",
    "powerState": {"code": "Running"},
    "identityProfile": {"kubeletidentity": {"objectId": "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"}},
    "agentPoolProfiles": [{"name": "system", "mode": "System"}],
}


class Recorder(pulumi.runtime.Mocks):
    """Remembers the types of resources, and answers what programs of the pages ask."""

    def __init__(self) -> None:
        self.types: list[str] = []

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[Any, Any]]:
        self.types.append(args.typ)
        more = {"kubeconfig": {"raw_config": KUBECONFIG}} if args.typ.endswith(":Cluster") else {}
        return f"{args.name}-id", {"name": args.name, **args.inputs, **more}

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[Any, Any]:
        if "Credentials" in args.token:
            return {"kubeconfigs": [{"name": "user", "value": base64.b64encode(KUBECONFIG.encode()).decode()}]}
        if args.token.endswith("getManagedCluster"):
            return {**AKS, "name": args.args["resourceName"]}
        return {**MAGNUM, "name": args.args.get("name", "one")}


def main(pages: list[str]) -> None:
    """Run the programs of the pages, each in a loop of its own."""
    assert Path(gpu_pools.__file__).is_relative_to(sys.prefix), gpu_pools.__file__
    ran: dict[str, list[list[str]]] = {}
    for page in pages:
        text = Path(page).read_text(encoding="utf-8")
        for program in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            ran.setdefault(page, []).append(_run(compile(program, page, "exec")))
    sys.stdout.write(json.dumps(ran))


def _run(code: Any) -> list[str]:
    recorder = Recorder()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    mocks.set_mocks(recorder, project="project", stack="test", preview=False)
    config.set_all_config({"project:kubeconfig": KUBECONFIG}, [])

    async def whole() -> None:
        exec(code, {})  # noqa: S102 - of this repository

    loop.run_until_complete(stack.run_pulumi_func(whole))
    loop.close()
    return recorder.types


if __name__ == "__main__":
    main(sys.argv[1:])
