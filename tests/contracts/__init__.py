"""The rules of the house that no single test of behaviour would notice being broken."""
