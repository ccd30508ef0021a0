"""Run as a module: prints a digest of all that a simulated LavinMQ with many faults did, and how many events it took.

python -m tests.simulated.lavinmq.events SEED [VERSION]
"""

import sys

from tests.simulated.events import main
from tests.simulated.lavinmq.made import simulate

if __name__ == "__main__":
    seed, *version = sys.argv[1:]
    print(simulate(main, seed=int(seed), version=version[0] if version else None, etcd_endpoints="all", segment=100))
