"""Reporters that run beside a broker that has none inside: one file a broker, standard library only."""
