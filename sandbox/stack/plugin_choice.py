"""Which providers of a stack are real plugins: what it came up with plays until it is down.

Plugins are downloaded by default, so a real one may come to a machine while stacks are up. It records more of an object than the
stand-in does: the real Kubernetes plugin then replaces most of what the stand-in has made, which the next change of a stack file
would be blamed for. The other way round somebody has asked for it. Not here: finding plugins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sandbox.system.files import read_json, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_pools.plan.planned import Plan
    from sandbox.stack.state import Sandbox
    from sandbox.system.progress import Progress
    from sandbox.toolchain.tools import Tools

#: Provider -> where Tools has its plugin.
_PLUGINS: Final = {"kubernetes": "kubernetes_plugin", "openstack": "openstack_plugin"}


def to_download(sandbox: Sandbox, plan: Plan) -> list[str]:
    """The providers whose real plugins a stack can use, of those that can be downloaded; none where it is up."""
    if _record(sandbox).exists():
        return []
    return ["kubernetes", *(["openstack"] if plan.platform == "magnum" else [])]


def kept(sandbox: Sandbox, tools: Tools, progress: Progress) -> Tools:
    """The tools without the real plugins in whose place a stand-in played when the stack came up.

    Args:
        sandbox: of the stack.
        tools: what this machine has.
        progress: told what goes on playing, and how to change that.
    """
    for provider, real in read_json(_record(sandbox)).items():
        if not real and getattr(tools, _PLUGINS[provider]) is not None:
            progress.note(
                f"the stand-in of the {provider} plugin goes on playing, since {sandbox.stack} came up with it: "
                f"`make down STACK={sandbox.stack}` lets the real one in"
            )
            without: dict[str, Any] = {_PLUGINS[provider]: None}
            tools = replace(tools, **without)
    return tools


def remember(sandbox: Sandbox, tools: Tools) -> None:
    """Write down what a stack comes up with, the first time."""
    if not _record(sandbox).exists():
        write_json(_record(sandbox), {one: getattr(tools, name) is not None for one, name in _PLUGINS.items()})


def _record(sandbox: Sandbox) -> Path:
    return sandbox.folder / "plugins.json"
