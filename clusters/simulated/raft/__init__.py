"""Raft: a group of members that agree on a log of commands, each applying it to a machine of its own."""
