"""gpu-feature-discovery on a simulated GPU node, run once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from pathlib import Path

    from sandbox.cluster.gpu_host import GpuHost

_SECONDS: Final = 60
_MACHINE: Final = "Simulated Machine"


def discover(
    host: GpuHost, program: Path, config: str, environment: Mapping[str, str] | None = None
) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """Run gpu-feature-discovery once: what it said, and the labels that it wrote."""
    files = {name: host.folder / name for name in ("config.yaml", "machine-type", "labels")}
    files["config.yaml"].write_text(config)
    files["machine-type"].write_text(f"{_MACHINE}\n")
    files["labels"].unlink(missing_ok=True)
    done = host.run(
        [
            *(program, "--oneshot", "--use-node-feature-api=false", "--no-timestamp"),
            *("--config-file", files["config.yaml"], "--machine-type-file", files["machine-type"]),
            *("--output-file", files["labels"]),
        ],
        seconds=_SECONDS,
        environment=environment,
    )
    lines = files["labels"].read_text().split() if files["labels"].exists() else []
    return done, dict(line.split("=", 1) for line in lines)
