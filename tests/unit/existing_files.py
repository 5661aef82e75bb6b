"""Existing files of the tests: the fixtures of tests/unit/data, and short ones written on the spot."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_pools.existing.check import check_file

if TYPE_CHECKING:
    from gpu_pools.existing.check import Checked
    from gpu_pools.existing.findings import Finding

DATA = Path(__file__).parent / "data"
FIXTURES = tuple(sorted(path.name for path in DATA.glob("*.yaml")))

#: (config, whether device plugin 0.19.0 loads it); tests/sandbox/real has the real one load them.
DECODED = (
    ("sharing: {timeSlicing: }", False),
    ("sharing: {timeSlicing: {}}", False),
    ("sharing: {mps: }", True),
    ("sharing: {mps: {}}", False),
    ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4.0}]}}", True),
    ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4e0}]}}", True),
    ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 0x4}]}}", True),
    ('sharing: {timeSlicing: {resources: [{name: gpu, replicas: "4"}]}}', False),
    ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: true}]}}", False),
    ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 99999999999999999999}]}}", False),
    ("sharing: {timeSlicing: {Resources: [{name: gpu, replicas: 4}]}}", False),
    ("sharing: {timeSlicing: {resources: [null]}}", False),
    ("sharing: {timeSlicing: {resources: {}}}", False),
    ("sharing: {timeSlicing: {resources: [{name: 5, replicas: 4}]}}", False),
    ("sharing: {timeSlicing: {resources: [{name: GPU_X, replicas: 4}]}}", False),
    ("sharing: {timeSlicing: {resources: [{name: amd.com/gpu, replicas: 4}]}}", False),
    ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4, devices: }]}}", False),
    ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4, devices: []}]}}", True),
    ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4, devices: [1:0]}]}}", True),
    ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4, rename: }]}}", False),
    ("sharing: {timeSlicing: {failRequestsGreaterThanOne: yes, resources: [{name: gpu, replicas: 4}]}}", True),
    ('flags: {failOnInitError: "true"}', False),
    ("flags: {failOnInitError: }", True),
    ("flags: {migStrategy: 1}", False),
    ("flags: {plugin: {deviceListStrategy: 5}}", False),
    ("flags: {gfd: {sleepInterval: 5}}", True),
    ('flags: {gfd: {sleepInterval: "5"}}', False),
    ("flags: {gfd: {sleepInterval: true}}", False),
    ("imex: {channelIDs: 0}", False),
    ("resources: {gpus: [{pattern: a}]}", False),
    ("resources: {gpus: }", True),
    ("sharing: []", False),
)


def plugin(body: str) -> str:
    """A device-plugin config with that content."""
    return "version: v1\n" + textwrap.dedent(body)


def sliced(entry: str, *, kind: str = "timeSlicing", before: str = "") -> str:
    """A device-plugin config that shares one resource."""
    return f"version: v1\n{before}sharing: {{{kind}: {{resources: [{{{entry}}}]}}}}\n"


def mig(entries: str) -> str:
    """A mig-parted file with one named config, ``mine``."""
    return f"version: v1\nmig-configs: {{mine: [{entries}]}}\n"


def config_map(name: str, **texts: str) -> str:
    """A ConfigMap with those texts; two underscores in a key stand for a dot."""
    head = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: gpu-operator}}\ndata:\n"
    return head + "".join(f"  {key.replace('__', '.')}: |\n{textwrap.indent(text, '    ')}" for key, text in texts.items())


def check_text(folder: Path, text: str, version: str | None = None, mig_parted: tuple[int, ...] | None = None) -> Checked:
    """The result of checking a text."""
    path = folder / "existing.yaml"
    path.write_text(text, encoding="utf-8")
    return check_file(str(path), version, mig_parted)


def found(checked: Checked, severity: str, path: str) -> Finding:
    """The only finding of that severity at that path."""
    (finding,) = [each for each in checked.findings if each.severity == severity and each.path == path]
    return finding
