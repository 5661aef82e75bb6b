"""What others have changed of a stack that is up: differences between the engine's state and what is really there.

From two sources: the engine's preview of a refresh, which asks each provider for each resource, and the reports of the verifiers
on the nodes (gpu_pools/evidence/). The cluster is asked who wrote what has drifted. What the stack file declares is held against
the state by ``pulumi preview``. Nothing is changed or repaired here.
"""
