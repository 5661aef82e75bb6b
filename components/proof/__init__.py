"""What holds a deploy until its nodes are as declared: verifiers, waits, the reasons of a failure, smoke tests."""
