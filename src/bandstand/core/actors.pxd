cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int64_t
from bandstand.core.context cimport ActorContext
from bandstand.core.coroutines cimport is_coroutine
from bandstand.core.delivery cimport DeliveryCallback
from bandstand.core.ids cimport ActorId, ActorTable
from bandstand.core.kernel cimport Kernel
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.timer_wheel cimport Timer

cdef int DATA
cdef int FAIL_REASON
cdef int FAILED
cdef int INIT
cdef int NORMAL
cdef int PANIC
cdef int RUNNING
cdef int STOPPED
cdef int STOPPING
cdef int SYSTEM
cdef int UNTIMED
cdef object CHILD_EXIT
cdef object CHILD_START
cdef object LARGEST_CAP
cdef object REJECT
cdef bint WITH_INIT
cdef bint WITHOUT_INIT
cdef int KEEPS_NOTHING
cdef int KEEPS_ASKS

cdef extern from "Python.h":
    ctypedef struct _Type "PyTypeObject":
        object (*tp_alloc)(_Type* kind, Py_ssize_t size)

cdef inline object new_triple(object kind, object first, object second, object third):
    made = (<_Type*><PyObject*>kind).tp_alloc(<_Type*><PyObject*>kind, 3)
    # The slots of a tuple steal a reference.
    Py_INCREF(first)
    PyTuple_SET_ITEM(made, 0, first)
    Py_INCREF(second)
    PyTuple_SET_ITEM(made, 1, second)
    Py_INCREF(third)
    PyTuple_SET_ITEM(made, 2, third)
    return made

cdef object ARGS_OF
cdef Py_ssize_t MAX_REMEMBERED
@cython.locals(args=tuple)
cdef tuple brief_cause(object cause)

@cython.final
cdef class Actors:
    cdef Kernel _kernel
    cdef readonly ActorTable table
    cdef readonly Py_ssize_t default_cap
    cdef Py_ssize_t _reserve
    cdef readonly int64_t spawned
    cdef readonly list ended
    cdef bint is_ending_all
    cdef public object init_error

    @cython.locals(cap=Py_ssize_t)
    cpdef Py_ssize_t checked_cap(self, object mailbox_cap) except -1
    @cython.locals(actor=ActorId)
    cpdef ActorId spawn(self, object behavior, object state, object name, Py_ssize_t cap, object overflow, object supervisor, object context)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef ActorId spawn_child(self, object behavior, object init, object name, Py_ssize_t cap, object supervisor, object context, int keeps=*, ActorCell kept_mailbox=*, object overflow=*)
    cpdef object take_init_error(self)
    cdef object _max_actors_error(self)
    @cython.locals(parent=ActorCell, cell=ActorCell, actor=ActorId)
    cdef ActorId _create(self, object behavior, object state, object name, Py_ssize_t cap, object overflow, object supervisor, object context, bint with_init, int keeps, ActorCell kept_mailbox)
    @cython.locals(ctx=ActorContext, before=ActorCell)
    cdef object _run_init(self, ActorCell cell, object init)
    @cython.locals(actor=ActorId)
    cdef object _mark_running(self, ActorCell cell)
    @cython.locals(ctx=ActorContext, actor=ActorId, supervisor=ActorCell)
    cdef object init_finished(self, ActorCell cell, object state)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object declare_started(self, object target)
    @cython.locals(cell=ActorCell)
    cpdef object stop_actor(self, object target)
    @cython.locals(cell=ActorCell)
    cpdef object fail_actor(self, object target, object reason)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object kill_actor(self, object target)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object stop_or_kill(self, object target, object cause=*)
    @cython.locals(cell=ActorCell)
    cpdef object panic(self, ActorId actor, object cause)
    @cython.locals(cell=ActorCell)
    cpdef object close_mailbox(self, object target)
    @cython.locals(cell=ActorCell)
    cpdef object end_all(self)
    @cython.locals(cell=ActorCell, labels=list)
    cpdef list end_suspended(self)
    cdef object end_actor(self, ActorCell cell, int reason, object cause)
    cdef bint _prepare_end(self, ActorCell cell, int reason, object cause) except -1
    cdef object kill(self, ActorCell cell, object cause)
    cdef bint _prepare_kill(self, ActorCell cell, object cause) except -1
    cdef object finish(self, ActorCell cell)
    @cython.locals(before=ActorCell, ctx=ActorContext, callback=DeliveryCallback)
    cdef bint _run_exit_hook(self, ActorCell cell) except -1
    cdef bint is_running(self, ActorCell cell) except -1
    @cython.locals(actor=ActorId)
    cdef object mark_stopping(self, ActorCell cell)
    cdef object exit_actor(self, ActorCell cell, int reason, object cause)
    @cython.locals(actor=ActorId)
    cdef object _begin_exit(self, ActorCell cell, int reason, object cause)
    @cython.locals(stack=list, children=list, actor=ActorId, child=ActorCell, ending=ActorCell)
    cdef object _exit_children(self, ActorCell cell)
    cdef tuple _take_children(self, ActorCell cell)
    cdef bint _prepare_child_end(self, ActorCell cell, object family) except -1
    @cython.locals(actor=ActorId, supervisor=ActorCell, dead=Py_ssize_t, ctx=ActorContext, reason=int)
    cdef object _complete_exit(self, ActorCell cell)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object set_child_group(self, object target, object children)
    @cython.locals(cell=ActorCell, above=ActorCell)
    cpdef object group_around(self, ActorId actor)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef bint is_supervisor(self, object target) except -1
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object set_exit_hook(self, object target, object exit_hook)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object set_exit_handled(self, object target)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef bint is_exit_handled(self, object target) except -1
    @cython.locals(cell=ActorCell)
    cpdef Timer watch_exit(self, ActorId actor, DeliveryCallback callback)
