"""The benchmark: bandstand beside its peers, measured in one run.

    make bench                                     what matters most, in a quarter of an hour
    make bench-full                                everything: it takes what it takes
    python -m bench --quick                        tiny sizes: does every case run and check its result?
    python -m bench --case ping-pong --rounds 9    one row, more rounds
    python -m bench --json build/bench.json        the same figures for a program

How it measures. A *cell* of the table is one case on one system, and every cell is measured in a process of its own:
the compiled and the interpreted kernel cannot live in one process, and no cell inherits another's heap. Rounds go
through all cells in turn, systems side by side, so that a busy moment of the machine hits neighbours alike. A process measures its cell as often as
the case says, as long as that takes some seconds at most (`scale`), by the same rule on every system; the first reading is cold everywhere, the others are
warm, in Erlang too, whose machine stays the same for all of them. The best
reading is kept, because a disturbance only ever adds. The garbage collector stays on; it is emptied before the clock
starts. Every case checks that what was sent has been handled: a figure of a run that lost messages is no figure. The peers of Python,
which nothing else here needs, have an environment of their own, `.venvs/bench`, that `make bench` makes; where that cannot be,
or Erlang is not installed, the table says so and goes on.

What is comparable. The handlers do the same work in every system and reach their peers by a closure, as fast as that
system allows: `append((handler, data))` in `limit`, `send(actor, data)` in bandstand, `put_nowait(data)` on an
asyncio.Queue. `limit` is what Python costs by itself: a deque, a pop, a call. It has no ids, no bounds, no lanes, no
fairness, no books and no host. bandstand has all of them switched on and rides its real host, the event loop that
`loop.run()` takes by default. The asyncio pair is a task with an unbounded Queue for each actor, the same handler called
by the task; it has no bounds, no lanes and no books either. `typed` is bandstand with classes for actors: the same loop,
and for each message a method of a handle, a message made of its arguments, and a method of an object; context variables travel
along, every ask has a deadline. Pykka's actors are threads with a queue, told and asked by reference, which is the fastest
it has. It has two columns, because with threads on several cores its figures fall into two groups: one as it is, one pinned to a single core. Thespian is its `simpleSystemBase`, all in one
thread; xoscar is one pool in this process with local references; `stages/` says what is comparable of them. What is played on
all of these is one and the same text, a *program* (`stage`).
Erlang's are processes, and `gen_server`s where something is asked, on one scheduler and, in a column of its own, on one for each core. Ratios depend on how Python
itself was built: one without profile-guided optimisation slows what is interpreted, and `limit` is nothing else; the
caption says so.

Pods have a table of their own, because what they are compared with depends on where they are: a deque inside a pod, a queue
between threads, sockets or `multiprocessing.Queue` between processes. The actors are the same in all its rows, and whoever sends takes the
time; the medians of asks are the figures of the rows that say so. As with the bus, what is divided are rates, so more is better. Ray stands there
where it is in the peers' environment: `make bench-full` puts it there, `make bench` does not.

The bus has a table of its own. Its servers listen at a Unix socket, each in the process of its cell, and are called by one
and the same client in another process, with plain sockets and without asyncio: it makes what it sends before the clock starts, and
checks every answer by the id of its request when it has stopped. `echo` is the least that a server in Python can do for such a
request, uvicorn with Starlette what people take for it, set up as fast as it goes, with as many requests under way; what is divided there are rates, so more is better.

The journal has a table of its own, beside what a program does that makes bytes durable by group commit without one. Its figures are those of
the disk as well: only their ratios say something about the journal.

How it is laid out: `cases/` has one file for each thing measured, listed by hand in its `__init__`; `case` says what a case
is, `system` what a column is; `stage` says what a program may say, `stages/` has the systems that play programs; `limit`, `raw`, `typed`, `queues`,
`threads` (Pykka), `asking` (asks of Thespian and xoscar) and `otp` (Erlang) are the ways to run actors; `pods` has the actors and troupes of the pods' cases, `processes` what the standard
library has in their place, `clusters` is Ray, `latency` makes a figure of single times;
`dice` draws the same numbers in every system, `walk` and `workers` are what two cases each have in common, `barbers` the typed actors of one that would not fit into its file;
`lines` (the bus, and the bare protocol) and `web` (uvicorn) are servers, `caller` is their client and `calling` brings
the two together; `commits` is group commit without a journal; `target` is what a figure must reach; `scale` says how often a cell is measured, `child` measures it, `runner` runs children in rounds, `progress` says how far it is, `report` holds the
result, `ranking` makes one number of it for each system, `figure` writes numbers, `table` shows it all, `record` makes JSON of it, `machine` says
where it was measured. From the JSON, which `figures` reads, `chart` draws and `page` writes into the documentation. `instructions/` measures no time at
all: it counts instructions, and is the gate (`make counts`).
"""
