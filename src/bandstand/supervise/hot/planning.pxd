cimport cython
from bandstand.supervise.hot.history cimport History

cdef object NORMAL

@cython.locals(is_too_many=bint)
cpdef object plan_restart(object intensity, History history, double now, object backoff, object reason, double stored_ms, double lived_ms, double chance)
