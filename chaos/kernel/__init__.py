"""What makes a run repeatable: virtual and real time, keyed randomness, generators, the recorder."""
