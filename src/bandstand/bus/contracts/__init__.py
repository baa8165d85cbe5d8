"""What may be said on the bus, as types: read once, when a node boots, and never guessed at afterwards.

`messages` are the classes to write messages with, `capability` is what to derive one from, `contract` is the same written out. `discover` finds the finite set of messages that
a type stands for, with the help of `annotations` and `shape`; `handlers` finds the methods of a class that take them; `declare` makes a `blueprint` of either, which
`legality` has checked. `payload` reads and writes one type of data; `schema` says in JSON Schema what it takes, of which `scalars`, `patterns`, `hashing` and `tight`
are parts, and `example` makes one up; `foreign` is for models of pydantic, `finite` for numbers that JSON does not have. `index` is what the router looks up, `describe`
what it tells about itself.
"""
