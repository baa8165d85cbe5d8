cimport cython
from bandstand.pod.link.hot.sorting cimport Sorting

cdef int CHUNK
cdef Py_ssize_t CHUNK_HEAD_SIZE
cdef Py_ssize_t HEAD_SIZE
cdef Py_ssize_t LONGEST
cdef Py_ssize_t ROOM

@cython.final
cdef class Frames:
    cdef Sorting _sorting
    cdef object _arrivals
    cdef bytearray _store
    cdef object _view
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef object _chunk

    cpdef object room(self)
    cpdef object took(self, Py_ssize_t count)
    @cython.locals(start=Py_ssize_t, have=Py_ssize_t, size=Py_ssize_t, kind=int)
    cdef bint next(self) except -1
    @cython.locals(here=Py_ssize_t)
    cdef bint begin_chunk(self, Py_ssize_t start, Py_ssize_t size) except -1
    @cython.locals(left=Py_ssize_t)
    cdef object move_up(self)
    @cython.locals(grown=bytearray)
    cdef object grow(self, Py_ssize_t size)
