"""The way between two processes: a socket pair, and an end of it in each.

A link joins two incarnations of pods of which at least one has a process to itself. At each end the actors of the other side are there
as *stand-ins*: actors on the porch, a loop of this thread, that pass on what they are sent. So a handle, a lane, an ask, a deadline and
a full mailbox are the same as everywhere, and nobody who sends knows the difference. What is behind that:

- **One turn, one write.** What the stand-ins are given in one turn of the event loop is written together, acknowledgements and answers first,
  then by lanes. Nothing is encoded before the socket takes it, so a command that comes late still goes before the data that wait.
- **Plain values are not encoded one by one.** They cannot change, so they are kept as they are, and a burst of them is one call of msgspec.
  Everything else is pickled in the sender's call, where what cannot be pickled is the sender's error.
- **Nothing large is in the way.** Large buffers travel in chunks between which everything else finds its place; a message goes when its last
  chunk has gone, and only those of the same lane of the same actor wait for it. They are not copied on the way, but for one
  copy in the sender's call of what could change.
- **Acknowledged is handled.** Not received: handled to its end, or answered. Until then a message keeps its slot in the stand-in's lane. So
  as many are under way as the mailbox over there holds, and one more is refused here as it would be there.
- **Counted, not numbered.** An actor handles the messages of a lane in their order. So one-way messages bear no number; what goes
  back is how many of a method have ended, and how. Only asks have numbers. (Of those that are given up out of their order the sums are
  right, but a dead letter may show another message of the same method.)
- **Nothing is sent twice.** When the link is lost, what was entirely written and not acknowledged is *in doubt*, and a dead letter
  says so; what was not is dead. sent = handled + dead + dropped + in doubt, at every moment with what is waiting.

Refused: one number and one acknowledgement for each message, which cost more than the message; a thread for the socket,
whose hand-over costs more than the write; asyncio's streams, which copy and add a turn of the event loop.

    link       joins the others: one end of a link
    wire       the socket on the event loop          streams    large buffers                      numbers    what both ends know by number
    codec      values as they travel                 faults     exceptions as they travel          letter     a message that is dead
    books      how many of what

What every message passes is in `hot`, and compiled:

    strand     the bytes of a wire, out and in       frames     what they are cut into             sorting    who a frame is for
    standin    actors for those over there           outlet     one method of one of them          outgoing   from there into the tray
    packer     arguments, in the call                plain      what travels as it is              tray       what is written next
    inbound    what comes in, to the actors here     doors      who they are                       receipts   what is said of it
    ledger     what became of what was sent
"""

from bandstand.pod.link.books import LinkBooks as LinkBooks
from bandstand.pod.link.hot.packer import Packer as Packer
from bandstand.pod.link.letter import Undelivered as Undelivered
from bandstand.pod.link.link import Link as Link

__all__ = ("Link", "LinkBooks", "Packer", "Undelivered")
