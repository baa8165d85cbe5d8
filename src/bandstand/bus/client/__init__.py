"""Those who call a node from another process: where it is, how it is asked, and what comes of it.

`connection` is a client for programs that have an event loop, `blocking` the same for those that have none, with a `portal` between the
two; `config` is how it behaves, `address` where it goes, `opening` both of them, given or usual. Its `life` is `dialing`, a `line`, and `calls` under way,
made of `frames`; what it listens to is in `subscribing`, each a `stream`.
"""
