"""MIG: what fits on a GPU, what to advise, what a change of layout needs."""
