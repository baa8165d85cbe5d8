cimport cython
from libc.stdint cimport int64_t
from bandstand.pod.link.hot.outlet cimport Channel, Outlet
from bandstand.actor.reply cimport ReplyCallback
from bandstand.actor.dispatch cimport Method

cdef int ANSWERED
cdef object CANCEL
cdef int DROPPED
cdef int FAILED
cdef int LOST
cdef int WITHDRAWN

@cython.final
cdef class Noted:
    cdef readonly ReplyCallback asked
    cdef readonly object data

@cython.final
cdef class Question:
    cdef readonly Outlet outlet
    cdef readonly ReplyCallback asked
    cdef readonly object data
    cdef public bint is_out

@cython.final
cdef class Ledger:
    cdef str _there
    cdef object _unpack
    cdef object _on_dead
    cdef dict _outlets
    cdef readonly dict questions
    cdef int64_t _last_question
    cdef public int64_t sent
    cdef readonly int64_t handled
    cdef readonly int64_t dead
    cdef readonly int64_t dropped
    cdef readonly int64_t in_doubt

    cpdef object enter(self, Outlet outlet, object data, object sender)
    cpdef int64_t enter_ask(self, Outlet outlet, object data, ReplyCallback asked) except -1
    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, outlet=Outlet)
    cpdef object take_acks(self, list flat)
    cdef object settle(self, Outlet outlet, int64_t handled, int64_t dead, int64_t dropped)
    @cython.locals(at=Py_ssize_t, end=Py_ssize_t, question=Question)
    cpdef object take_answers(self, list flat)

cdef object check_whole(list flat, Py_ssize_t size)
