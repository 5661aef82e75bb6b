"""Reads the stack's `gpu-pools:` settings as the engine hands them over.

All keys are taken, also those that nobody asks for: a misspelt key must be reported, and `pulumi.Config` can only look for
keys that are known beforehand. Meaning and checks are in gpu_pools.stack.settings.
"""

from typing import Any

from pulumi.runtime import config as runtime_config

from gpu_pools.stack.settings import NAMESPACE, config_value


def read_stack_config() -> dict[str, Any]:
    """Section name, without namespace -> value as YAML gave it."""
    found = {**runtime_config.get_config_env(), **runtime_config.CONFIG.get()}
    prefix = f"{NAMESPACE}:"
    return {key.removeprefix(prefix): config_value(text) for key, text in found.items() if key.startswith(prefix)}


def secret_sections() -> list[str]:
    """The sections that the stack file keeps encrypted, wholly or in part."""
    return [key for key in read_stack_config() if runtime_config.is_config_secret(f"{NAMESPACE}:{key}")]
