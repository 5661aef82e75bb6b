"""Programs that write files of this repository: nothing of them is shipped."""
