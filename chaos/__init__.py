"""The controller: what runs a test from provision to verdict, and the `splitbrain` command."""
