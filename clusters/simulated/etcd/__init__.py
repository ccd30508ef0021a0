"""etcd, as far as a broker uses it: keys with revisions, leases, transactions and watches, on a Raft group."""
