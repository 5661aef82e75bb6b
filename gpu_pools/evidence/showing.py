"""Shows evidence where it was asked for: a table, a JSON file, an HTML page. Returns nothing that decides anything."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpu_pools.evidence.document import evidence_text
from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.page import evidence_page
from gpu_pools.evidence.table import evidence_table
from gpu_pools.text.files import write_whole

if TYPE_CHECKING:
    import argparse

    from gpu_pools.evidence.verdicts import Evidence

_STANDARD_OUTPUT: Final = "-"


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """The options that say where evidence goes."""
    parser.add_argument("--json", metavar="FILE", help="write the evidence as JSON there; - for the standard output")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write it as one HTML page there")


def show(evidence: Evidence, json_file: str | None, html_file: Path | None) -> None:
    """Write the files, then the table: to the standard output, or to standard error where the JSON goes there.

    Raises:
        EvidenceError: where a file cannot be written.
    """
    if html_file is not None:
        _write(html_file, evidence_page(evidence))
    stream = sys.stdout
    if json_file == _STANDARD_OUTPUT:
        sys.stdout.write(evidence_text(evidence))
        sys.stdout.flush()
        stream = sys.stderr
    elif json_file is not None:
        _write(Path(json_file), evidence_text(evidence))
    colour = stream.isatty() and "NO_COLOR" not in os.environ
    print(evidence_table(evidence, colour=colour), file=stream)


def _write(path: Path, text: str) -> None:
    """Whole or not at all: half a file could be taken for evidence."""
    try:
        write_whole(path, text)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}"
        raise EvidenceError(message, "Name a file in a folder that you may write to.") from None
