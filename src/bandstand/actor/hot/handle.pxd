cimport cython
from cpython.object cimport PyObject
from bandstand.core.hot.desk cimport Desk
from bandstand.core.ids cimport ActorId

cdef extern from "Python.h":
    int set_past "PyObject_GenericSetAttr"(object target, object name, object value) except -1
    ctypedef struct _Making "PyTypeObject":
        object (*tp_new)(_Making* kind, object arguments, PyObject* named)

cdef inline object new_handle(object kind):
    return (<_Making*><PyObject*>kind).tp_new(<_Making*><PyObject*>kind, (), NULL)

cdef class Handle:
    cdef object __weakref__
    cdef readonly Desk _bs_loop
    cdef readonly ActorId _bs_actor
    cdef readonly object _bs_name
    cdef readonly object _bs_asks
    cdef readonly Py_ssize_t _bs_ask_ms
    cdef readonly object _bs_place

    @cython.locals(actor=ActorId)
    cpdef bint _bs_renew(self) except -1
    cpdef object _bs_forget(self)
    cpdef bint _bs_refresh(self) except -1
    cpdef object _bs_key(self)

@cython.locals(handle=Handle)
cpdef Handle attach(object loop, object instance, ActorId actor, object name, object ask_ms)
@cython.locals(kernel=Desk)
cpdef bint stop_at_once(Handle handle) except -1
