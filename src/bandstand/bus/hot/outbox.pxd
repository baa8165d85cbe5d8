cimport cython
from bandstand.bus.hot.intake cimport Intake
from bandstand.bus.hot.lines cimport write_frame

cdef class Memo:
    cdef public tuple last

cdef Memo MEMO

@cython.locals(memo=Memo, last=tuple)
cdef bytes write_event(object frame)

cdef class Outbox:
    cdef readonly Intake intake
    cdef readonly Py_ssize_t write_high
    cdef readonly list out
    cdef public Py_ssize_t out_bytes
    cdef public bint is_gone
    cdef public bint is_woken
    cdef public bint is_unread
    cdef public bint has_left

    @cython.locals(line=bytes)
    cpdef object deliver(self, object frame, bint settles)
    cpdef object flush(self)
    cpdef bint look(self) except -1
    cpdef object resume(self)
