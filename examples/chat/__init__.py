"""A chat server: one supervised actor a connection, rooms as actors, slow clients that hurt nobody. `python -m examples.chat` runs it.

`lines` is what people say and how it is read, `room` a room, `session` a connection, `server` what listens and starts them.
"""
