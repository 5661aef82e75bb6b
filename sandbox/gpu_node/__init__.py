"""`make gpu-node`: a stack on a real node with the machine's own GPUs, declared, changed and broken, and what was seen.

It plays what a user would do and writes down what it finds; what a GPU is set to is read and never changed. Not here: the node
(sandbox/real_node), the flow of a stack (sandbox/cli).
"""
