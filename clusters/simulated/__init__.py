"""A broker cluster in one process and in virtual time: network, disks, clocks, and replication as state machines."""
