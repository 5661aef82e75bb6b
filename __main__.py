"""GPU pools from a stack file; what decides something is in gpu_pools/, what makes something in components/."""

import gc
import signal
from typing import Any

import pulumi

from gpu_pools.components.arguments.stack_config import read_stack_config, secret_sections
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.text.errors import InvalidStackError


def main() -> None:
    """Build the platform that the selected stack declares."""
    # Nearly all that a program makes lives until its end, seconds later; looking for garbage was over half of its time.
    gc.disable()
    # On Ctrl-C the engine cancels the update and then interrupts this program: it ends there, and nobody needs its traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    settings: Any = read_stack_config()
    try:
        platform = GpuPlatform("gpu", settings, secret_sections=tuple(secret_sections()), from_stack_file=True)
    except InvalidStackError as error:
        # A RunError is shown as it is; a traceback would bury the list of problems.
        raise pulumi.RunError(str(error)) from None
    pulumi.export("clusterName", platform.cluster_name)
    pulumi.export("kubeconfig", platform.kubeconfig)
    pulumi.export("advertises", platform.advertises)
    pulumi.export("verification", platform.verification)


main()
