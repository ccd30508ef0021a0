"""The `splitbrain` command, one module a command."""
