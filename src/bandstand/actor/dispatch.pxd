cimport cython
from bandstand.core.hot.cell cimport Cell
from bandstand.core.hot.desk cimport Desk
from bandstand.core.hot.ids cimport ActorId
from bandstand.core.hot.kernel cimport is_coroutine
from bandstand.core.hot.ring cimport Ring
from bandstand.core.hot.turn cimport Turn
from bandstand.actor.context_vars cimport Envelope
from bandstand.actor.reply cimport ReplyCallback

cdef int NOTHING
cdef int ONE
cdef int SEVERAL
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
cpdef object dispatch_message(Turn turn, object data)
cdef object open_envelope(Turn turn, Method method, Envelope envelope)
@cython.locals(asked=ReplyCallback, callback=ReplyCallback)
cpdef object call_handler(Turn turn, Method method, object data)
@cython.locals(kernel=Desk, actor=ActorId, cell=Cell, ring=Ring, envelope=Envelope, asked=ReplyCallback, items=list, callbacks=list, has_callbacks=bint)
cpdef object collect_batch(Turn turn, Method method, object data, object carried)

@cython.final
cdef class BatchCallback(ReplyCallback):
    cdef readonly Method method
    cdef readonly list callbacks

    @cython.locals(each=ReplyCallback, raises=tuple)
    cpdef object settle(self, object answers)
    @cython.locals(cell=Cell)
    cpdef object cancel_if_unwanted(self)

@cython.final
cdef class MailboxGauge:
    cdef Cell cell
    cpdef Py_ssize_t depth(self) except -1
    cpdef object close(self)

cdef Cell cell_of(ActorId actor)
