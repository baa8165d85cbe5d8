cimport cython
from bandstand.core.hot.turn cimport Turn

cdef list BLANK
cdef list SPARE
cdef Py_ssize_t SPARE_ROOM
cdef list NO_ENTRIES

# Most actors that come and go have one of these.
@cython.final
@cython.freelist(256)
cdef class Ring:
    cdef object data
    cdef object tag
    cdef object sender
    cdef list entries
    cdef Py_ssize_t room
    cdef Py_ssize_t head
    cdef readonly Py_ssize_t count

    @cython.locals(at=Py_ssize_t, entries=list)
    cpdef Py_ssize_t push(self, object data, object tag, object sender) except -1
    @cython.locals(at=Py_ssize_t, entries=list)
    cpdef object pop(self, Turn turn)
    cpdef bint next_is(self, object tag) except -1
    cpdef object peek(self)
    @cython.locals(at=Py_ssize_t, entries=list)
    cpdef tuple shift(self)
    @cython.locals(at=Py_ssize_t, entries=list)
    cpdef tuple pop_newest(self)
    cdef tuple take_only(self)
    @cython.locals(at=Py_ssize_t, entries=list)
    cpdef object push_front(self, object data, object tag, object sender)
    @cython.locals(at=Py_ssize_t)
    cpdef bint has(self, object sender) except -1
    @cython.locals(left=Py_ssize_t, letter=tuple, found=tuple)
    cpdef tuple pull(self, object sender)
    @cython.locals(cut=Py_ssize_t, entries=list, spare=list)
    cdef object grow(self)
    cdef object rest(self)

cdef list take_spare()

@cython.locals(ring=Ring)
cpdef Ring new_ring()
