"""A stack of the sandbox: its state, the engine that deploys it, its stand-ins, and what an interrupted run left."""
