cimport cython
from bandstand.core.ids cimport ActorId
from bandstand.core.timer_wheel cimport Timer
from bandstand.bus.hot.fields cimport correlation_of, id_of, metadata_of
from bandstand.bus.hot.idmaker cimport IdMaker
from bandstand.bus.hot.pending cimport Delivery, Pending
from bandstand.bus.hot.route cimport Route
from bandstand.bus.hot.switch cimport Switch

cdef int DONE
cdef object Frame
cdef object Metadata

cdef class Stand:
    cdef readonly Switch switch
    cdef public ActorId actor
    cdef public object at_hand
    cdef public object sync_item
    cdef public long long handled
    cdef public long long load
    cdef public long long room
    cdef readonly object events
    cdef public tuple handlers
    cdef public object held
    cdef set _plain

    @cython.locals(pending=Pending, delivery=Delivery, route=Route, timer=Timer)
    cpdef object behave(self, object ctx, object item)
    cdef bint _is_coroutine(self, object kind) except -1
    @cython.locals(pending=Pending, route=Route)
    cpdef object reply(self, object item, object value)
    @cython.locals(pending=Pending, ids=IdMaker)
    cpdef object answer(self, object item, str kind, str type_name, object data)
    cpdef object take_held(self)
    cpdef object perform(self, object item)
    cpdef object await_result(self, object item, object result)
    cpdef bint is_refused(self, object item, object error) except -1
    cpdef object check_silence(self, object item, object value)
