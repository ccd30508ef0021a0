"""Judging many runs at once, in processes of their own, so that none takes another down."""
