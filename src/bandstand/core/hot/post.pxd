cimport cython
from libc.stdint cimport int64_t
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.ids cimport ActorId
from bandstand.core.hot.receipt cimport Receipt
from bandstand.core.hot.ring cimport Ring
from bandstand.core.hot.runqueue cimport RunQueue
from bandstand.core.hot.turn cimport Turn

cdef int ACCEPTED
cdef int FULL
cdef int SYSTEM
cdef int DATA

cdef class Post:
    cdef RunQueue _queue
    cdef int64_t _accepted
    cdef readonly int64_t _handled
    cdef int64_t _refused
    cdef readonly int64_t _dead
    cdef readonly int64_t _dead_system
    cdef readonly int64_t _dropped
    cdef readonly int64_t _aside
    cdef readonly int64_t _dropped_system
    cdef public bint _awake
    cdef public bint _looking
    cdef readonly Py_ssize_t _telling
    cdef object _on_full
    cdef object _on_dead_letter
    cdef object _on_dropped

    cpdef object _rouse(self)
    cpdef object _complain(self, str what, object error)
    @cython.final
    cdef int _enqueue(self, Cell cell, int lane, object data, object tag, object sender) except -1
    @cython.final
    cdef object _ready(self, Cell cell)
    @cython.final
    cdef object _stir(self)
    cpdef object _look(self)
    @cython.final
    @cython.locals(ring=Ring, letter=tuple)
    cdef int _overflow(self, Cell cell, int lane, object data, object tag, object sender) except -1
    @cython.final
    @cython.locals(actor=ActorId)
    cdef object _full(self, Cell cell, int lane)
    @cython.final
    cdef object _bury_one(self, Cell cell, int lane, object data, object tag, object sender)
    @cython.final
    cdef Py_ssize_t _bury(self, Cell cell) except -1
    @cython.final
    @cython.locals(count=Py_ssize_t, lane=int, ring=Ring, letter=tuple)
    cdef Py_ssize_t _bury_lanes(self, Cell cell, int last) except -1
    @cython.final
    cdef object _set_aside(self, Cell cell, Turn turn, object data, object shelf)
    @cython.final
    @cython.locals(kept=list, left=list, count=Py_ssize_t, letter=tuple)
    cdef Py_ssize_t _put_back(self, Cell cell, object shelf) except -1
    @cython.final
    cdef bint _tell(self, object hook, tuple arguments) except -1
    cpdef object _leave(self, object error)
