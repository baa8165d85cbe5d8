cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int64_t
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.ids cimport ActorId
from bandstand.core.hot.reach cimport Reach
from bandstand.core.hot.receipt cimport Receipt
from bandstand.core.hot.turn cimport Turn

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
    cdef Cell _current
    cdef list _outer
    cdef int64_t _spawned
    cdef list _stopped
    cdef object _on_start
    cdef object _on_stop

    @cython.locals(cell=Cell)
    cpdef object stop_actor(self, object target)
    @cython.locals(actor=ActorId, cell=Cell)
    cpdef object kill_actor(self, object target)
    cdef object _stop_watching(self, Cell cell)
    cdef object _tell_watchers(self, Cell cell, int reason, object cause)
    cdef object _sever(self, Cell cell, int reason, object cause)
    cpdef object _report_exit(self, object actor, object name, int reason, object cause, Py_ssize_t dead)
    cpdef object _release_fds(self, Cell cell)
    cdef object _release_timers(self, Cell cell)
    @cython.locals(parent=Cell)
    cpdef ActorId _create(self, object behavior, object state, object name, Py_ssize_t cap, object overflow, object supervisor, object context, bint unborn=*, bint keeps=*, Cell estate=*)
    @cython.final
    @cython.locals(cell=Cell, actor=ActorId)
    cdef ActorId _admit(self, object behavior, object state, object name, Py_ssize_t cap, object overflow, Cell supervisor, object context, bint unborn, bint keeps, Cell estate)
    @cython.final
    cdef object _end(self, Cell cell, int reason, object cause)
    @cython.final
    cdef object _finish(self, Cell cell)
    cdef bint _say_goodbye(self, Cell cell) except -1
    @cython.final
    cdef str _called(self, Cell cell)
    @cython.final
    cdef bint _is_running_now(self, Cell cell) except -1
    @cython.final
    cdef object _kill(self, Cell cell, object cause)
    @cython.final
    cdef bint _is_killed(self, Cell cell, object cause) except -1
    @cython.final
    cdef bint _is_ended(self, Cell cell, int reason, object cause) except -1
    @cython.final
    cdef object _exit(self, Cell cell, int reason, object cause)
    @cython.final
    @cython.locals(actor=ActorId)
    cdef object _begin_exit(self, Cell cell, int reason, object cause)
    @cython.final
    @cython.locals(above=list, children=list, actor=ActorId, child=Cell, ending=Cell)
    cdef object _end_family(self, Cell cell)
    @cython.final
    cdef tuple _disband(self, Cell cell)
    @cython.final
    cdef bint _is_ended_with(self, Cell cell, object family) except -1
    @cython.final
    @cython.locals(actor=ActorId, supervisor=Cell, dead=Py_ssize_t, turn=Turn, reason=int)
    cdef object _complete_exit(self, Cell cell)
    @cython.final
    @cython.locals(actor=ActorId)
    cdef object _mark_stopping(self, Cell cell)
    @cython.final
    cdef bint _send_system(self, Cell cell, object data, object tag) except -1
