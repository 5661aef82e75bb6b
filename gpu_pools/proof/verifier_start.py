"""What the verifier's containers run first: it holds the mounted files against the digests in the pod's own spec, then runs them.

Who may write ConfigMaps in the verifiers' namespace can delete the program's and make another one under its name, `immutable` or
not. So the pod's spec, which takes the right to change DaemonSets, says which bytes are meant. They are read once; what was
hashed is what runs, from a sealed file in memory that has no name, since a file in a volume may change between two looks.

Here is that program's text, and who calls it. What it cannot do: tell that the image's Python or the spec itself is another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Arguments: where last words go; each file and its SHA-256, the program's first; two hyphens; the program's own arguments.
START: Final = """\
import fcntl, hashlib, os, sys, zipimport
log, *rest = sys.argv[1:]
end = rest.index("--")
places = []
for file, wanted in zip(rest[:end:2], rest[1:end:2]):
    with open(file, "rb") as mounted:
        content = mounted.read()
    found = hashlib.sha256(content).hexdigest()
    if found != wanted:
        why = f"cannot tell: W90: {file} is not the verifier that was deployed: its SHA-256 is {found}, not {wanted}."
        why += " Run pulumi up."
        with open(log, "w") as words:
            words.write(why)
        print(why, file=sys.stderr)
        sys.exit(2)
    copy = os.memfd_create("verifier", os.MFD_ALLOW_SEALING)
    with open(copy, "wb", closefd=False) as memory:
        memory.write(content)
    fcntl.fcntl(copy, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    places.append(f"/proc/self/fd/{copy}")
sys.argv = [places[0], *rest[end + 1:]]
sys.path[:0] = places
exec(zipimport.zipimporter(places[0]).get_code("__main__"), {"__name__": "__main__"})
"""


def start_command(file: str, sha256: str, log: str, added: Sequence[tuple[str, str]] = ()) -> list[str]:
    """The command of a container, to which the program's own arguments are added.

    Args:
        file: where the program is mounted.
        sha256: of its bytes, in hexadecimal.
        log: where the kubelet looks for last words.
        added: other files from which it imports, each with its SHA-256.
    """
    files = [word for pair in ((file, sha256), *added) for word in pair]
    # Nothing of the image's environment or of what is installed there decides what is imported.
    return ["python3", "-I", "-S", "-c", START, log, *files, "--"]
