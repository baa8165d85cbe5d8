cimport cython
from libc.stdint cimport int64_t
from bandstand.scope.hot.parked cimport Parked
from bandstand.scope.hot.store cimport Store

cdef int FRESH
cdef int WAITING
cdef int DONE
cdef int CANCELLED
cdef int CLOSED
cdef int EXPIRED
cdef int LEFT
cdef int SPENT
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

cdef class Conduit(Store):
    cdef readonly Line senders
    cdef readonly Line receivers
    cdef Line served
    cdef readonly int64_t expired
    cdef readonly int64_t cancelled
    cdef public int64_t turn_in
    cdef public int64_t turn_out

    cdef int offer(self, object item, Group group) except -2
    cdef object take(self, Group group)
    cdef object stand_in_line(self, Passage op)
    cdef object put_back(self, object item, int64_t number)
    @cython.locals(op=Passage)
    cdef object wake_served(self)
    @cython.locals(op=Passage)
    cdef Passage next_served(self)

cdef class Passage(Parked):
    cdef readonly Conduit pipe
    cdef readonly bint is_send
    cdef public bint is_last
    cdef bint is_part
    cdef public object item
    cdef int64_t number
    cdef Group group
    cdef Line line
    cdef Passage before
    cdef Passage after

    cdef object set_up(self, Conduit pipe, bint is_send, object item, double ms, object token)
    @cython.locals(pipe=Conduit, state=int)
    cpdef bint begin(self) except -1
    @cython.locals(pipe=Conduit)
    cpdef bint stand(self) except -1
    cpdef bint leave(self, int state) except -1
    @cython.locals(pipe=Conduit, line=Line)
    cdef bint quit(self, int state) except -1
    cpdef object give_back(self)
    cdef object let_go(self)
    @cython.locals(line=Line, group=Group, pipe=Conduit)
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
    cdef bint is_strict

    cdef bint settle(self, Passage op, int state) except -1
    cpdef bint leave(self, int state) except -1
    cdef bint quit(self, int state) except -1
    @cython.locals(op=Passage)
    cdef object withdraw(self, int state)
