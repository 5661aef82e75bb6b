"""Texts and objects that follow from declarations alone: the operands' config files, hooks, the startup taint."""
