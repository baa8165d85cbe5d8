"""A bank whose accounts and transfers survive kill -9: see README.md."""
