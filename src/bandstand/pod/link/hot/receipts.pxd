cimport cython
from bandstand.core.ids cimport ActorId
from bandstand.actor.reply cimport ReplyCallback

@cython.final
cdef class Tally(ReplyCallback):
    # An Inbound; an object because the inbound knows receipts, and cimports must not go in circles.
    cdef object _inbound
    cdef readonly object code
    cdef public Py_ssize_t handled
    cdef public Py_ssize_t dead
    cdef public Py_ssize_t dropped_count
    cdef public bint is_due


@cython.final
cdef class Question(ReplyCallback):
    cdef object _inbound
    cdef object _number
    cdef int _lane
    cdef readonly object method
    cdef bint _is_over

    cpdef object withdraw(self)
