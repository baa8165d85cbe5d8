"""All exceptions of bandstand, as one tree.

    BandstandError                   base class; `code` identifies the kind of error and never changes
    ├── InternalError           -1   an assertion of the runtime failed
    ├── NoMemory                -2   (also a MemoryError) no memory for a new actor or timer
    ├── InvalidArgument         -3   (also a ValueError) an argument is never valid for this call
    ├── LoopClosed              -4   the loop is stopping, stopped or destroyed
    ├── NoSuchActor             -5   (also a LookupError) the actor has ended, or never existed
    ├── ActorNotLocal           -6   (also a LookupError) the id belongs to another loop
    ├── MailboxFull             -7   the lane of the target's mailbox is full
    ├── TimerInvalid            -8   the timer is unknown, has fired, or was cancelled
    ├── IoRegistrationFailed    -9   (also an OSError) the file descriptor cannot be watched
    ├── IoNotWatched           -10   the file descriptor is not watched
    ├── MaxActors              -11   the actor table is full
    ├── WrongThread           -100   the call is allowed only on the loop's own thread
    ├── LoopBusy              -101   the call is not allowed inside a behavior, or while the loop is running
    ├── BadVerdict            -102   a behavior returned something that is not a verdict
    ├── MailboxOverrun        -103   a system message found no free slot; the actor failed
    ├── ActorFailed           -104   the actor was failed with fail_actor() and a textual reason
    ├── ActorKilled           -105   the actor was ended without waiting for its current work
    ├── LinkBroken            -106   a linked actor failed
    ├── StartFailed           -107   a child did not start; its siblings were stopped again
    ├── GaveUp                -108   a supervisor reached its restart limit and stopped
    ├── NoSuchChild           -109   (also a LookupError) the supervisor has no child with this name
    ├── ChildState            -110   the state of the child, or of its supervisor, does not allow the call
    ├── MaxChildren           -111   a dynamic supervisor has reached its limit of children
    ├── AskTimeout            -112   (also a TimeoutError) no answer arrived in time
    ├── AskCycle              -113   the ask would deadlock: the target waits for the caller
    ├── TargetEnded           -114   the actor that was asked ended without an answer
    ├── MessageDropped        -115   the overflow policy of a full mailbox dropped an ask
    ├── UnknownMessage        -116   (also a TypeError) no method of the actor accepts a message of this class
    ├── BadDeclaration        -117   (also a TypeError) an actor class contradicts itself or its interface
    ├── ChildFailed           -118   a child that an actor started itself failed
    ├── BadMessage            -119   (also a ValueError) a line received over the wire is not a valid message
    ├── BadContract           -120   (also a TypeError) the declaration of a capability is invalid
    ├── OutboundFault         -121   a capability sent something that its contract does not allow
    ├── RequestFailed         -122   (also a Refused) a command or query was answered with an error
    ├── Refused               -123   raised in a handler: answer with an error and continue
    ├── BootFailed            -124   a node did not start; everything it had started was stopped
    ├── CannotListen          -125   (also an OSError) an adapter cannot start
    ├── ChannelClosed         -126   the channel is closed and empty, or does not accept elements
    ├── ChannelTimeout        -127   (also a TimeoutError) nothing was sent or received in time
    ├── Cancelled             -128   a cancel token ended the wait
    ├── ScopeClosed           -129   the scope has ended, or was never entered
    ├── PodGone               -130   (also a NoSuchActor) the pod has ended for good
    ├── PodDown               -131   (also a NoSuchActor) the pod is not running now, and the handle does not wait
    ├── PodTimeout            -132   (also a TimeoutError) the pod did not come back in time
    ├── PodFailed             -133   a pod failed for good, and its troupe ended with it
    ├── RemoteError           -134   an exception of another process that cannot be rebuilt in this one
    ├── NodeGone              -135   (also a ConnectionError) there is no connection to a node of the bus
    ├── NameTaken             -140   another actor is registered under this name
    ├── NoSuchName            -141   (also a LookupError) no actor is registered under this name
    ├── NameTimeout           -142   (also a TimeoutError) no actor was registered under this name in time
    ├── TopicClosed           -143   the topic is closed
    ├── CutOff                -144   a subscription was closed because its backlog was full
    ├── StashFull             -145   the stash is full
    ├── NotInThisState        -146   the current state of a state machine does not handle the message
    ├── BadTransition         -147   a state machine cannot make this transition
    └── IgnoreChild           -148   raised by an init: the supervisor continues without this child

Codes down to -99 belong to errors that any actor loop can have; those that only bandstand has start at -100. A message says what
happened, where, and what to do. Exceptions can be pickled: they hold numbers and names, never live objects.

`exceptions` defines the classes; `formatting` turns any object into text without raising, for error messages and logs.
"""

from bandstand.errors.exceptions import (
    ActorFailed,
    ActorKilled,
    ActorNotLocal,
    AskCycle,
    AskTimeout,
    BadContract,
    BadDeclaration,
    BadMessage,
    BadTransition,
    BadVerdict,
    BandstandError,
    BootFailed,
    Cancelled,
    CannotListen,
    ChannelClosed,
    ChannelTimeout,
    ChildFailed,
    ChildState,
    CutOff,
    GaveUp,
    IgnoreChild,
    InternalError,
    InvalidArgument,
    IoNotWatched,
    IoRegistrationFailed,
    LinkBroken,
    LoopBusy,
    LoopClosed,
    MailboxFull,
    MailboxOverrun,
    MaxActors,
    MaxChildren,
    MessageDropped,
    NameTaken,
    NameTimeout,
    NodeGone,
    NoMemory,
    NoSuchActor,
    NoSuchChild,
    NoSuchName,
    NotInThisState,
    OutboundFault,
    PodDown,
    PodFailed,
    PodGone,
    PodTimeout,
    Refused,
    RemoteError,
    RequestFailed,
    ScopeClosed,
    StartFailed,
    StashFull,
    TargetEnded,
    TimerInvalid,
    TopicClosed,
    UnknownMessage,
    WrongThread,
)

__all__ = (
    "ActorFailed",
    "ActorKilled",
    "ActorNotLocal",
    "AskCycle",
    "AskTimeout",
    "BadContract",
    "BadDeclaration",
    "BadMessage",
    "BadTransition",
    "BadVerdict",
    "BandstandError",
    "BootFailed",
    "Cancelled",
    "CannotListen",
    "ChannelClosed",
    "ChannelTimeout",
    "ChildFailed",
    "ChildState",
    "CutOff",
    "GaveUp",
    "IgnoreChild",
    "InternalError",
    "InvalidArgument",
    "IoNotWatched",
    "IoRegistrationFailed",
    "LinkBroken",
    "LoopBusy",
    "LoopClosed",
    "MailboxFull",
    "MailboxOverrun",
    "MaxActors",
    "MaxChildren",
    "MessageDropped",
    "NameTaken",
    "NameTimeout",
    "NoMemory",
    "NoSuchActor",
    "NoSuchChild",
    "NoSuchName",
    "NodeGone",
    "NotInThisState",
    "OutboundFault",
    "PodDown",
    "PodFailed",
    "PodGone",
    "PodTimeout",
    "Refused",
    "RemoteError",
    "RequestFailed",
    "ScopeClosed",
    "StartFailed",
    "StashFull",
    "TargetEnded",
    "TimerInvalid",
    "TopicClosed",
    "UnknownMessage",
    "WrongThread",
)
