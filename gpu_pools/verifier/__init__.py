"""Runs on a GPU node and compares what it is with what was declared. Standard library and pynvml only.

It imports nothing else of this project: the expectation document (expectation.py) is the whole contract. Its modules
name each other relative to the package, so that what goes to the nodes has the same bytes wherever the package lies.
"""
