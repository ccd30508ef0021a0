"""What the toolkit costs and reaches, measured side by side in one run: `make bench`."""
