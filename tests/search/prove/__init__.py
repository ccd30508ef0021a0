"""Exploration of every order of events: its abstractions against brute force, its findings literally."""
