cimport cython
from bandstand.bus.capability_slot cimport CapabilitySlot
from bandstand.bus.frame cimport IdGenerator, kind_of, type_of
from bandstand.bus.request cimport OpenRequest, PendingRequest, Route
from bandstand.bus.router cimport Router
from bandstand.bus.durable.records cimport answer_data, request_data
from bandstand.bus.wire cimport write_frame
from bandstand.journal.page cimport RecordBatch

cdef int DONE

@cython.final
cdef class CommandQueue:
    cdef public long long in_progress
    cdef public long long places
    cdef readonly long long least
    cdef public long long entering
    cdef public long long unmarked
    cdef public object ready
    cdef public long long answered

    cdef object adapt(self)

@cython.final
cdef class PendingPage:
    cdef public RecordBatch commands
    cdef public RecordBatch records
    cdef public list effects
    cdef public list begun
    cdef public bint is_checkpoint

@cython.final
cdef class DurableLane:
    cdef Router _router
    cdef object _journal
    cdef object _state
    cdef object _remembered
    cdef long long _next_number
    cdef dict _doubts
    cdef dict _queues
    cdef set _ending
    cdef PendingPage _batch
    cdef PendingPage _writing
    cdef long long _events
    cdef bint _has_failed
    cdef bint _is_due
    cdef bint _is_full
    cdef bint _is_stopping
    cdef object _retry_timer
    cdef long long _size
    cdef long long _checkpoint_bytes
    cdef object _drained
    cdef public object on_checkpoint
    cdef public object on_page

    @cython.locals(route=Route, slot=CapabilitySlot, queue=CommandQueue, entry=OpenRequest, batch=PendingPage, flags=cython.int, number=cython.longlong, is_marked=bint, line=bytes, records=RecordBatch)
    cpdef object accept(self, PendingRequest pending)
    cdef object _accept_query(self, CommandQueue queue, PendingRequest pending)
    @cython.locals(route=Route, entry=OpenRequest, batch=PendingPage, flags=cython.int, line=bytes)
    cpdef object answer(self, PendingRequest pending, object frame, bint is_final)
    cdef CommandQueue _queue_of(self, PendingRequest pending)
    @cython.locals(queue=CommandQueue)
    cdef object _leave(self, PendingRequest pending, OpenRequest entry)
    @cython.locals(pending=PendingRequest, entry=OpenRequest, batch=PendingPage)
    cdef object _fill(self, CommandQueue queue)
    cpdef bint is_open(self, PendingRequest pending) except -1
    cdef object _want_page(self)
    cpdef object write_due(self, object due)
    @cython.locals(batch=PendingPage, records=RecordBatch)
    cpdef object write_page(self)
    @cython.locals(batch=PendingPage)
    cpdef object handle_written(self, object written)
    @cython.locals(pending=PendingRequest, queue=CommandQueue, flags=cython.int, lowest=Py_ssize_t, lowest_page=Py_ssize_t, count=Py_ssize_t)
    cdef object _complete(self, PendingPage batch, long long page)
    @cython.locals(entry=OpenRequest, queue=CommandQueue)
    cdef object _on_durable(self, PendingRequest pending, long long page)
    @cython.locals(entry=OpenRequest)
    cdef Py_ssize_t _finish(self, PendingRequest pending, object frame, int flags) except -1
