"""Run as a module: prints a digest of all that a simulated BlazingMQ with many faults did, and how many events it took.

python -m tests.simulated.blazingmq.events SEED [CONSISTENCY]
"""

import sys

from tests.simulated.blazingmq.made import simulate
from tests.simulated.events import main

if __name__ == "__main__":
    seed, *consistency = sys.argv[1:]
    print(simulate(main, seed=int(seed), consistency=consistency[0] if consistency else "strong"))
