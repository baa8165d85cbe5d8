cdef class BusCounters:
    cdef public long long abandoned
    cdef public long long admitted
    cdef public long long answered
    cdef public long long conflicting
    cdef public long long crashes
    cdef public long long deliveries
    cdef public long long events
    cdef public long long expired
    cdef readonly dict failed
    cdef public long long joined
    cdef public long long lagged
    cdef public long long late
    cdef public long long refused
    cdef public long long repeated
    cdef public long long restarts
    cdef public long long retries
    cdef public long long sunk
    cdef public long long timers_cancelled
    cdef public long long timers_fired
    cdef public long long timers_scheduled
    cdef public long long unclaimed
    cdef public long long undelivered
    cdef public long long unheard
    cdef public long long withdrawn
