"""The pure core: what GPUs are, how they may be shared, and what a node will then show.

Nothing in here imports Pulumi, talks to a cloud or a cluster, or reads anything but the stack file and this package's own
data files. Components place what the plan computes, policies judge it, the verifier compares it with the hardware.
"""
