cimport cython
from libc.stdint cimport uint64_t
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.hot.post cimport Post
from bandstand.core.ids cimport ActorTable

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept

cdef int LOOP_SHIFT
cdef int STOPPING

cdef class Reach(Post):
    cdef ActorTable _table
    cdef readonly unsigned long _owner
    cdef public bint _closed

    cpdef object _claim(self)
    cpdef object _check_thread(self)
    cpdef object _wrong_thread(self)
    @cython.final
    cdef ActorCell _reach(self, object target)
    @cython.final
    @cython.locals(actor=ActorId, cell=ActorCell)
    cdef ActorCell _find(self, object target)
    @cython.final
    @cython.locals(cell=ActorCell)
    cdef ActorCell _reach_number(self, object number)
    @cython.final
    cdef object _unreachable(self, object target)
    @cython.final
    cdef object _missing(self, object target)
    @cython.final
    @cython.locals(actor=ActorId)
    cdef bint _is_foreign(self, object target) except -1
    @cython.final
    @cython.locals(actor=ActorId, cell=ActorCell)
    cdef ActorId _local_id(self, object target)
