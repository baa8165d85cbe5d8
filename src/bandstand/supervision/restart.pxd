cimport cython

cdef object NORMAL
cdef Py_ssize_t COMPACT_FROM
cdef object MAX_DELAYS

@cython.final
cdef class History:
    cdef list _times
    cdef Py_ssize_t _start
    cdef Py_ssize_t _end
    cdef readonly Py_ssize_t count

    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, times=list, history=History, expired=double, time=double)
    cpdef History add(self, double now, double period)
    cdef object set_window(self, list times, Py_ssize_t start, Py_ssize_t end)

@cython.final
cdef class RestartPlan:
    cdef readonly bint gives_up
    cdef readonly double delay_ms
    cdef readonly double stored_ms
    cdef readonly History history

@cython.locals(period_ms=double)
cpdef double counting_period_ms(object intensity, object backoff, double stored_ms) except? -1

@cython.locals(period_ms=double, plan=RestartPlan)
cpdef RestartPlan plan_restart(object intensity, History history, double now_ms, object backoff, object reason, double stored_ms, double lived_ms, double chance)
