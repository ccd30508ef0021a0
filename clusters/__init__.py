"""What is broken: a cluster is hosts x a broker, or a simulation."""
