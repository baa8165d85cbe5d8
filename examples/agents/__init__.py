"""An office that a language model could run: the model discovers the tools of a node, calls them, and gets events.
`python -m examples.agents`.

`office` has the capabilities, `tools` makes tools of them for a model, and `agent` is the loop that connects a model
to the bus. `model` is the interface of a model, with a scripted one, so that the example runs without a network.
"""
