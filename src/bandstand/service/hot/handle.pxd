cimport cython
from bandstand.core.hot.desk cimport Desk
from bandstand.core.hot.ids cimport ActorId

cdef class Handle:
    cdef object __weakref__
    cdef readonly Desk _bs_loop
    cdef readonly ActorId _bs_actor
    cdef readonly object _bs_name
    cdef readonly object _bs_asks
    cdef readonly Py_ssize_t _bs_ask_ms
    cdef readonly object _bs_place

    @cython.locals(actor=ActorId)
    cpdef bint _bs_renew(self) except -1
    cpdef object _bs_forget(self)
    cpdef bint _bs_refresh(self) except -1
    cpdef object _bs_key(self)
