"""Objects that prove a deploy: what each node must show, the verifier's pods and rights, waits, the smoke test."""
