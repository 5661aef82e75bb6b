"""The subcommands ``check`` and ``import`` of ``python -m gpu_pools``: arguments, printing, exit codes.

Printed is what the checks return; nothing is decided here. Exit codes: 0 nothing found (import: something came out), 1 findings
(import: no declaration came out), 2 the file cannot be read or recognised, or the command line is wrong; those of every command
are in gpu_pools/cli/main.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.existing.findings import plain
from gpu_pools.existing.plugin_schema import plugin_schema, plugin_version, versions_text
from gpu_pools.hardware.operands import parse_version
from gpu_pools.text.incidents import explained

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_pools.existing.check import Checked
    from gpu_pools.existing.findings import Finding
    from gpu_pools.hardware.models import Version

_FOUND: Final = 1
_UNREADABLE: Final = 2


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the two subcommands; each sets ``run`` to what it does with the parsed options."""
    check = commands.add_parser("check", help="say what the real software does with an existing config file")
    check.add_argument(
        "file", help="a device-plugin config, a ConfigMap of them, a mig-parted config, or gpu-operator values; - for stdin"
    )
    check.add_argument(
        "--device-plugin",
        type=_version,
        metavar="VERSION",
        help=f"look at this version only ({versions_text(plugin_schema().versions)}; default: all of them)",
    )
    check.add_argument(
        "--mig-parted",
        type=_mig_parted,
        metavar="VERSION",
        help="look at this version of nvidia-mig-parted (mig-manager) only, e.g. 0.12.3 (default: all of them)",
    )
    check.add_argument("--json", action="store_true", help="print JSON for machines")
    check.set_defaults(run=_check)
    imports = commands.add_parser("import", help="turn existing config files into the sharing section of a stack file")
    imports.add_argument("files", nargs="+", metavar="FILE", help="any file that `check` reads")
    imports.add_argument("--json", action="store_true", help="print JSON for machines")
    imports.set_defaults(run=_import)


def _version(text: str) -> str:
    version = plugin_version(text)
    if version is None:
        known = ", ".join(plugin_schema().versions)
        raise argparse.ArgumentTypeError(f"{plain(text)!r} is unknown; known are {known}")
    return version


def _mig_parted(text: str) -> Version:
    version = parse_version(text)
    if version is None:
        raise argparse.ArgumentTypeError(f"{plain(text)!r} is not a version such as 0.12.3")
    return version


# What the commands do is imported where they run: `plan` loads this module too, and needs none of it.


def _check(options: argparse.Namespace) -> int:
    from gpu_pools.existing.check import check_file  # noqa: PLC0415 - see above

    def run() -> int:
        checked = check_file(options.file, options.device_plugin, options.mig_parted)
        print(json.dumps(checked.as_json(), indent=2) if options.json else _text(checked))
        return _FOUND if checked.findings else 0

    return _reading(run, {"documents": [], "findings": []}, as_json=options.json)


def _import(options: argparse.Namespace) -> int:
    from gpu_pools.existing.imported import import_files  # noqa: PLC0415 - see above

    def run() -> int:
        imported = import_files(options.files)
        if options.json:
            print(json.dumps(imported.as_json(), indent=2))
        else:
            print(imported.as_yaml(), end="")
        return 0 if imported.declarations else _FOUND

    return _reading(run, {"sharing": {}, "lost": []}, as_json=options.json)


def _reading(run: Callable[[], int], empty: dict[str, Any], *, as_json: bool) -> int:
    from gpu_pools.existing.documents import UnreadableFileError  # noqa: PLC0415 - see above

    try:
        return run()
    except UnreadableFileError as error:
        problem = error.problem
        if as_json:
            entry = {"path": problem.path, "message": problem.message, "allowed": problem.allowed, "remedy": problem.remedy}
            print(json.dumps({**empty, "errors": [entry]}, indent=2))
        else:
            print(problem, file=sys.stderr)
        return _UNREADABLE


def _text(checked: Checked) -> str:
    versions = versions_text(checked.versions)
    kinds = "; ".join(f"{place}: {kind}" if place else kind for place, kind in checked.documents)
    count = len(checked.findings)
    parted = f"; mig-parted {checked.mig_parted}" if checked.mig_parted else ""
    head = (
        f"{plain(checked.file)}: {kinds} (device plugin {versions}{parted}); {count or 'no'} finding{'' if count == 1 else 's'}"
    )
    lines = [head, *(_finding(finding, checked) for finding in checked.findings)]
    return "\n".join([*lines, *explained(lines[1:])])


def _finding(finding: Finding, checked: Checked) -> str:
    line = f":{finding.line}" if finding.line else ""
    text = f"{finding.severity:<10} {plain(checked.file)}{line}: {finding.path}: {finding.message}\n    really:  {finding.really}"
    if finding.versions and finding.versions != checked.versions:
        text += f"\n    version: {versions_text(finding.versions)}"
    return f"{text}\n    allowed: {finding.allowed}\n    remedy:  {finding.remedy}"
