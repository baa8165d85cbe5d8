cimport cython
from libc.stdint cimport int64_t
from bandstand.scope.hot.parked cimport Parked
from bandstand.scope.hot.passage cimport Conduit, Group, Line, Passage

cdef int WAITING
cdef int DONE
cdef int CLOSED
cdef int LEFT
cdef Py_ssize_t BOUNDLESS
cdef double FOREVER
cdef Py_ssize_t REST_ROOM
cdef int AGAIN
cdef bint SEND
cdef bint RECEIVE
cdef object EMPTY
cdef object OVER

cdef class Pipe(Conduit):
    cdef readonly Py_ssize_t capacity
    cdef readonly object label
    cdef readonly bint closed
    cdef readonly int64_t sent
    cdef readonly int64_t received
    cdef readonly int64_t conflated
    cdef readonly int64_t refused
    cdef readonly Py_ssize_t peak

    @cython.locals(op=Passage, ms=double)
    cdef Passage passage(self, bint is_send, object item, object timeout_ms, object token)
    @cython.locals(state=int)
    cdef int offer(self, object item, Group group) except -2
    cdef object take(self, Group group)
    @cython.locals(is_settled=bint)
    cdef object stand_in_line(self, Passage op)
    @cython.locals(is_back=bint)
    cdef object put_back(self, object item, int64_t number)
    @cython.locals(was_open=bint)
    cdef bint shut(self) except -1
    @cython.locals(first=Passage, whose=Parked)
    cdef object forget_gone(self, Line line, bint is_thorough)
    @cython.locals(receiver=Passage)
    cdef int push(self, object item, Group group) except -2
    @cython.locals(sender=Passage)
    cdef object pull(self, Group group)
    @cython.locals(sender=Passage)
    cdef Passage next_sender(self, Group group)
    @cython.locals(sender=Passage)
    cdef object move_up(self, Group group)
    @cython.locals(receiver=Passage)
    cdef bint unpull(self, object item, int64_t number) except -1
    @cython.locals(group=Group, state=int)
    cdef bint join(self, Passage op) except -1
    @cython.locals(op=Passage)
    cdef bint seal(self) except -1
    @cython.locals(
        sent=int64_t, received=int64_t, conflated=int64_t, count=Py_ssize_t, refused=int64_t, expired=int64_t,
        cancelled=int64_t, senders=Py_ssize_t, receivers=Py_ssize_t, peak=Py_ssize_t, closed=bint,
    )
    cdef tuple snapshot(self)
