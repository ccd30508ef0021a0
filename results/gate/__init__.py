"""Whether what a suite showed is enough: a policy, the evidence for it, its rules, and what they say."""
