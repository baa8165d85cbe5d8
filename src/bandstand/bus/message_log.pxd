cimport cython
from bandstand.bus.frame cimport data_of

cdef class MemoryLog:
    cdef Py_ssize_t _messages
    cdef Py_ssize_t _bytes
    cdef list _frames
    cdef Py_ssize_t _start
    cdef Py_ssize_t _count
    cdef readonly Py_ssize_t held_bytes
    cdef readonly Py_ssize_t skipped

    @cython.locals(size=Py_ssize_t, place=Py_ssize_t)
    cpdef object append(self, object frame)
    @cython.locals(start=Py_ssize_t)
    cdef object _drop_oldest(self)
