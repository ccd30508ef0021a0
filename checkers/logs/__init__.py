"""What `checkers.streams` judges by: transactions on append-only logs, and what may be wrong with them.

The anomalies and their rules are those of Jepsen's workload for logs like Kafka's, `jepsen.tests.kafka`. A log (there:
a key, which stands for a partition) holds each value at an offset. Offsets may have gaps, since control records take
some up, so that positions are compared by index: the place among the offsets at which anything was seen.
"""
