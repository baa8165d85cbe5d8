"""Clients of a node: programs that call it from another process.

`connection` is the client for programs with an event loop, `blocking` the same client for programs without one. `config` holds the address and
the settings of a client, `calls` its requests without a reply, and `subscription` its event streams.
"""
