cimport cython
from bandstand.bus.hot.cutting cimport Cutter
from bandstand.bus.hot.fields cimport kind_of
from bandstand.bus.hot.lines cimport read_plain

cdef Py_ssize_t ANSWER_BYTES
cdef Py_ssize_t FIRST_WINDOW
cdef object HTTP

@cython.final
cdef class Intake:
    cdef object _line
    cdef object _ingress
    cdef object _admit
    cdef Py_ssize_t _window
    cdef readonly Py_ssize_t line_bytes
    cdef object _read
    cdef public Py_ssize_t in_flight
    cdef Py_ssize_t _allowed
    cdef Py_ssize_t _largest
    cdef readonly bint is_stopped
    cdef readonly bint is_foreign
    cdef public bint is_writable
    cdef bint _has_spoken
    cdef object _held
    cdef list _batch
    cdef Py_ssize_t _at
    cdef Cutter _cutter

    cpdef object feed(self, bytes chunk)
    cpdef object settle(self, Py_ssize_t size)
    cpdef object end(self)
    cpdef object stop(self)
    cpdef bint hand_in(self) except -1
    @cython.locals(text=bytes, is_request=bint, is_first=bint, kind=str)
    cdef bint _hand_in_lines(self) except -1
    cdef object _read_closely(self, bytes text)
    @cython.locals(is_request=bint)
    cdef bint _hand_in_held(self) except -1
    cdef bint _has_credit(self) except -1
