cimport cython
from libc.stdint cimport int64_t, uint64_t
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.ids cimport ActorId
from bandstand.core.hot.post cimport Post
from bandstand.core.hot.table cimport Table

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept

cdef int FAIL_REASON
cdef int FAILED
cdef int INIT
cdef int LOOP_SHIFT
cdef int NORMAL
cdef int RUNNING
cdef int STOPPED
cdef int STOPPING

@cython.final
cdef class Monitor:
    cdef Cell watcher
    cdef Cell target

cdef class Life(Post):
    cdef Table _table
    cdef readonly unsigned long _owner
    cdef public bint _closed
    cdef bint _ending
    cdef Py_ssize_t _reserve
    cdef Cell _current
    cdef int64_t _spawned
    cdef list _stopped
    cdef object _on_start
    cdef object _on_stop

    cpdef object _report_exit(self, object actor, object name, int reason, object cause, Py_ssize_t dead)
    cpdef object _release_fds(self, Cell cell)
    cdef object _release_timers(self, Cell cell)
    cpdef object _claim(self)
    cpdef object _check_thread(self)
    cpdef object _wrong_thread(self)
    @cython.final
    cdef Cell _reach(self, object target)
    @cython.final
    @cython.locals(actor=ActorId, cell=Cell)
    cdef Cell _find(self, object target)
    @cython.final
    @cython.locals(cell=Cell)
    cdef Cell _reach_number(self, object number)
    @cython.final
    @cython.locals(actor=ActorId)
    cdef bint _is_foreign(self, object target) except -1
    @cython.final
    cdef object _missing(self, object target)
    @cython.final
    cdef object _unreachable(self, object target)
    @cython.final
    @cython.locals(cell=Cell, actor=ActorId)
    cdef ActorId _admit(self, object behavior, object state, object name, Py_ssize_t cap, object overflow, Cell supervisor, object context)
    @cython.final
    cdef object _end(self, Cell cell, int reason, object cause)
    @cython.final
    @cython.locals(actor=ActorId, supervisor=Cell, dead=Py_ssize_t)
    cdef object _exit(self, Cell cell, int reason, object cause)
    @cython.final
    @cython.locals(actor=ActorId, cell=Cell)
    cdef ActorId _local_id(self, object target)
    @cython.final
    @cython.locals(actor=ActorId)
    cdef object _mark_stopping(self, Cell cell)
    @cython.final
    @cython.locals(monitor=Monitor, target=Cell)
    cdef Monitor _watch(self, Cell watcher, ActorId actor)
    @cython.final
    @cython.locals(watcher=Cell)
    cdef bint _owns(self, Monitor monitor)
    @cython.final
    @cython.locals(watcher=Cell, target=Cell)
    cdef bint _unwatch(self, Monitor monitor) except -1
    @cython.final
    @cython.locals(monitor=Monitor)
    cdef object _stop_watching(self, Cell cell)
    @cython.final
    @cython.locals(monitor=Monitor, watcher=Cell)
    cdef object _tell_watchers(self, Cell cell, int reason, object cause)
    @cython.final
    cdef object _send_down(self, Cell watcher, object down)
    @cython.final
    cdef bint _send_system(self, Cell cell, object data, object tag) except -1
