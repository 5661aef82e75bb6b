"""Rules that stop, before a deploy, what would never have worked.

A rule is a small object over pure predicates (policies/rule.py). Predicates see plain descriptions of resources in which unknown
and secret values are explicit (policies/described.py), so every rule is tested without an engine. Only policies/engine.py and
policies/__main__.py know Pulumi. What cannot be told before a deploy is the business of whoever looks at the nodes.
"""
