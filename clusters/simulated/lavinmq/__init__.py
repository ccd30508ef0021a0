"""LavinMQ's clustering, simulated: one leader by a lease in etcd, and followers that copy its files."""
