"""The durable command lane: a node with a journal loses nothing that it has accepted, and every request has one fate, also over a crash.

`records` says what is written, `state` what follows from it, `recovery` what becomes of what was open at a crash, and `lane` connects them to the router.
"""
