cimport cython

cdef class DeliveryCallback:
    cpdef object lost(self, object actor, object name, int reason, object cause)
    cpdef object interrupted(self, object actor, object name, int reason, object cause)
    cpdef object dropped(self, object actor, object name)
    cpdef object accepted(self)
    cpdef bint may_go_to_next(self) except -1

@cython.final
cdef class ExitCallback(DeliveryCallback):
    cdef object _callback

@cython.final
cdef class LoopExitCallback(DeliveryCallback):
    cdef object _callback
