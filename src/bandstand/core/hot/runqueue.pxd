cimport cython
from bandstand.core.hot.cell cimport Cell

@cython.final
cdef class RunQueue:
    cdef Cell first
    cdef Cell last
    cdef Py_ssize_t count

    @cython.locals(last=Cell)
    cdef object push(self, Cell cell)
    @cython.locals(cell=Cell)
    cdef Cell pop(self)
    @cython.locals(before=Cell, cell=Cell)
    cdef Cell pick(self, Py_ssize_t position)
