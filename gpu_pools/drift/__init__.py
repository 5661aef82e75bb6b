"""What others have changed of a stack that is up: differences between the engine's state and what is really there.

So far from one source, the engine's preview of a refresh: it asks each provider for each resource. What the stack file declares
is held against the state by ``pulumi preview``, and the nodes' GPUs by gpu_pools/evidence/. Nothing is changed or repaired here.
"""
