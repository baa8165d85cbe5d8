"""A chat server: one supervised actor for each connection, rooms as actors, and backpressure. `python -m
examples.chat` runs it.

`lines` parses what clients type, `room` is a room, `session` a connection, and `server` listens and starts them.
"""
