"""All exceptions of bandstand, as one tree.

    BandstandError                    base class; `code` identifies the kind of error and never changes
    ├── LoopError                      the loop itself does not allow the call, or has no resources for it
    │   ├── InternalError             -1   an assertion of the runtime failed
    │   ├── OutOfMemoryError          -2   (also a MemoryError) no memory for a new actor or timer
    │   ├── LoopClosedError           -4   the loop is stopping, stopped or destroyed
    │   ├── InvalidTimerError         -8   the timer is unknown, has fired, or was cancelled
    │   ├── IoRegistrationError       -9   (also an OSError) the file descriptor cannot be watched
    │   ├── IoNotWatchedError        -10   the file descriptor is not watched
    │   ├── MaxActorsError           -11   the actor table is full
    │   ├── WrongThreadError        -100   the call is allowed only on the loop's own thread
    │   └── LoopBusyError           -101   the call is not allowed inside a behavior, or while the loop is running
    ├── SendError                      a message was not sent: its target does not exist, has no room, or does not accept it
    │   ├── NoSuchActorError          -5   (also a LookupError) the actor has ended, or never existed
    │   │   └── ActorRestartingError -149   its supervisor is going to restart it, and this call does not wait for that
    │   ├── ActorNotLocalError        -6   (also a LookupError) the id belongs to another loop
    │   ├── MailboxFullError          -7   the lane of the target's mailbox is full
    │   ├── UnknownMessageError     -116   (also a TypeError) no method of the actor accepts a message of this class
    │   ├── NameTakenError          -140   another actor is registered under this name
    │   ├── NoSuchNameError         -141   (also a LookupError) no actor is registered under this name
    │   ├── NameTimeoutError        -142   (also a TimeoutError) no actor was registered under this name in time
    │   ├── StashFullError          -145   the stash is full
    │   └── NotInThisStateError     -146   the current state of a state machine does not handle the message
    ├── AskError                       an ask ended without an answer
    │   ├── AskTimeoutError         -112   (also a TimeoutError) no answer arrived in time
    │   ├── AskCycleError           -113   the ask would deadlock: the target waits for the caller
    │   ├── TargetEndedError        -114   the actor that was asked ended without an answer
    │   └── MessageDroppedError     -115   the overflow policy of a full mailbox dropped an ask
    ├── SupervisionError               an actor failed, or a supervisor cannot do what it was asked to do
    │   ├── InvalidVerdictError     -102   a behavior returned something that is not a verdict
    │   ├── MailboxOverrunError     -103   a system message found no free slot; the actor failed
    │   ├── ActorFailedError        -104   the actor was failed with fail_actor() and a textual reason
    │   ├── ActorKilledError        -105   the actor was ended without waiting for its current work
    │   ├── LinkBrokenError         -106   a linked actor failed
    │   ├── StartError              -107   a child did not start; its siblings were stopped again
    │   ├── RestartLimitError       -108   a supervisor reached its restart limit and stopped
    │   ├── NoSuchChildError        -109   (also a LookupError) the supervisor has no child with this name
    │   ├── ChildStateError         -110   the state of the child, or of its supervisor, does not allow the call
    │   ├── MaxChildrenError        -111   a dynamic supervisor has reached its limit of children
    │   ├── ChildFailedError        -118   a child that an actor started itself failed
    │   └── IgnoreChild             -148   raised by an init: the supervisor continues without this child
    ├── ScopeError                     a scope, channel or topic has ended, or a wait on it has
    │   ├── ChannelClosedError      -126   the channel is closed and empty, or does not accept elements
    │   ├── ChannelTimeoutError     -127   (also a TimeoutError) nothing was sent or received in time
    │   ├── ScopeClosedError        -129   the scope has ended, or was never entered
    │   ├── TopicClosedError        -143   the topic is closed
    │   ├── SubscriptionCutOffError -144   a subscription was closed because its backlog was full
    │   └── TokenCancelledError     -128   a cancel token ended the wait
    ├── PodError                       a pod is not running, or an exception came from another process
    │   ├── PodGoneError            -130   (also a NoSuchActorError) the pod has ended for good
    │   ├── PodDownError            -131   (also a NoSuchActorError) the pod is not running now, and the handle does not wait
    │   ├── PodTimeoutError         -132   (also a TimeoutError) the pod did not come back in time
    │   ├── PodFailedError          -133   a pod failed for good, and its troupe ended with it
    │   └── RemoteError             -134   an exception of another process that cannot be rebuilt in this one
    ├── BusError                       a message of the bus is not valid or was answered with an error, or a node cannot start or be reached
    │   ├── InvalidMessageError     -119   (also a ValueError) a line received over the wire is not a valid message
    │   ├── ContractViolationError  -121   a capability sent something that its contract does not allow
    │   ├── RequestFailedError      -122   (also a RefusedError) a command or query was answered with an error
    │   ├── BootError               -124   a node did not start; everything it had started was stopped
    │   ├── ListenError             -125   (also an OSError) an adapter cannot start
    │   ├── NodeGoneError           -135   (also a ConnectionError) there is no connection to a node of the bus
    │   ├── RefusedError            -123   raised in a handler: answer with an error and continue
    │   └── StepUnknownError        -175   (also a RefusedError) whether a step of a workflow was carried out is not known
    │       └── StepResultError     -176   the result of a step cannot be written, or not be read any more
    ├── JournalError                   a journal cannot be opened, read or written
    │   ├── JournalClosedError      -160   the journal is not open
    │   ├── JournalLockedError      -161   another process has the journal open for writing
    │   ├── JournalFullError        -162   the disk is full; nothing was written
    │   ├── JournalOverloadedError  -163   too many bytes wait for the disk; nothing was written
    │   ├── JournalFailedError      -164   the disk has failed, and nothing can be written any more
    │   ├── JournalCorruptError     -165   a record has changed, or a page is missing
    │   └── EventStoreError         -166   events of an actor cannot be read back, or not be written by this incarnation
    └── ConfigError                    an argument, a declaration or a setting is not valid
        ├── InvalidArgumentError      -3   (also a ValueError) an argument is never valid for this call
        ├── DeclarationError        -117   (also a TypeError) an actor class contradicts itself or its interface
        ├── ContractError           -120   (also a TypeError) the declaration of a capability is invalid
        ├── EventSchemaError        -167   (also a TypeError) events in a journal do not fit the classes of the program
        └── InvalidTransitionError  -147   a state machine cannot make this transition

`TryAgainError` is a second base class of errors after which the same call may succeed later: `MailboxFullError`, `ActorRestartingError`,
`TargetEndedError`, `MessageDroppedError`, `PodDownError`, `PodTimeoutError`, `NodeGoneError`, `JournalFullError`, `JournalOverloadedError`.

Codes down to -99 belong to errors that any actor loop can have; those that only bandstand has start at -100. A message says what
happened, where, and what to do. Exceptions can be pickled: they hold numbers and names, never live objects.

`exceptions` defines the classes; `formatting` turns any object into text without raising, for error messages and logs.
"""

from bandstand.errors.exceptions import (
    ActorFailedError,
    ActorKilledError,
    ActorNotLocalError,
    ActorRestartingError,
    AskCycleError,
    AskError,
    AskTimeoutError,
    BandstandError,
    BootError,
    BusError,
    ChannelClosedError,
    ChannelTimeoutError,
    ChildFailedError,
    ChildStateError,
    ConfigError,
    ContractError,
    ContractViolationError,
    DeclarationError,
    EventSchemaError,
    EventStoreError,
    IgnoreChild,
    InternalError,
    InvalidArgumentError,
    InvalidMessageError,
    InvalidTimerError,
    InvalidTransitionError,
    InvalidVerdictError,
    IoNotWatchedError,
    IoRegistrationError,
    JournalClosedError,
    JournalCorruptError,
    JournalError,
    JournalFailedError,
    JournalFullError,
    JournalLockedError,
    JournalOverloadedError,
    LinkBrokenError,
    ListenError,
    LoopBusyError,
    LoopClosedError,
    LoopError,
    MailboxFullError,
    MailboxOverrunError,
    MaxActorsError,
    MaxChildrenError,
    MessageDroppedError,
    NameTakenError,
    NameTimeoutError,
    NodeGoneError,
    NoSuchActorError,
    NoSuchChildError,
    NoSuchNameError,
    NotInThisStateError,
    OutOfMemoryError,
    PodDownError,
    PodError,
    PodFailedError,
    PodGoneError,
    PodTimeoutError,
    RefusedError,
    RemoteError,
    RequestFailedError,
    RestartLimitError,
    ScopeClosedError,
    ScopeError,
    SendError,
    StartError,
    StashFullError,
    StepResultError,
    StepUnknownError,
    SubscriptionCutOffError,
    SupervisionError,
    TargetEndedError,
    TokenCancelledError,
    TopicClosedError,
    TryAgainError,
    UnknownMessageError,
    WrongThreadError,
)

__all__ = (
    "ActorFailedError",
    "ActorKilledError",
    "ActorNotLocalError",
    "ActorRestartingError",
    "AskCycleError",
    "AskError",
    "AskTimeoutError",
    "BandstandError",
    "BootError",
    "BusError",
    "ChannelClosedError",
    "ChannelTimeoutError",
    "ChildFailedError",
    "ChildStateError",
    "ConfigError",
    "ContractError",
    "ContractViolationError",
    "DeclarationError",
    "EventSchemaError",
    "EventStoreError",
    "IgnoreChild",
    "InternalError",
    "InvalidArgumentError",
    "InvalidMessageError",
    "InvalidTimerError",
    "InvalidTransitionError",
    "InvalidVerdictError",
    "IoNotWatchedError",
    "IoRegistrationError",
    "JournalClosedError",
    "JournalCorruptError",
    "JournalError",
    "JournalFailedError",
    "JournalFullError",
    "JournalLockedError",
    "JournalOverloadedError",
    "LinkBrokenError",
    "ListenError",
    "LoopBusyError",
    "LoopClosedError",
    "LoopError",
    "MailboxFullError",
    "MailboxOverrunError",
    "MaxActorsError",
    "MaxChildrenError",
    "MessageDroppedError",
    "NameTakenError",
    "NameTimeoutError",
    "NoSuchActorError",
    "NoSuchChildError",
    "NoSuchNameError",
    "NodeGoneError",
    "NotInThisStateError",
    "OutOfMemoryError",
    "PodDownError",
    "PodError",
    "PodFailedError",
    "PodGoneError",
    "PodTimeoutError",
    "RefusedError",
    "RemoteError",
    "RequestFailedError",
    "RestartLimitError",
    "ScopeClosedError",
    "ScopeError",
    "SendError",
    "StartError",
    "StashFullError",
    "StepResultError",
    "StepUnknownError",
    "SubscriptionCutOffError",
    "SupervisionError",
    "TargetEndedError",
    "TokenCancelledError",
    "TopicClosedError",
    "TryAgainError",
    "UnknownMessageError",
    "WrongThreadError",
)
