"""What the jobs of a forge do besides running commands: comments, what the last deploy left, what guards an environment.

All of it is code of the base branch, and what a pull request's own jobs made is data to it: bounded in size and number, taken
only from where it must lie, judged by `changes`. Runs no engine and has no identity of a cloud. No part of the wheel: it belongs
to the workflows of this repository (.github/workflows, .gitlab-ci.yml). Tried against a server that stands in for each forge's
API, since no forge can be had where this is developed: the addresses are from the forges' documentation.
"""
