cimport cython
from libc.stdint cimport uint64_t
from bandstand.core.mailbox cimport ActorCell

cdef int INDEX_SHIFT
cdef int LOOP_SHIFT
cdef int FAILED
cdef int STOPPED
cdef int STOPPING
cdef uint64_t MAX_INDEX
cdef uint64_t MAX_GENERATION
cdef uint64_t MODULUS

cdef class ActorId:
    cdef uint64_t number
    # None once the actor has ended.
    cdef ActorCell cell
    # The kernel. Untyped, because kernel.pxd needs the inline functions of mailbox.pxd before this class is complete.
    cdef readonly object home
    cdef int status
    cdef int reason
    cdef tuple end_cause

@cython.final
cdef class ActorTable:
    cdef uint64_t loop_tag
    cdef readonly uint64_t alive
    cdef uint64_t capacity
    cdef uint64_t last_generation
    cdef Py_ssize_t used
    cdef list cells
    cdef list generations
    cdef list free

    @cython.locals(spare=Py_ssize_t, index=uint64_t, generation=uint64_t, actor=ActorId)
    cpdef ActorId admit(self, ActorCell cell)
    @cython.locals(index=uint64_t, generation=uint64_t)
    cpdef object release(self, uint64_t number)
    @cython.locals(cell=ActorCell, by_serial=dict)
    cpdef list living(self)
    @cython.locals(index=Py_ssize_t)
    cpdef ActorCell find(self, uint64_t number)
