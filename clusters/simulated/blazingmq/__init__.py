"""BlazingMQ, simulated: an election with scouting, and a leader that synchronises with its followers both ways."""
