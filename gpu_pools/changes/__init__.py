"""What a change of a stack does, before anybody does it: from the engine's preview and the plans before and after.

Nothing here runs an engine or reaches a cluster: documents come in, a report goes out. It is not part of the plan, which
knows only what is declared, nor of policies/, which the engine shows only what is to come: a change needs both sides.
"""
