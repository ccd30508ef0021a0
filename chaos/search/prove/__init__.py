"""Every order of events that a protocol can meet within bounds, on the replica code that simulations run."""
