"""An office that a language model could run: it finds out what there is, calls it, and hears what happens. `python -m examples.agents`.

`office` is what can be done, `tools` what a model is told of it, `agent` the loop of a model and a bus; `model` is the seam where a model
goes, and a scripted one, so that all of this runs without a network.
"""
