"""RabbitMQ's streams, simulated."""
