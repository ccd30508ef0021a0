"""What is made of many runs: suites and claims, exploring, replaying, shrinking, proving."""
