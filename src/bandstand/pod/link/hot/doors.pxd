cimport cython
from bandstand.core.ids cimport ActorId
from bandstand.actor.reply cimport ReplyCallback
from bandstand.actor.dispatch cimport Method

@cython.final
cdef class Door:
    cdef readonly str role
    cdef list _names
    cdef object _find
    cdef readonly ActorId actor
    cdef readonly list methods

    cpdef bint renew(self) except -1

@cython.final
cdef class Inlet:
    cdef readonly Door door
    cdef Py_ssize_t _place
    # A Tally.
    cdef readonly ReplyCallback tally
    cdef readonly Method method

    cpdef Method resolve(self)
