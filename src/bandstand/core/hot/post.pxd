cimport cython
from libc.stdint cimport int64_t
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.delivery cimport DeliveryCallback
from bandstand.core.mailbox cimport Ring
from bandstand.core.mailbox cimport RunQueue
from bandstand.core.context cimport ActorContext

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
    cdef int _enqueue(self, ActorCell cell, int lane, object data, object tag, object sender) except -1
    @cython.final
    cdef object _ready(self, ActorCell cell)
    @cython.final
    cdef object _stir(self)
    cpdef object _look(self)
    @cython.final
    @cython.locals(ring=Ring, letter=tuple)
    cdef int _overflow(self, ActorCell cell, int lane, object data, object tag, object sender) except -1
    @cython.final
    @cython.locals(actor=ActorId)
    cdef object _full(self, ActorCell cell, int lane)
    @cython.final
    cdef object _bury_one(self, ActorCell cell, int lane, object data, object tag, object sender)
    @cython.final
    cdef Py_ssize_t _bury(self, ActorCell cell) except -1
    @cython.final
    @cython.locals(count=Py_ssize_t, lane=int, ring=Ring, letter=tuple)
    cdef Py_ssize_t _bury_lanes(self, ActorCell cell, int last) except -1
    @cython.final
    cdef object _set_aside(self, ActorCell cell, ActorContext turn, object data, object shelf)
    @cython.final
    @cython.locals(kept=list, left=list, count=Py_ssize_t, letter=tuple)
    cdef Py_ssize_t _put_back(self, ActorCell cell, object shelf) except -1
    @cython.final
    cdef bint _tell(self, object hook, tuple arguments) except -1
    cpdef object _leave(self, object error)
