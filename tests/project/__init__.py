"""The project itself: its environment, its tests, its start."""
