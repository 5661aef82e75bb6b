"""What sharing a GPU costs, measured on the GPU itself: clients of several kinds, alone, together, and against each other.

`workloads` says what is run and in which order, `client.py` and `client.cu` are the programs that run it, `conductor` starts them
and has them work in the same window of time, `statistics` makes figures of what they did, `document` holds them as JSON,
`tables` and `plot` show them. What the GPU is set to is read and told, never changed.
"""
