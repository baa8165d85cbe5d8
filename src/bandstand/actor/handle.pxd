cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.kernel cimport Kernel
from bandstand.core.loop cimport Loop
from bandstand.core.ids cimport ActorId
from bandstand.core.timer_wheel cimport Timer
from bandstand.actor.context_vars cimport ContextCarrier
from bandstand.actor.dispatch cimport Method
from bandstand.actor.reply cimport AskTable, LocalReply, ReplyCallback, new_reply, wait_for_room

cdef int ACCEPTED
cdef int OTHER_THREAD
cdef int NO_ACTOR
cdef int DATA
cdef int FULL
cdef int HELD
cdef int RETRY
cdef object ZERO
cdef bint MAY_WAIT
cdef bint AT_ONCE

cdef extern from "Python.h":
    int set_attribute "PyObject_GenericSetAttr"(object target, object name, object value) except -1
    ctypedef struct _Type "PyTypeObject":
        object (*tp_new)(_Type* kind, object arguments, PyObject* named)

cdef inline object new_handle(object kind):
    return (<_Type*><PyObject*>kind).tp_new(<_Type*><PyObject*>kind, (), NULL)

cdef class Handle:
    cdef object __weakref__
    cdef readonly Kernel __handle_kernel__
    cdef readonly ActorId __handle_actor__
    cdef readonly object __handle_name__
    cdef readonly AskTable __handle_asks__
    cdef readonly Py_ssize_t __handle_ask_ms__
    cdef readonly object __handle_ref__

@cython.locals(handle=Handle)
cpdef Handle attach_handle(Loop loop, object instance, ActorId actor, object name, object ask_ms)
cpdef Handle with_ref(Handle handle, object ref)
@cython.locals(actor=ActorId)
cpdef bint renew(Handle handle) except -1
cpdef bint refresh(Handle handle) except -1
cpdef object forget_actor(Handle handle)
cdef object identity(Handle handle)
cpdef object ref_of(Handle handle)
@cython.locals(kernel=Kernel)
cdef Kernel kernel_of(ActorId actor)
@cython.locals(kernel=Kernel)
cpdef bint on_other_thread(Handle handle) except -1
@cython.locals(kernel=Kernel)
cpdef bint stop_local(Handle handle) except -1

cdef int post(Kernel kernel, ActorId actor, Method method, object message, object sender) except -1
@cython.locals(kernel=Kernel, outcome=int)
cpdef int post_to(ActorId actor, Method method, object message, object sender) except -1
@cython.locals(kernel=Kernel, cell=ActorCell, outcome=int)
cpdef int post_or_wait(ActorId actor, Method method, object message, ReplyCallback callback) except -1
@cython.locals(before=ActorId, outcome=int)
cpdef int deliver(Handle handle, ActorId actor, Method method, object data, ReplyCallback callback, object context) except -1
@cython.locals(kernel=Kernel, before=ActorId)
cpdef object post_held(Handle handle, ActorId actor, Method method, object message, ReplyCallback callback)
@cython.locals(cell=ActorCell)
cpdef bint has_room(ActorId actor, Method method) except -1
@cython.locals(cell=ActorCell, kernel=Kernel)
cpdef bint is_draining(ActorId actor) except -1
@cython.locals(carrier=ContextCarrier)
cpdef object wrap(Kernel kernel, Handle handle, Method method, object data)
cpdef object wrapped(Handle handle, Method method, object data)

cdef bint try_fast_path(Kernel kernel, ActorId actor, Method method, object data) except -1
cpdef object tell(Handle handle, Method method, object data)
cpdef bint try_tell(Handle handle, Method method, object data) except -1
@cython.locals(actor=ActorId, kernel=Kernel, carrier=ContextCarrier, outcome=int)
cdef object send(Handle handle, Method method, object data, bint may_wait)
@cython.locals(actor=ActorId, kernel=Kernel)
cdef object send_again(Handle handle, Method method, object data, object message, object sender, int outcome, bint may_wait)
@cython.locals(actor=ActorId, kernel=Kernel, tries=int, verdict=int, outcome=int, holds=bint)
cpdef object send_off_thread(Handle handle, Method method, object data, object sender, bint may_wait)
@cython.locals(cell=ActorCell)
cdef object make_room(Kernel kernel, ActorId actor, Method method, object message, object sender)
cdef bint may_hold(Handle handle) except -1
cdef object refusal(Handle handle)
@cython.locals(actor=ActorId, kernel=Kernel, carrier=ContextCarrier, table=AskTable, reply=LocalReply, outcome=int)
cpdef LocalReply ask(Handle handle, Method method, object data, Py_ssize_t ms)
@cython.locals(reply=LocalReply)
cpdef LocalReply tell_when_room(Handle handle, Method method, object data)
@cython.locals(actor=ActorId, kernel=Kernel, cell=ActorCell, outcome=int)
cpdef Timer post_when_room(Handle handle, Method method, object data, ReplyCallback callback)
@cython.locals(kernel=Kernel)
cpdef bint stop_waiting(Handle handle, Timer waiter) except -1
cdef object ask_off_thread(Handle handle, Method method, object data)

# Python calls an object whose type has these two flags with the handle as first argument and without making a tuple. The flags
# and the offset of the function pointer belong to the type, and are set with the first HandleMethod.
cdef extern from *:
    """
    static int bandstand_vectorcall_is_enabled = 0;
    static void bandstand_enable_vectorcall(PyObject *method, void *slot) {
        PyTypeObject *type = Py_TYPE(method);
        if (bandstand_vectorcall_is_enabled) return;
        bandstand_vectorcall_is_enabled = 1;
        type->tp_vectorcall_offset = (char *)slot - (char *)method;
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
        PyType_Modified(type);
    }
    """
    void bandstand_enable_vectorcall(object method, void *slot) noexcept
    Py_ssize_t PyVectorcall_NARGS(size_t nargsf) noexcept
    object PyObject_Vectorcall(object function, PyObject **arguments, size_t count, PyObject *names)

@cython.final
cdef class HandleMethod:
    cdef void *vectorcall
    cdef readonly Method method
    cdef readonly object binder
    cdef readonly object bound

    @cython.locals(method=Method, reply=LocalReply)
    cpdef object call(self, Handle handle, object data)

@cython.nonecheck(False)
cdef inline object call_method(object callee, PyObject **arguments, size_t count, PyObject *names):
    # The usual call, a handle and one argument, comes first and in a function of its own: the others need more setup.
    if (
        names == NULL
        and PyVectorcall_NARGS(count) == 2
        and (<HandleMethod>callee).method.arity == 1
        and isinstance(<object>arguments[0], Handle)
    ):
        if (<HandleMethod>callee).method.is_ask:
            return (<HandleMethod>callee).call(<Handle>arguments[0], <object>arguments[1])
        if not try_fast_path((<Handle>arguments[0]).__handle_kernel__, (<Handle>arguments[0]).__handle_actor__, (<HandleMethod>callee).method, <object>arguments[1]):
            send(<Handle>arguments[0], (<HandleMethod>callee).method, <object>arguments[1], MAY_WAIT)
        return None
    return call_method_slow(<HandleMethod>callee, arguments, PyVectorcall_NARGS(count), names)

cdef inline object call_method_slow(HandleMethod self, PyObject **arguments, Py_ssize_t given, PyObject *names):
    cdef Py_ssize_t index
    cdef object data
    cdef tuple values
    if names == NULL and given > 0 and given == self.method.arity + 1 and isinstance(<object>arguments[0], Handle):
        if given == 1:
            return self.call(<Handle>arguments[0], None)
        values = PyTuple_New(given - 1)
        for index in range(1, given):
            data = <object>arguments[index]
            Py_INCREF(data)
            PyTuple_SET_ITEM(values, index - 1, data)
        return self.call(<Handle>arguments[0], values)
    if given > 0 and isinstance(<object>arguments[0], Handle):
        # The binder has the method's own signature, with the handle in the place of self.
        return self.call(<Handle>arguments[0], PyObject_Vectorcall(self.binder, arguments, given, names))
    return self.__call__(*[<object>arguments[index] for index in range(given)])

cdef inline object enable_vectorcall(HandleMethod method):
    method.vectorcall = <void *>call_method
    bandstand_enable_vectorcall(method, &method.vectorcall)
