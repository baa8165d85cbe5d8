"""Connects two processes by a socket pair, with a `Link` at each end.

A link joins two pods of which at least one has its own process; anything else that runs actors in another process can use it as
well. At each end, the actors of the other end are represented by *proxies*: actors on the proxy loop, a loop of this thread,
that forward what they are sent. So handles, lanes, asks, deadlines and full mailboxes work as everywhere else.

- One write per turn. What the proxies forward in one turn of the event loop is written together: acknowledgements and answers
  first, then messages by lane. Nothing is encoded before the socket takes it.
- Plain values are encoded in batches, everything else is pickled in the sender's call.
- Large buffers are sent in chunks, so that other messages fit between them, and received where they stay. Only messages of the
  same lane of the same actor wait for them.
- A message is acknowledged when it is handled or answered, not when it is received. Until then it keeps its slot in the lane of
  the proxy.
- Nothing is sent twice. When the link is lost, messages that may have been handled are reported as *in doubt*.

    link           one end of a link: the parts joined, hello and bye
    sender         proxies, and the messages in flight
    receiver       posts messages to local actors, and reports their outcomes
    transport      the socket, the write queue and frames
    codec          values and exceptions, encoded and decoded
    large_buffers  large buffers in chunks, and memory for them
    protocol       frame kinds and codes
    byte_budget    limits the bytes in flight to a lane
    wait_probes    detects cycles of asks over several processes
"""

from bandstand.pod.link.codec import Packer as Packer
from bandstand.pod.link.link import Link as Link
from bandstand.pod.link.link import LinkStats as LinkStats
from bandstand.pod.link.sender import RemoteRole as RemoteRole
from bandstand.pod.link.sender import Undelivered as Undelivered

__all__ = ("Link", "LinkStats", "Packer", "RemoteRole", "Undelivered")
