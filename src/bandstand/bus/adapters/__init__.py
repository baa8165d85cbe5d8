"""Adapters connect a node with its clients: NDJSON over Unix sockets, TCP, and pipes.

`unix`, `tcp` and `stdio` are the adapters. `listener` accepts the connections of the two socket adapters, `authentication` decides who may
connect, `limits` holds the limits, and `ndjson` is one client connection.
"""
