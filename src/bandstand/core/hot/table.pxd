cimport cython
from libc.stdint cimport uint64_t
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.ids cimport ActorId

cdef int INDEX_SHIFT
cdef int LOOP_SHIFT
cdef uint64_t MAX_INDEX
cdef uint64_t MAX_GENERATION

@cython.final
cdef class Table:
    cdef uint64_t loop_tag
    cdef readonly uint64_t alive
    cdef uint64_t capacity
    cdef uint64_t last_generation
    cdef Py_ssize_t used
    cdef list cells
    cdef list generations
    cdef list free

    @cython.locals(spare=Py_ssize_t, index=uint64_t, generation=uint64_t, actor=ActorId)
    cpdef ActorId admit(self, Cell cell)
    @cython.locals(index=uint64_t, generation=uint64_t)
    cpdef object release(self, uint64_t number)
    @cython.locals(cell=Cell, by_birth=dict)
    cpdef list living(self)
    @cython.locals(index=Py_ssize_t)
    cpdef Cell find(self, uint64_t number)
