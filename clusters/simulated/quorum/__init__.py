"""RabbitMQ's quorum queues, simulated."""
