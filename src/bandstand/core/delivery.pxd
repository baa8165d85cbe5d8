cdef class Receipt:
    cpdef object lost(self, object actor, object name, int reason, object cause)
    cpdef object cut_off(self, object actor, object name, int reason, object cause)
    cpdef object dropped(self, object actor, object name)
    cpdef object landed(self)
