"""Has a program built without packages that the sandbox does not need: from copies of their modules, which a go.mod names.

Go's own -overlay would need no copies, but refuses what is in its cache of modules. Which packages are left out, and our
files in their place, is in `programs`.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from sandbox.system.errors import SandboxError
from sandbox.system.files import explained

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from sandbox.toolchain.programs import LeftOut

_UNUSED = shutil.ignore_patterns("*_test.go", "testdata")


def without(left_out: Iterable[LeftOut], modules: Mapping[str, Path], graph: Path, folder: Path) -> Path:
    """Make what a program is built from where packages are left out.

    Args:
        left_out: the packages.
        modules: the sources of their modules; they stay as they are.
        graph: the folder with go.mod, go.sum, and our files in left-out/.
        folder: an empty one, for the copies.

    Returns:
        The go.mod to build by; go.sum is beside it.

    Raises:
        SandboxError: when a file that is to stay is not there: another version has it under another name.
    """
    copies = {module: folder / str(number) for number, module in enumerate(modules)}
    with explained(folder, "copy into"):
        for module, copy in copies.items():
            # What is in Go's cache is read-only, folders too.
            shutil.copytree(modules[module], copy, ignore=_UNUSED, copy_function=shutil.copyfile)
            for path in (copy, *copy.rglob("*/")):
                path.chmod(0o755)
        for part in left_out:
            _leave_out(part, copies[part.module] / part.package, graph / "left-out")
        replaced = "".join(f"replace {module} => {copy}\n" for module, copy in copies.items())
        (folder / "go.mod").write_text(_without_replacements((graph / "go.mod").read_text("utf-8"), copies) + replaced, "utf-8")
        shutil.copyfile(graph / "go.sum", folder / "go.sum")
    return folder / "go.mod"


def _without_replacements(text: str, modules: Iterable[str]) -> str:
    """A go.mod that replaces none of these modules: Go takes one replacement of each."""
    names = "|".join(map(re.escape, modules))
    return re.sub(rf"^\s*(?:replace\s+)?(?:{names})(?:\s+v\S+)?\s+=>.*\n", "", text, flags=re.MULTILINE)


def _leave_out(part: LeftOut, package: Path, ours: Path) -> None:
    files = {path.name: path for path in package.glob("*.go")}
    missing = sorted({*part.keep} - {*files})
    if missing:
        message = f"{part.module}: {part.package} has no {', '.join(missing)} in the version that is pinned."
        raise SandboxError(message, "Say in sandbox/toolchain/programs.py which of its files stay.")
    for name in {*files} - {*part.keep}:
        files[name].unlink()
    shutil.copyfile(ours / part.instead, package / part.instead)
