"""A picture that moves, drawn by a troupe of pods on every kind of stage, while they are killed. `python -m examples.studio` plays it.

`actors` is who plays, `troupe` where; `saboteur` is who kills them.
"""
