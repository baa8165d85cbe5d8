"""What connects a node with the world: lines of JSON over Unix sockets, TCP, and standard input.

`unix`, `tcp` and `stdio` are the adapters; `listening` is what the two for sockets have in common, `descriptors` what makes a transport of
two pipes. Who may come in is seen to by `peer`, which knows who somebody is, and `doorman`, who wants to see the token that a `greeting` shows; `bouncer`
turns away the rest. `ndjson` is one client, whose ways in and out are in `bus.hot` and whose lines may be `overdue`; `lines` are all of an adapter's, and `limits` says how
much is too much.
"""
