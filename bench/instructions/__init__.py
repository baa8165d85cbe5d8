"""Regressions of speed, caught by counting instructions: a count is the same on a busy machine, a time is not.

    make counts                                      count, and compare with what is recorded
    python -m bench.instructions --show ping-pong    where the instructions of one workload go, function by function
    python -m bench.instructions --record            record the figures of this machine

How it counts. A *workload* is one of the benchmark's cases on one of its systems, small, and run by a process of its own under
valgrind's callgrind, compiled. The process runs it ten times unwatched: then the interpreter has specialised
what it will, and every cache is filled. Then it is watched doing N operations, and 2N; the difference, divided by N, is the
figure, so that what it costs to begin and to end does not count. The collector is emptied and what lives is frozen; hashes are not random.

What is not as it is outside: a program under valgrind is fifty times slower, so the clock seems to race. A tick would end by its
time, which it hardly ever does outside; so the default of `max_tick` is lifted, and a tick ends by its count; and the time of day
goes on by a step at each reading. What reads a clock besides can still move a figure, by a percent or two: the margin is ten.

Instructions are no nanoseconds: a cache miss counts for nothing, a system call as little. What gets slower without more
instructions is found by `make bench` alone.

How it is laid out: `workload` lists what is counted; `probe` runs it, inside of valgrind, and `switch.c` tells valgrind when;
`counter` runs probes, as many as there are cores; `profile` reads what they found; `site` says what a count depends on, `record` keeps
figures by that, in `record.json`, `verdict` compares and `table` shows it.
"""
