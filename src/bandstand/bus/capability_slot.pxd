cimport cython
from bandstand.core.ids cimport ActorId
from bandstand.core.timer_wheel cimport Timer
from bandstand.bus.frame cimport IdGenerator, correlation_of, id_of, metadata_of, new_frame
from bandstand.bus.request cimport Delivery, PendingRequest
from bandstand.bus.request cimport Route
from bandstand.bus.router cimport Router

cdef int DONE

cdef class CapabilitySlot:
    cdef readonly Router router
    cdef object _monitor
    cdef readonly object spec
    cdef readonly str id
    cdef readonly long long mailbox
    cdef object _timeout_ms
    cdef dict _outbound
    cdef readonly tuple routes
    cdef public long long load
    cdef readonly long long client_limit
    cdef public long long admit_limit
    cdef public object state
    cdef public object supervisor
    cdef public ActorId actor
    cdef object _incarnation
    cdef readonly object host
    cdef readonly tuple handlers
    cdef dict _unreported
    cdef bint _has_started
    cdef readonly long long handled
    cdef public long long crashes
    cdef readonly long long restarts
    cdef public object last_fault
    cdef public object current_message
    cdef public object sync_message
    cdef readonly object task
    cdef readonly dict awaited
    cdef readonly dict running
    cdef long long _concurrency
    cdef bint _runs_tasks
    cdef set _cancelled
    cdef dict _began_ms
    cdef object _room
    cdef object _context
    cdef bint _is_ending
    cdef readonly object queued_events
    cdef readonly object held
    cdef set _plain_types
    cdef long long _timeouts
    cdef double _silent_since_ms
    cdef long long _silent_at
    cdef public object trial_timer
    cdef public double next_trial_ms
    cdef readonly double trial_ends_ms

    @cython.locals(pending=PendingRequest, delivery=Delivery, route=Route, timer=Timer)
    cpdef object handle(self, object ctx, object item)
    cdef bint _is_coroutine(self, object kind) except -1
    cdef object _handle_in_host(self, object item)
    cdef object _handle_internal(self, object item)
    cdef object _make_call(self, object item)
    cpdef object run_coroutine(self, object item, object result, object finish)
    cpdef object deliver_held(self)
    @cython.locals(pending=PendingRequest, route=Route)
    cpdef object reply(self, object item, object value)
    @cython.locals(pending=PendingRequest, ids=IdGenerator)
    cpdef object answer(self, object item, str kind, str type_name, object data)
    cpdef bint answer_refusal(self, object item, object error) except -1
    cpdef bint is_refusal(self, object error) except -1
    cdef object _refuse(self, object item, object refusal)
