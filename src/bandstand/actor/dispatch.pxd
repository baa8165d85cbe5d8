cimport cython
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.kernel cimport Kernel
from bandstand.core.ids cimport ActorId
from bandstand.core.coroutines cimport is_coroutine
from bandstand.core.mailbox cimport Ring
from bandstand.core.context cimport ActorContext
from bandstand.actor.context_vars cimport Envelope
from bandstand.actor.reply cimport ReplyCallback

cdef int NO_ARGUMENTS
cdef int ONE_ARGUMENT
cdef int POSITIONAL_ARGUMENTS
cdef int SYSTEM
cdef object ZERO

@cython.final
cdef class Method:
    cdef readonly str owner
    cdef readonly str name
    cdef readonly object function
    cdef readonly int lane
    cdef readonly int shape
    cdef readonly Py_ssize_t arity
    cdef readonly bint is_ask
    cdef readonly bint is_async
    cdef readonly tuple raises
    cdef readonly Py_ssize_t limit
    cdef readonly bint awaits
    cdef readonly bint is_reentrant

    cpdef object call(self, object instance, object data)

@cython.locals(method=Method)
cpdef object dispatch_message(ActorContext ctx, object data)
cdef object open_envelope(ActorContext ctx, Method method, Envelope envelope)
@cython.locals(asked=ReplyCallback, callback=ReplyCallback)
cpdef object call_handler(ActorContext ctx, Method method, object data)
@cython.locals(kernel=Kernel, actor=ActorId, cell=ActorCell, ring=Ring, envelope=Envelope, asked=ReplyCallback, items=list, callbacks=list, has_callbacks=bint)
cpdef object collect_batch(ActorContext ctx, Method method, object data, object carried)

@cython.final
cdef class BatchCallback(ReplyCallback):
    cdef readonly Method method
    cdef readonly list callbacks

    @cython.locals(each=ReplyCallback, raises=tuple)
    cpdef object settle(self, object answers)
    @cython.locals(cell=ActorCell)
    cpdef object cancel_if_unwanted(self)

@cython.final
cdef class MailboxGauge:
    cdef ActorCell cell
    cpdef Py_ssize_t depth(self) except -1
    cpdef object close(self)

cdef ActorCell cell_of(ActorId actor)
