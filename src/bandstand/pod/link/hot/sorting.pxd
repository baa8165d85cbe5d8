cimport cython
from bandstand.pod.link.hot.inbound cimport Inbound
from bandstand.pod.link.hot.ledger cimport Ledger

cdef int ACKS
cdef int ANSWERS
cdef int MESSAGES

@cython.final
cdef class Sorting:
    cdef Inbound _inbound
    cdef Ledger _ledger
    cdef object _rare
    cdef public bint is_closed

    cpdef object deliver(self, int kind, object body)
