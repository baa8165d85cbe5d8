cimport cython
from bandstand.supervision.hot.history cimport History

cdef object NORMAL

@cython.final
cdef class Plan:
    cdef readonly bint gives_up
    cdef readonly double delay_ms
    cdef readonly double stored_ms
    cdef readonly History history

@cython.locals(period_ms=double, plan=Plan)
cpdef Plan plan_restart(object intensity, History history, double now, object backoff, object reason, double stored_ms, double lived_ms, double chance)
