cimport cython
from bandstand.core.mailbox cimport ActorCell
from bandstand.core.hot.desk cimport Desk
from bandstand.core.ids cimport ActorId
from bandstand.core.timer_wheel cimport Timer
from bandstand.actor.hot.asks cimport Asks
from bandstand.actor.hot.reply cimport Reply

cdef int PENDING
cdef int ANSWERED
cdef int FAILED
cdef int CANCELLED

cdef class Landing(Reply):
    cdef Timer message
    cdef object settle(self, int state, object value)

cdef class Ending(Landing):
    cdef str what(self)

@cython.locals(ending=Ending, cell=ActorCell)
cpdef Ending end_of(Desk kernel, ActorId actor, object name, Asks asks)
