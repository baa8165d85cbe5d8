"""A moving picture, drawn by pods on every thread model while they are killed. `python -m examples.studio` runs it.

`actors` has the actors, `troupe` says where they run, and `saboteur` kills them.
"""
