"""A time-series store that takes points in, as a tree of supervised actors. `python -m examples.ingest --help` runs it.

How it is laid out: `points` is what is stored, `disk` the few things done to files, `log` a write-ahead log of one
series, `blocks` what becomes of its sealed parts, `recover` what is found there after whatever has happened. `head`,
`merge`, `index`, `metrics` and `maintenance` are the actors, `feeder` those who bring points, `tree` puts them under
their supervisors.
"""
