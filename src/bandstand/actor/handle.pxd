from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.ref cimport Py_INCREF
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.ids cimport ActorId
from bandstand.core.hot.desk cimport Desk
from bandstand.core.hot.wheel cimport Timer
from bandstand.actor.hot.handle cimport Handle
from bandstand.actor.hot.method cimport Method
from bandstand.actor.hot.porter cimport Porter
from bandstand.actor.hot.asks cimport Asked
from bandstand.actor.hot.reply cimport Reply
from bandstand.actor.hot.waits cimport Landing
cimport cython

cdef int ACCEPTED
cdef int AFAR
cdef int AWAY
cdef int DATA
cdef int FULL
cdef int PENDING
cdef int HELD
cdef int RETRY
cdef object ZERO
cdef bint MAY_WAIT
cdef bint AT_ONCE

# Python calls what has these two flags with the object in front and without making a tuple; the flags and the offset of the
# pointer are the type's, and are set once, with the first port.
cdef extern from *:
    """
    static int bandstand_ports_are_open = 0;
    static void bandstand_open_ports(PyObject *port, void *slot) {
        PyTypeObject *type = Py_TYPE(port);
        if (bandstand_ports_are_open) return;
        bandstand_ports_are_open = 1;
        type->tp_vectorcall_offset = (char *)slot - (char *)port;
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
        PyType_Modified(type);
    }
    """
    void bandstand_open_ports(object port, void *slot) noexcept
    Py_ssize_t PyVectorcall_NARGS(size_t nargsf) noexcept
    object PyObject_Vectorcall(object function, PyObject **arguments, size_t count, PyObject *names)

cdef object refusal(Handle handle)
@cython.locals(porter=Porter)
cpdef object packed(Desk kernel, Handle handle, Method method, object data)
cdef int post(Desk kernel, ActorId actor, Method method, object data, object sender) except -1
@cython.locals(kernel=Desk, fate=int)
cpdef int post_at(ActorId actor, Method method, object data, object sender) except -1
@cython.locals(cell=Cell)
cpdef bint has_room(ActorId actor, Method method) except -1
@cython.locals(cell=Cell)
cpdef bint is_draining(ActorId actor) except -1
cdef bint is_shut(Desk kernel) except -1
cdef bint has_patience(Handle handle) except -1
@cython.locals(kernel=Desk, cell=Cell, fate=int)
cpdef int land_at(ActorId actor, Method method, object data, Asked asked) except -1
cdef int wait_at(Desk kernel, Cell cell, Method method, object data, Asked asked) except -1
cdef int known(Desk kernel, ActorId actor, Method method, object data, object sender) except -1
@cython.locals(actor=ActorId, kernel=Desk)
cdef object refuse(Handle handle, Method method, object data, object message, object sender, int fate, bint may_wait)
@cython.locals(actor=ActorId, kernel=Desk, tries=int, answer=int, fate=int, waits=bint)
cpdef object post_afar(Handle handle, Method method, object data, object sender, bint may_wait)
@cython.locals(cell=Cell)
cdef object make_room(Desk kernel, ActorId actor, Method method, object message, object sender)
@cython.locals(porter=Porter)
cdef bint slip(Desk kernel, ActorId actor, Method method, object data) except -1
cpdef object tell(Handle handle, Method method, object data)
@cython.locals(actor=ActorId, kernel=Desk, porter=Porter, fate=int)
cdef object send(Handle handle, Method method, object data, bint may_wait)
cpdef bint try_tell(Handle handle, Method method, object data) except -1
@cython.locals(actor=ActorId, kernel=Desk, porter=Porter, reply=Reply, fate=int)
cpdef Reply ask(Handle handle, Method method, object data, Py_ssize_t ms)
@cython.locals(kernel=Desk)
cpdef bint is_afar(Handle handle) except -1
@cython.locals(kernel=Desk, landing=Landing)
cpdef Landing land(Handle handle, Method method, object data)
@cython.locals(actor=ActorId, kernel=Desk, cell=Cell, fate=int)
cpdef Timer wait_for_room(Handle handle, Method method, object data, Asked waiter)

@cython.locals(kernel=Desk)
cpdef bint withdraw(Handle handle, Timer message) except -1

@cython.final
cdef class Port:
    cdef void *vectorcall
    cdef readonly Method method
    cdef readonly object binder
    cdef readonly object face

    @cython.locals(method=Method, reply=Reply)
    cpdef object call(self, Handle handle, object data)

@cython.nonecheck(False)
cdef inline object call_port(object port, PyObject **arguments, size_t count, PyObject *names):
    # The usual call comes first, and by itself: what the others need would be made ready for it, too.
    if (
        names == NULL
        and PyVectorcall_NARGS(count) == 2
        and (<Port>port).method.arity == 1
        and isinstance(<object>arguments[0], Handle)
    ):
        if (<Port>port).method.is_ask:
            return (<Port>port).call(<Handle>arguments[0], <object>arguments[1])
        if not slip((<Handle>arguments[0])._bs_loop, (<Handle>arguments[0])._bs_actor, (<Port>port).method, <object>arguments[1]):
            send(<Handle>arguments[0], (<Port>port).method, <object>arguments[1], MAY_WAIT)
        return None
    return call_otherwise(<Port>port, arguments, PyVectorcall_NARGS(count), names)

cdef inline object call_otherwise(Port self, PyObject **arguments, Py_ssize_t given, PyObject *names):
    cdef Py_ssize_t at
    cdef object data
    cdef tuple every
    if names == NULL and given > 0 and given == self.method.arity + 1 and isinstance(<object>arguments[0], Handle):
        if given == 1:
            return self.call(<Handle>arguments[0], None)
        every = PyTuple_New(given - 1)
        for at in range(1, given):
            data = <object>arguments[at]
            Py_INCREF(data)
            PyTuple_SET_ITEM(every, at - 1, data)
        return self.call(<Handle>arguments[0], every)
    if given > 0 and isinstance(<object>arguments[0], Handle):
        # The binder has the method's own signature, and the handle stands where the method has its self.
        return self.call(<Handle>arguments[0], PyObject_Vectorcall(self.binder, arguments, given, names))
    return self.__call__(*[<object>arguments[at] for at in range(given)])

cdef inline object open_port(Port port):
    port.vectorcall = <void *>call_port
    bandstand_open_ports(port, &port.vectorcall)
