cimport cython
from bandstand.core.hot.turn cimport Turn
from bandstand.core.hot.ring cimport Ring, pop, push, new_ring

cdef int SYSTEM
cdef int CONTROL
cdef int MANAGEMENT
cdef int DATA
cdef int LAST_RESERVED

cdef class Mailbox:
    cdef Py_ssize_t cap
    cdef Py_ssize_t reserve
    cdef Py_ssize_t plain
    cdef Py_ssize_t coming_management
    cdef Py_ssize_t coming_control
    cdef Py_ssize_t surplus
    cdef Ring management
    cdef Ring control
    cdef Ring system
    cdef bint closing
    # What every message touches comes last, and first in a cell: among many actors each line of the cache is one that had to be fetched.
    cdef Py_ssize_t limit
    cdef Py_ssize_t coming_data
    cdef Py_ssize_t urgent
    cdef Ring data

    @cython.final
    cdef object set_cap(self, Py_ssize_t cap, Py_ssize_t reserve)
    @cython.final
    @cython.locals(ring=Ring)
    cdef bint offer(self, int lane, object data, object tag, object sender) except -1
    @cython.final
    cdef bint promise(self, int lane)
    @cython.final
    @cython.locals(ring=Ring)
    cdef object arrive(self, int lane, object data, object tag, object sender)
    @cython.final
    cdef Py_ssize_t coming(self, int lane)
    @cython.final
    cdef object add_coming(self, int lane, Py_ssize_t change)
    @cython.final
    @cython.locals(ring=Ring)
    cdef object put_back(self, int lane, object data, object tag, object sender)
    @cython.final
    @cython.locals(ring=Ring, letter=tuple)
    cdef tuple take_out(self, int lane, object sender)
    @cython.final
    @cython.locals(ring=Ring)
    cdef bint offer_system(self, object data, object tag, object sender) except -1
    @cython.final
    @cython.locals(ring=Ring)
    cdef object offer_reserved(self, object data, object tag, object sender)
    @cython.final
    @cython.locals(ring=Ring)
    cdef object take_urgent(self, Turn turn)
    @cython.final
    cdef object took_system(self, int tag)
    @cython.final
    cdef object inherit(self, Mailbox other)
    @cython.final
    @cython.locals(ring=Ring, made=Ring)
    cdef Ring lane(self, int lane)
    @cython.final
    cdef Ring ring(self, int lane)
    @cython.final
    @cython.locals(ring=Ring)
    cdef Py_ssize_t depth(self, int lane)
    @cython.final
    cdef bint has_room(self, int lane)
    @cython.final
    @cython.locals(ring=Ring)
    cdef Py_ssize_t waiting(self)
    @cython.final
    @cython.locals(most=Py_ssize_t)
    cdef Py_ssize_t fullest(self)
    @cython.final
    cdef object reckon(self)
    @cython.final
    cdef object close(self)
    @cython.final
    cdef bint is_expecting(self)
