"""The Secret by which a stack's pods pull images from a registry of one's own, in a namespace that the stack fills.

Made only where the stack file names a user: else it names a Secret that somebody else keeps there.
"""

import base64

import pulumi
from pulumi_kubernetes.core.v1 import Secret

from gpu_pools.components.engine.outputs import put_back
from gpu_pools.rendering.registry import docker_config
from gpu_pools.stack.registry import RegistrySettings


def pull_secret(
    name: str, namespace: pulumi.Input[str], registry: RegistrySettings, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """The Secret, or nothing.

    Args:
        name: of the component in whose namespace it is.
        namespace: where pods run.
        registry: what the stack says.
        opts: options of the Secret.
    """
    if registry.username is None or registry.password is None:
        return []
    both = pulumi.Output.all(put_back(registry.username), put_back(registry.password))
    text = both.apply(lambda known: docker_config(registry.server, known[0], known[1]))
    encoded: pulumi.Output[str] = text.apply(lambda clear: base64.b64encode(clear.encode()).decode("ascii"))
    secret: pulumi.Output[str] = pulumi.Output.secret(encoded)
    return [
        Secret(
            f"{name}-pull-secret",
            metadata={"name": registry.pull_secret or "", "namespace": namespace},
            type="kubernetes.io/dockerconfigjson",
            data={".dockerconfigjson": secret},
            opts=opts,
        )
    ]
