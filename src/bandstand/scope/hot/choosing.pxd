cimport cython
from libc.stdint cimport int64_t
from bandstand.scope.hot.passage cimport Conduit, Group, Passage

cdef int FRESH
cdef int WAITING
cdef int DONE
cdef int CANCELLED
cdef int CLOSED
cdef int EXPIRED
cdef int LEFT
cdef int SPENT
cdef double FOREVER

@cython.final
cdef class Turns:
    cdef int64_t made

cdef Turns TURNS

cdef class Choosing(Group):
    cdef object check(self, Passage op)
    cdef object adopt(self, Passage op)
    @cython.locals(op=Passage)
    cdef object disown(self)
    cdef list by_turn(self)
    @cython.locals(op=Passage)
    cpdef bint begin(self) except -1
    @cython.locals(op=Passage, pipe=Conduit)
    cpdef bint stand(self) except -1
    @cython.locals(chosen=Passage)
    cpdef object give_back(self)
    @cython.locals(op=Passage)
    cdef object dissolve(self)
    @cython.locals(chosen=Passage, state=int)
    cpdef object finish(self)
    cpdef object error(self, int state)

cpdef int64_t turn_of(Passage op) except -1
