cimport cython
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.supervision.restart cimport History

cdef int KEEPS_ALL
cdef int KEEPS_ASKS
cdef int KEEPS_NOTHING
cdef object DOWN
cdef object UP
cdef object STOPPING
cdef object RESTART
cdef object WAITING

@cython.final
cdef class ChildSlot:
    cdef readonly object name
    cdef readonly object spec
    cdef readonly bint is_supervisor
    cdef readonly bint is_temporary
    cdef public Py_ssize_t position
    cdef readonly object behavior
    cdef public object init
    cdef readonly tuple exit_actions
    cdef readonly object backoff
    cdef readonly int keeps_mailbox
    cdef public Py_ssize_t mailbox_cap
    cdef readonly object context
    cdef public ActorId actor
    cdef public object phase
    cdef public object supervisor
    cdef public object handle
    cdef public Py_ssize_t restarts
    cdef readonly object limit
    cdef public History history
    cdef public object given_up
    cdef public bint has_been_up
    cdef public double stored_ms
    cdef public double started_at
    cdef public bint is_requested
    cdef public bint is_added
    cdef public bint is_held
    cdef public bint was_held
    cdef public bint must_stop
    cdef public bint starts_after_stop
    cdef public bint is_restart
    cdef public bint is_delayed
    cdef public object timer
    cdef public Py_ssize_t token
    cdef public ActorCell kept_mailbox
    cdef public object watchers

    cpdef object clear(self, object loop)
    cpdef object cancel_timer(self, object loop)
    cpdef object keep_before(self, ActorCell mailbox)
    cpdef object discard_mailbox(self, object loop)
    cpdef object notify_watchers(self)

@cython.final
cdef class Children:
    cdef public object slots
    cdef readonly dict by_actor
    cdef readonly Py_ssize_t next_position
    cdef readonly list to_start
    cdef readonly list to_stop

    cpdef object add(self, ChildSlot slot)
    cpdef object queue_start(self, ChildSlot slot)
    cpdef object queue_stop(self, ChildSlot slot)
