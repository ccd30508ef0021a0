"""What is kept and shown: the store of runs, and reports."""
