"""Kubernetes' own reader of amounts, ParseQuantity of k8s.io/apimachinery, as a program; and what it has answered.

`python -m tests.verifier.quantity_parser` asks it anew and writes quantities/recorded.json. The module's version is that of the
sandbox's API server (sandbox/programs/kubernetes/go.mod).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

PLACE: Final = Path(__file__).parent / "quantities"
RECORDED: Final = PLACE / "recorded.json"
_MODULE: Final = Path(__file__).parents[2] / "sandbox" / "programs" / "kubernetes"
_SUFFIXES: Final = (
    *("", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"),
    *("K", "ki", "mi", "Zi", "e", "e3", "E3", "e+3", "E-3", "e-12", "e30", "e-300", "e300", "e3.5", "i", "kM", " "),
    "e99999999999999999999",
)
_NUMBERS: Final = (
    *("0", "1", "2", "7", "00", "007", "10", "500", "1000", "1024"),
    *("9223372036854775807", "9223372036854775808", "99999999999999999999"),
)
_WHOLE: Final = (
    *("1k", "1.", ".5", "1.5", "1.5Gi", "-1", "+1", "--1", "1,5", "1_000", "0x10", "\u0661", "1\u0660", "NaN", "inf", "Infinity"),
    *("1e", "1 k", " 1", "1 ", "k1", "1k1", "1..2", "1.2.3", "+.5Ki", "-0", "-0.0000000001", "0.0000000001"),
    "1.000000000000000000001",
)


def texts(seed: int, count: int) -> list[str]:
    """Amounts and what is nearly one."""
    chance = random.Random(seed)  # noqa: S311 - the same each time
    found = list(_WHOLE)
    while len(found) < count:
        number = chance.choice((*_NUMBERS, str(chance.randrange(10**6)), str(chance.randrange(10**25))))
        fraction = chance.choice(("", "", "", ".", ".0", ".5", ".000", f".{chance.randrange(10**12)}"))
        found.append(chance.choice(("", "", "", "+", "-")) + number + fraction + chance.choice(_SUFFIXES))
    return found


def answers(asked: Sequence[str]) -> list[str | None]:
    """What Kubernetes reads: a decimal number as text, None where it refuses the amount.

    Raises:
        subprocess.CalledProcessError: where Go cannot build it.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name in ("go.mod", "go.sum"):
            shutil.copy(_MODULE / name, folder)
        shutil.copy(PLACE / "parse.go", Path(folder) / "main.go")
        lines = "".join(f"{json.dumps(text)}\n" for text in asked)
        done = subprocess.run(
            ["go", "run", "-mod=mod", "."],
            cwd=folder,
            input=lines,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    wanted = texts(1, 1200)
    rows = ",\n".join(json.dumps(pair) for pair in zip(wanted, answers(wanted), strict=True))
    RECORDED.write_text(f"[\n{rows}\n]\n")
