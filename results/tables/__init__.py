"""The tables that a store of runs is made into: what gate, trends and notebooks read."""
