"""What GPUs, machine sizes and the operands' versions are, as data with sources."""
