"""What hurts: each nemesis plans faults from a seed and resolves their targets when they fall due."""
