"""RabbitMQ's classic mirrored queues, simulated."""
