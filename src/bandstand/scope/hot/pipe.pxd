cimport cython
from libc.stdint cimport int64_t
from bandstand.scope.hot.parked cimport Parked

cdef int FRESH
cdef int WAITING
cdef int DONE
cdef int CANCELLED
cdef int CLOSED
cdef int EXPIRED
cdef int LEFT
cdef int SPENT
cdef Py_ssize_t BOUNDLESS
cdef double FOREVER
cdef Py_ssize_t FIRST_ROOM
cdef Py_ssize_t REST_ROOM
cdef int AGAIN
cdef bint SEND
cdef bint RECEIVE
cdef object EMPTY
cdef object OVER

@cython.final
cdef class Line:
    cdef Passage first
    cdef Passage last
    cdef readonly Py_ssize_t count

    @cython.locals(last=Passage)
    cdef object append(self, Passage op)
    @cython.locals(before=Passage, after=Passage)
    cdef object remove(self, Passage op)

cdef class Passage(Parked):
    cdef readonly Pipe pipe
    cdef readonly bint is_send
    cdef public bint is_last
    cdef bint is_part
    cdef public object item
    cdef int64_t number
    cdef Group group
    cdef Line line
    cdef Passage before
    cdef Passage after

    cdef object set_up(self, Pipe pipe, bint is_send, object item, double ms, object token)
    @cython.locals(pipe=Pipe, state=int)
    cpdef bint begin(self) except -1
    @cython.locals(pipe=Pipe)
    cpdef bint stand(self) except -1
    cpdef bint leave(self, int state) except -1
    @cython.locals(pipe=Pipe, line=Line)
    cdef bint quit(self, int state) except -1
    cpdef object give_back(self)
    cdef object let_go(self)
    @cython.locals(line=Line, group=Group, pipe=Pipe)
    cdef object settle(self, int state)
    @cython.locals(state=int)
    cpdef object finish(self)
    cpdef object error(self, int state)
    @cython.locals(group=Group)
    cpdef object wake(self)

cdef class Group(Parked):
    cdef readonly list ops
    cdef readonly Passage chosen
    cdef Py_ssize_t opened

    cdef bint settle(self, Passage op, int state) except -1
    cpdef bint leave(self, int state) except -1
    cdef bint quit(self, int state) except -1
    @cython.locals(op=Passage)
    cdef object withdraw(self, int state)

cdef class Pipe:
    cdef readonly Py_ssize_t capacity
    cdef readonly bint conflates
    cdef readonly object label
    cdef readonly bint closed
    cdef list entries
    cdef list returned
    cdef Py_ssize_t room
    cdef Py_ssize_t head
    cdef readonly Py_ssize_t count
    cdef readonly Line senders
    cdef readonly Line receivers
    cdef Line served
    cdef readonly int64_t sent
    cdef readonly int64_t received
    cdef readonly int64_t conflated
    cdef readonly int64_t refused
    cdef readonly int64_t expired
    cdef readonly int64_t cancelled
    cdef readonly Py_ssize_t peak
    cdef public int64_t turn_in
    cdef public int64_t turn_out

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
    @cython.locals(op=Passage)
    cdef object wake_served(self)
    @cython.locals(first=Passage, whose=Parked)
    cdef object forget_gone(self, Line line, bint is_thorough)
    @cython.locals(room=Py_ssize_t, fresh=list)
    cdef object make_room(self)
    @cython.locals(fresh=list)
    cdef object rest(self)
    @cython.locals(receiver=Passage)
    cdef int push(self, object item, Group group) except -2
    @cython.locals(at=Py_ssize_t)
    cdef object replace(self, object item)
    cdef object newest(self)
    @cython.locals(sender=Passage, at=Py_ssize_t)
    cdef object pull(self, Group group)
    @cython.locals(sender=Passage)
    cdef object move_up(self)
    @cython.locals(receiver=Passage, at=Py_ssize_t, step=Py_ssize_t)
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
    @cython.locals(op=Passage)
    cdef Passage next_served(self)
    @cython.locals(at=Py_ssize_t, old=list)
    cdef object move(self, list fresh, Py_ssize_t room)
    @cython.locals(old=list)
    cdef object shrink(self, list fresh)
