cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int64_t
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.ids cimport ActorId
from bandstand.core.hot.reach cimport Reach
from bandstand.core.delivery cimport DeliveryCallback
from bandstand.core.context cimport ActorContext

cdef int FAIL_REASON
cdef int FAILED
cdef int INIT
cdef int NORMAL
cdef int RUNNING
cdef int STOPPED
cdef int STOPPING
cdef int SYSTEM
cdef int UNTIMED

cdef extern from "Python.h":
    ctypedef struct _Making "PyTypeObject":
        object (*tp_alloc)(_Making* kind, Py_ssize_t size)

cdef inline object new_triple(object kind, object first, object second, object third):
    made = (<_Making*><PyObject*>kind).tp_alloc(<_Making*><PyObject*>kind, 3)
    # A tuple's slots take a reference over.
    Py_INCREF(first)
    PyTuple_SET_ITEM(made, 0, first)
    Py_INCREF(second)
    PyTuple_SET_ITEM(made, 1, second)
    Py_INCREF(third)
    PyTuple_SET_ITEM(made, 2, third)
    return made

cdef class Life(Reach):
    cdef bint _ending
    cdef Py_ssize_t _reserve
    cdef ActorCell _current
    cdef list _outer
    cdef int64_t _spawned
    cdef list _stopped
    cdef object _on_start
    cdef object _on_stop

    @cython.locals(cell=ActorCell)
    cpdef object stop_actor(self, object target)
    @cython.locals(actor=ActorId, cell=ActorCell)
    cpdef object kill_actor(self, object target)
    cdef object _stop_watching(self, ActorCell cell)
    cdef object _tell_watchers(self, ActorCell cell, int reason, object cause)
    cdef object _sever(self, ActorCell cell, int reason, object cause)
    cpdef object _report_exit(self, object actor, object name, int reason, object cause, Py_ssize_t dead)
    cpdef object _release_fds(self, ActorCell cell)
    cdef object _release_timers(self, ActorCell cell)
    @cython.locals(parent=ActorCell)
    cpdef ActorId _create(self, object behavior, object state, object name, Py_ssize_t cap, object overflow, object supervisor, object context, bint unborn=*, bint keeps=*, ActorCell estate=*)
    @cython.final
    @cython.locals(cell=ActorCell, actor=ActorId)
    cdef ActorId _admit(self, object behavior, object state, object name, Py_ssize_t cap, object overflow, ActorCell supervisor, object context, bint unborn, bint keeps, ActorCell estate)
    @cython.final
    cdef object _end(self, ActorCell cell, int reason, object cause)
    @cython.final
    cdef object _finish(self, ActorCell cell)
    cdef bint _say_goodbye(self, ActorCell cell) except -1
    @cython.final
    cdef str _called(self, ActorCell cell)
    @cython.final
    cdef bint _is_running_now(self, ActorCell cell) except -1
    @cython.final
    cdef object _kill(self, ActorCell cell, object cause)
    @cython.final
    cdef bint _is_killed(self, ActorCell cell, object cause) except -1
    @cython.final
    cdef bint _is_ended(self, ActorCell cell, int reason, object cause) except -1
    @cython.final
    cdef object _exit(self, ActorCell cell, int reason, object cause)
    @cython.final
    @cython.locals(actor=ActorId)
    cdef object _begin_exit(self, ActorCell cell, int reason, object cause)
    @cython.final
    @cython.locals(above=list, children=list, actor=ActorId, child=ActorCell, ending=ActorCell)
    cdef object _end_family(self, ActorCell cell)
    @cython.final
    cdef tuple _disband(self, ActorCell cell)
    @cython.final
    cdef bint _is_ended_with(self, ActorCell cell, object family) except -1
    @cython.final
    @cython.locals(actor=ActorId, supervisor=ActorCell, dead=Py_ssize_t, turn=ActorContext, reason=int)
    cdef object _complete_exit(self, ActorCell cell)
    @cython.final
    @cython.locals(actor=ActorId)
    cdef object _mark_stopping(self, ActorCell cell)
    @cython.final
    cdef bint _send_system(self, ActorCell cell, object data, object tag) except -1
