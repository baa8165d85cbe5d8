cimport cython
from libc.stdint cimport int64_t
from bandstand.core.actors cimport Actors
from bandstand.core.coroutines cimport CoroutineRunner, is_coroutine
from bandstand.core.counters cimport MessageCounters
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.delivery cimport DeliveryCallback
from bandstand.core.mailbox cimport Ring, pop, push
from bandstand.core.mailbox cimport RunQueue
from bandstand.core.context cimport ActorContext
from bandstand.core.timer_wheel cimport Timer
from bandstand.core.inbox cimport Inbox
from bandstand.core.links cimport Links
from bandstand.core.timers cimport Timers

cdef int ACCEPTED
cdef int OTHER_THREAD
cdef int NO_ACTOR
cdef int CONTROL
cdef int DATA
cdef int FAIL_REASON
cdef int64_t FAR
cdef double MAX_DELAY
cdef double MAX_ROUNDING_ERROR
cdef int FULL
cdef int LOOP_SHIFT
cdef int MANAGEMENT
cdef int64_t MILLISECOND
cdef Py_ssize_t MAX_INLINE_TICKS
cdef int NORMAL
cdef int PANIC
cdef int QUICK
cdef Py_ssize_t SHRINK_ROOM
cdef int INIT
cdef int RUNNING
cdef int SLOW
cdef int STOPPING
cdef int SYSTEM

cdef Py_ssize_t MAX_CLOCK_PACE
cdef Py_ssize_t MAX_INLINE_DEPTH
cdef int64_t SLOW_AFTER
cdef object DATA_LANE
cdef object ELEMENT
cdef object IO
cdef object OK_VERDICT
cdef object STOP_VERDICT
cdef object FAIL_VERDICT
cdef object ZERO
cdef bint MAY_RUN_COROUTINE
cdef bint IS_FINAL

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept

cdef extern from "Python.h":
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1

# A behavior is called for every message: by its vectorcall function, without checking whether it is a method.
cdef extern from *:
    """
    static CYTHON_INLINE PyObject *bandstand_call(PyObject *function, PyObject *first, PyObject *second) {
        PyObject *arguments[3] = {NULL, first, second};
        vectorcallfunc call = PyVectorcall_Function(function);
        size_t count = 2 | PY_VECTORCALL_ARGUMENTS_OFFSET;
        if (call == NULL) return PyObject_Vectorcall(function, arguments + 1, count, NULL);
        return call(function, arguments + 1, count, NULL);
    }
    """
    object call_behavior "bandstand_call"(object function, object first, object second)

@cython.final
cdef class Kernel:
    # What every message touches comes first.
    cdef readonly MessageCounters counters
    cdef readonly RunQueue run_queue
    cdef readonly unsigned long owner
    cdef public bint is_closed
    cdef public bint is_awake
    cdef bint is_interrupted
    cdef readonly bint is_halted
    cdef public bint watches_messages
    cdef ActorCell current
    cdef readonly Timers timers
    cdef readonly Inbox inbox
    cdef readonly CoroutineRunner coroutines
    cdef readonly Links links
    cdef readonly Actors actors
    cdef public bint is_internal_only
    cdef public bint is_ticking
    cdef public bint is_context_foreign
    cdef public bint inlines_calls
    cdef public bint wraps_every_message
    cdef public object carrier
    cdef readonly list outer
    cdef Py_ssize_t _max_msgs_per_actor
    cdef Py_ssize_t _max_actors_per_tick
    cdef int64_t _max_tick
    cdef int64_t _ticks
    cdef int64_t _tick_end
    cdef int64_t _clock_read
    cdef Py_ssize_t _since_clock_read
    cdef Py_ssize_t _clock_pace
    cdef bint _is_time_up
    cdef bint _is_overfull
    cdef object _message
    cdef int64_t _messages
    cdef public object pick_next

    cdef readonly object loop
    cdef public object fds
    cdef public object reporter
    cdef public object runner
    cdef readonly object owner_thread
    cdef public bint is_down
    cdef public object exit_error
    cdef public object failure
    cdef readonly Py_ssize_t hook_depth
    cdef public Py_ssize_t watched_fds
    cdef public object host
    cdef public bint is_host_armed
    cdef readonly bint is_host_calling
    cdef public list siblings
    cdef public bint notify_idle
    cdef public bint until_idle
    cdef public bint is_polled
    cdef public object on_tick_end
    cdef public object on_idle
    cdef public int64_t reported
    cdef readonly bint is_inline
    cdef public Py_ssize_t inline_left
    cdef int64_t _inline_since
    cdef readonly int64_t restarts
    cdef readonly int64_t escalations
    cdef object on_actor_start
    cdef object on_actor_stop
    cdef object _on_mailbox_full
    cdef object _on_dead_letter
    cdef object _on_dropped
    cdef object _on_restart
    cdef object _on_escalate

    cpdef object claim_thread(self)
    cpdef bint is_other_thread(self)
    cpdef object check_thread(self)
    cpdef object check_open(self)
    cdef object _wrong_thread_error(self)
    cdef ActorCell reach(self, object target)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cdef ActorCell find(self, object target)
    @cython.locals(cell=ActorCell)
    cdef ActorCell _find_number(self, object number)
    cdef bint _is_own_number(self, object number) except -1
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef ActorId local_id(self, object target)
    cpdef ActorId require_id(self, object target)
    cdef object refused_send_error(self, object target)
    cpdef object missing_error(self, object target)
    @cython.locals(actor=ActorId)
    cdef bint _is_foreign(self, object target) except -1
    cdef str label(self, ActorCell cell)

    cdef bint send_fast(self, object target, object data, object tag, object lane, object sender) except -1
    @cython.locals(cell=ActorCell, ring=Ring)
    cdef bint push_fast(self, ActorId actor, object data, object tag, object sender) except -1
    @cython.locals(cell=ActorCell, number=int)
    cdef object send(self, object target, object data, object tag, object lane, object sender)
    @cython.locals(cell=ActorCell, number=int)
    cdef bint try_send(self, object target, object data, object tag, object lane, object sender) except -1
    @cython.locals(cell=ActorCell)
    cdef int post(self, ActorId actor, int lane, object data, object tag, object sender) except -1
    @cython.locals(cell=ActorCell)
    cpdef object send_with_callback(self, ActorId actor, int lane, object data, object tag, object callback)
    cdef int enqueue(self, ActorCell cell, int lane, object data, object tag, object sender) except -1
    cdef object send_reserved(self, ActorCell cell, object data, object tag, object sender)
    @cython.locals(cell=ActorCell)
    cpdef bint send_system(self, object target, object data, object tag) except -1
    @cython.locals(cell=ActorCell)
    cpdef object notify_channel(self, ActorId actor)
    @cython.locals(cell=ActorCell)
    cpdef object send_io(self, ActorId actor, object event, object watch)
    cdef object make_ready(self, ActorCell cell)
    cdef object requeue(self, ActorCell cell)
    cpdef object wake_host(self)
    cpdef object check_idle(self)
    @cython.locals(ring=Ring, dropped=tuple)
    cdef int _apply_overflow(self, ActorCell cell, int lane, object data, object tag, object sender) except -1
    @cython.locals(actor=ActorId)
    cdef object full_error(self, ActorCell cell, int lane)

    cdef object dead_letter(self, ActorCell cell, int lane, object data, object tag, object sender)
    cdef Py_ssize_t discard_messages(self, ActorCell cell) except -1
    @cython.locals(count=Py_ssize_t, lane=int, ring=Ring, message=tuple, counters=MessageCounters)
    cdef Py_ssize_t discard_lanes(self, ActorCell cell, int last) except -1
    @cython.locals(before=Py_ssize_t, asks=list, lane=int, ring=Ring, left=Py_ssize_t, message=tuple)
    cdef Py_ssize_t discard_all_but_asks(self, ActorCell cell) except -1
    @cython.locals(cell=ActorCell)
    cpdef bint append_mailbox(self, ActorId actor, ActorCell mailbox) except -1
    cpdef object discard_mailbox(self, object mailbox)
    cdef object _stash(self, ActorCell cell, ActorContext ctx, object data, object stash)
    @cython.locals(stashed=list, left=list, count=Py_ssize_t, message=tuple)
    cdef Py_ssize_t unstash_cell(self, ActorCell cell, object stash) except -1
    @cython.locals(cell=ActorCell, count=Py_ssize_t)
    cpdef Py_ssize_t unstash(self, ActorId actor, object stash) except -1

    cpdef bint call_hook(self, object hook, tuple arguments) except -1
    cpdef object report_restart(self, ActorId supervisor, ActorId child, object attempt)
    cpdef object report_escalation(self, ActorId supervisor)

    cpdef object halt(self)
    cpdef object exit_with(self, object error)
    cdef object _break(self, object error)
    cdef object _forget_current(self)

    @cython.locals(timers=Timers, start=int64_t, before=int64_t, overfull=bint)
    cpdef int64_t tick(self) except? -1
    @cython.locals(visits=Py_ssize_t, queue=RunQueue, cell=ActorCell, seen=Py_ssize_t)
    cdef object _run_ready(self, int64_t start, bint overfull)
    @cython.locals(now=int64_t)
    cdef bint _check_clock(self, ActorCell cell) except -1
    @cython.locals(ctx=ActorContext, ring=Ring, budget=Py_ssize_t, handled=Py_ssize_t, limit=Py_ssize_t, clock_read=Py_ssize_t, is_clock_due=bint)
    cdef Py_ssize_t _visit(self, ActorCell cell) except -1
    @cython.locals(ctx=ActorContext)
    cdef ActorContext make_context(self, ActorCell cell)
    cdef object _accept_io(self, ActorCell cell, ActorContext ctx, object event)
    @cython.locals(ring=Ring)
    cdef object settle(self, ActorCell cell)
    cdef object behavior_raised(self, ActorCell cell, ActorContext ctx, object data, object error)
    cdef object apply_final_verdict(self, ActorCell cell, object verdict)
    cdef object _apply_verdict(self, ActorCell cell, object verdict, bint may_run)

    cpdef object host_call(self)
    cpdef bint begin_host_call(self)
    cpdef object end_host_call(self)
    cpdef object run_tick(self, object host)
    @cython.locals(wait=int64_t, coroutines=CoroutineRunner)
    cdef object _sleep_or_continue(self, object host)
    @cython.locals(wait=int64_t)
    cpdef object rearm_host(self)
    @cython.locals(was_awake=bint)
    cpdef bint tick_inline(self) except -1

    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object set_budget(self, object target, int budget)
    @cython.locals(cell=ActorCell)
    cpdef Timer start_timer(self, object target, int64_t ms, int lane, object data, object tag)
    @cython.locals(cell=ActorCell)
    cpdef Timer start_timer_at(self, object target, int64_t at_ms, int lane, object data, object tag)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef Timer start_system_timer(self, object target, Py_ssize_t ms, object data, object tag)
    @cython.locals(cell=ActorCell)
    cpdef object hold_slot(self, ActorId actor, int lane)
    @cython.locals(cell=ActorCell)
    cpdef object hold_all_slots(self, ActorId actor, int lane)
    cpdef object free_all_slots(self, ActorId actor, int lane)
    @cython.locals(cell=ActorCell)
    cpdef object free_slots(self, ActorId actor, int lane, Py_ssize_t count)
    @cython.locals(cell=ActorCell)
    cpdef bint has_message_from(self, ActorId actor, int lane, object sender) except -1
    @cython.locals(cell=ActorCell, other=ActorCell, message=tuple)
    cpdef bint move_message(self, ActorId actor, int lane, object sender, ActorId to) except -1
    @cython.locals(current=ActorCell, cell=ActorCell, ctx=ActorContext)
    cdef bint call_inline(self, ActorId actor, int lane, object data, object tag, object sender) except -1
    @cython.locals(ring=Ring)
    cdef Ring lane_if_next_is_same(self, ActorCell cell, ActorContext ctx)
    cdef object take_next(self, ActorCell cell, ActorContext ctx, Ring ring)
    @cython.locals(taken=Py_ssize_t)
    cdef Py_ssize_t take_same(self, ActorCell cell, ActorContext ctx, list items, Py_ssize_t most, object unlike) except -1

    cpdef bint has_ready(self) except -1
    cpdef bint is_quiet(self) except -1
    cpdef bint is_idle(self) except -1
    cpdef bint is_host_closed(self) except -1
    cpdef bint is_inside(self)
    @cython.locals(counters=MessageCounters, timers=Timers)
    cpdef dict counts(self)
    @cython.locals(cell=ActorCell, actor=ActorId, rows=list)
    cpdef list rows(self)
    @cython.locals(cell=ActorCell, ctx=ActorContext, is_busy=bint)
    cpdef object activity_of(self, ActorId actor)
    @cython.locals(cell=ActorCell, ctx=ActorContext, is_suspended=bint)
    cpdef object mailbox_status(self, ActorId actor)
    @cython.locals(cell=ActorCell)
    cpdef object current_tag(self, ActorId actor)
    @cython.locals(cell=ActorCell, ctx=ActorContext)
    cpdef object tag_of(self, ActorId actor)
    @cython.locals(cell=ActorCell)
    cpdef object context_of(self, ActorId actor)
    @cython.locals(cell=ActorCell)
    cpdef object state_of(self, ActorId actor)
    @cython.locals(cell=ActorCell)
    cpdef tuple current_message(self)
    @cython.locals(kernel=Kernel)
    cdef Kernel running_sibling(self)
    @cython.locals(cell=ActorCell)
    cpdef ActorId current_actor(self)
    @cython.locals(cell=ActorCell)
    cpdef bint is_current(self, ActorId actor) except -1
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef bint is_actor_idle(self, object target) except -1
    cdef object begin_step(self, ActorCell cell)
    cdef object end_step(self)
    @cython.locals(cell=ActorCell)
    cpdef object begin_fd_watch(self, object owner)
    @cython.locals(cell=ActorCell)
    cpdef object end_fd_watch(self, ActorId actor)

cdef inline object tick_in_context(Kernel kernel, object context):
    PyContext_Enter(context)
    try:
        kernel.tick()
    finally:
        PyContext_Exit(context)

cdef inline object host_call_in_context(Kernel kernel, object context):
    PyContext_Enter(context)
    try:
        kernel.host_call()
    finally:
        PyContext_Exit(context)

cpdef int checked_lane(object tag, object lane) except -1
cpdef object check_sender(object sender)
@cython.locals(seconds=double)
cpdef int64_t checked_delay(object delay) except -1
@cython.locals(ms=double, nearest=int64_t)
cpdef int64_t whole_ms(double seconds) noexcept
