"""What changes living nodes: a part of the verifier's package in a file of its own, which only pools with ``rollout`` load."""
