"""What a stack's GPUs were given and did over a time, asked of a Prometheus that has the recorded series."""
