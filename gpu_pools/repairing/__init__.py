"""One node that is not as declared: what would cure it, done by a person from a terminal, and proven by the node's verifier.

It goes by what the verifier has found, and changes nothing that a stack declares. Nothing here asks a cloud: a machine is
replaced, and a GPU reset, by whoever may; this waits for it.
"""
