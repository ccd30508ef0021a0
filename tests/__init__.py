"""Tests are a package, so that a folder such as tests/docker cannot shadow the library of that name."""
