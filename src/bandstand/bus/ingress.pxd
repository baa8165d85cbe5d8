cimport cython
from bandstand.bus.admission cimport CreditLimit
from bandstand.bus.frame cimport is_request
from bandstand.bus.router cimport Router

@cython.final
cdef class Peer:
    cdef ClientIngress _ingress
    cdef readonly object line
    cdef public bint is_open
    cdef readonly object wants
    cdef public Py_ssize_t missed
    cdef object _deliver
    cdef object _filter

    cpdef bint settle(self, object frame, bint settles) except -1

@cython.final
cdef class ClientIngress:
    cdef Router _router
    cdef object _fanout
    cdef CreditLimit _credit
    cdef CreditLimit _reserved_credit
    cdef readonly dict clients
    cdef readonly object admission
    cdef readonly object unsent
    cdef bint _is_open
    cdef bint _is_free
    cdef bint _is_check_due
    cdef dict _waiting
    cdef object _watch

    cpdef bint admit(self, object line, object frame) except -1
    cpdef bint _admit_other(self, object line, object frame) except -1
    cdef bint _wait_for_credit(self, object line) except -1
