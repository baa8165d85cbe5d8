cimport cython
from bandstand.core.loop cimport Loop
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.context cimport ActorContext
from bandstand.supervision.children cimport Children, ChildSlot
from bandstand.supervision.restart cimport History, RestartPlan, plan_restart

cdef int KEEPS_ASKS
cdef int RUNNING
cdef int STOPPED
cdef int SYSTEM
cdef double NEVER
cdef object DOWN
cdef object STARTING
cdef object STOPPING
cdef object UP
cdef object WAITING
cdef object SUPERVISOR_STARTING
cdef object SUPERVISOR_RUNNING
cdef object SUPERVISOR_STOPPING
cdef object SUPERVISOR_ENDED
cdef object NORMAL
cdef object ONE_FOR_ONE
cdef object RESTART

@cython.final
cdef class SupervisorActor:
    cdef readonly Loop loop
    cdef readonly object spec
    cdef readonly object name
    cdef readonly object context
    cdef readonly ActorId actor_id
    cdef readonly object parent
    cdef readonly Py_ssize_t depth
    cdef readonly object state
    cdef readonly object outcome
    cdef readonly object log
    cdef readonly object strategy
    cdef readonly object auto_shutdown
    cdef readonly bint is_dynamic
    cdef readonly Children children
    cdef readonly bint is_unordered
    cdef readonly dict unreported
    cdef readonly ChildSlot starting_slot
    cdef readonly object init_error
    cdef readonly object intensity
    cdef readonly Py_ssize_t backoff_restarts
    cdef readonly History history
    cdef readonly object crash
    cdef readonly object failures
    cdef readonly dict given_up
    cdef readonly object group_delay
    cdef readonly Py_ssize_t last_token
    cdef readonly bint is_busy
    cdef readonly bint is_in_init
    cdef readonly bint is_start_error_raised
    cdef readonly bint has_logged_stray

    cdef object handle_message(self, ActorContext ctx, object data)
    @cython.locals(slot=ChildSlot)
    cdef object on_child_exit(self, object exit)
    cpdef object reconcile(self)
    @cython.locals(now=double, chance=double, plan=RestartPlan)
    cpdef object decide_restart(self, ChildSlot slot, tuple failure)
    @cython.locals(actor=ActorId, kept=ActorCell, only_asks=bint)
    cpdef object start(self, ChildSlot slot)
    cpdef object on_up(self, ChildSlot slot, ActorId actor)
