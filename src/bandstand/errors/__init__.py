"""Everything that can go wrong, as one tree.

    BandstandError                   root of all; `code` is its number, the same for ever
    ├── InternalError           -1   an assertion of the runtime itself has tripped
    ├── NoMemory                -2   (also a MemoryError)
    ├── InvalidArgument         -3   (also a ValueError) the call can never work: the caller is wrong
    ├── LoopClosed              -4   the loop is stopping, stopped or destroyed
    ├── NoSuchActor             -5   (also a LookupError) the actor has ended, or there never was one
    ├── ActorNotLocal           -6   (also a LookupError) the id belongs to another loop
    ├── MailboxFull             -7   the target's lane has no room
    ├── TimerInvalid            -8   unknown, fired or cancelled already
    ├── IoRegistrationFailed    -9   (also an OSError) the descriptor cannot be watched
    ├── IoNotWatched           -10   the descriptor is not being watched
    ├── MaxActors              -11   the actor table is full
    ├── WrongThread           -100   the call belongs on the loop's own thread
    ├── LoopBusy              -101   the call cannot be made from where it was made: inside a behavior, or while running
    ├── BadVerdict            -102   a behavior returned something that is no verdict
    ├── MailboxOverrun        -103   a system message met a mailbox full to the last slot; the actor was failed
    ├── ActorFailed           -104   somebody failed the actor with fail_actor() and gave a reason in words
    ├── ActorKilled           -105   the actor was ended without waiting for what it was doing
    ├── LinkBroken            -106   an actor it was linked with has ended abnormally
    ├── StartFailed           -107   a child did not start, and what its supervisor had started was ended again
    ├── GaveUp                -108   a supervisor has restarted too often and gave up; the last causes are its cause
    ├── NoSuchChild           -109   (also a LookupError) the supervisor has no child of that name
    ├── ChildState            -110   the child, or its supervisor, is in no state for what was asked
    ├── MaxChildren           -111   a dynamic supervisor has as many children as it may have
    ├── AskTimeout            -112   (also a TimeoutError) nobody has answered in time
    ├── AskCycle              -113   an actor would wait for one that waits for it
    ├── TargetEnded           -114   the actor that was asked has ended without an answer; its cause is why
    ├── MessageDropped        -115   an ask was given up by the overflow policy of a full mailbox
    ├── UnknownMessage        -116   (also a TypeError) no method of the actor takes a message of this class
    ├── BadDeclaration        -117   (also a TypeError) a class of actors contradicts itself, or its interface
    ├── ChildFailed           -118   a child that an actor had started by itself has ended abnormally
    ├── BadMessage            -119   (also a ValueError) what came over the wire is no message
    ├── BadContract           -120   (also a TypeError) what a capability declares cannot be served
    ├── OutboundFault         -121   a capability has said what its contract does not allow
    ├── RequestFailed         -122   (also a Refused) a command or query was answered with an error
    ├── Refused               -123   raised in a handler: answer with an error, and live on
    ├── BootFailed            -124   a node did not start; what it had started was ended again
    ├── CannotListen          -125   (also an OSError) an adapter cannot start; says what is in the way
    ├── ChannelClosed         -126   the channel is closed: it accepts nothing, and has nothing left
    ├── ChannelTimeout        -127   (also a TimeoutError) nobody came to the other side of a channel in time
    ├── Cancelled             -128   a cancel token has ended the wait; says why
    ├── ScopeClosed           -129   the scope is over, and takes nothing in any more
    ├── PodGone               -130   (also a NoSuchActor) the pod has ended for good
    ├── PodDown               -131   (also a NoSuchActor) the pod is being started, and the handle does not wait
    ├── PodTimeout            -132   (also a TimeoutError) the pod was not back in time
    ├── PodFailed             -133   a pod has failed for good, and its troupe with it; says which, whose fault and why
    ├── RemoteError           -134   an exception from another process that cannot be rebuilt here; says what it was
    ├── NodeGone              -135   (also a ConnectionError) there is no connection to a node of the bus
    ├── NameTaken             -140   somebody else has that name in the registry
    ├── NoSuchName            -141   (also a LookupError) nobody is there under that name
    ├── NameTimeout           -142   (also a TimeoutError) nobody has come under that name in time
    ├── TopicClosed           -143   the topic is closed
    ├── CutOff                -144   a listener was too slow for its topic, and was cut off
    ├── StashFull             -145   a stash holds as many messages as it may
    ├── NotInThisState        -146   a state machine was asked for what its present state does not handle; it lives on
    ├── BadTransition         -147   a state machine cannot go there from here
    └── IgnoreChild           -148   raised by an init: the supervisor goes on without this child

Numbers down to -99 are for what any actor loop can meet; bandstand's own begin at -100. An error says in a sentence what happened, where,
and what to do. Errors survive pickling: they hold numbers and names, never live objects.
"""

from bandstand.errors.actors import AskCycle as AskCycle
from bandstand.errors.actors import AskTimeout as AskTimeout
from bandstand.errors.actors import BadDeclaration as BadDeclaration
from bandstand.errors.actors import BadTransition as BadTransition
from bandstand.errors.actors import ChildFailed as ChildFailed
from bandstand.errors.actors import ChildState as ChildState
from bandstand.errors.actors import GaveUp as GaveUp
from bandstand.errors.actors import IgnoreChild as IgnoreChild
from bandstand.errors.actors import MaxChildren as MaxChildren
from bandstand.errors.actors import MessageDropped as MessageDropped
from bandstand.errors.actors import NoSuchChild as NoSuchChild
from bandstand.errors.actors import NotInThisState as NotInThisState
from bandstand.errors.actors import StashFull as StashFull
from bandstand.errors.actors import TargetEnded as TargetEnded
from bandstand.errors.actors import UnknownMessage as UnknownMessage
from bandstand.errors.finding import CutOff as CutOff
from bandstand.errors.finding import NameTaken as NameTaken
from bandstand.errors.finding import NameTimeout as NameTimeout
from bandstand.errors.finding import NoSuchName as NoSuchName
from bandstand.errors.finding import TopicClosed as TopicClosed
from bandstand.errors.exceptions import ActorFailed as ActorFailed
from bandstand.errors.exceptions import ActorKilled as ActorKilled
from bandstand.errors.exceptions import ActorNotLocal as ActorNotLocal
from bandstand.errors.exceptions import BadVerdict as BadVerdict
from bandstand.errors.exceptions import BandstandError as BandstandError
from bandstand.errors.exceptions import InternalError as InternalError
from bandstand.errors.exceptions import InvalidArgument as InvalidArgument
from bandstand.errors.exceptions import IoNotWatched as IoNotWatched
from bandstand.errors.exceptions import IoRegistrationFailed as IoRegistrationFailed
from bandstand.errors.exceptions import LinkBroken as LinkBroken
from bandstand.errors.exceptions import LoopBusy as LoopBusy
from bandstand.errors.exceptions import LoopClosed as LoopClosed
from bandstand.errors.exceptions import MailboxFull as MailboxFull
from bandstand.errors.exceptions import MailboxOverrun as MailboxOverrun
from bandstand.errors.exceptions import MaxActors as MaxActors
from bandstand.errors.exceptions import NoMemory as NoMemory
from bandstand.errors.exceptions import NoSuchActor as NoSuchActor
from bandstand.errors.exceptions import StartFailed as StartFailed
from bandstand.errors.exceptions import TimerInvalid as TimerInvalid
from bandstand.errors.exceptions import WrongThread as WrongThread
from bandstand.errors.pods import PodDown as PodDown
from bandstand.errors.pods import PodFailed as PodFailed
from bandstand.errors.pods import PodGone as PodGone
from bandstand.errors.pods import PodTimeout as PodTimeout
from bandstand.errors.pods import RemoteError as RemoteError
from bandstand.errors.talk import BadContract as BadContract
from bandstand.errors.talk import BadMessage as BadMessage
from bandstand.errors.talk import BootFailed as BootFailed
from bandstand.errors.talk import Cancelled as Cancelled
from bandstand.errors.talk import CannotListen as CannotListen
from bandstand.errors.talk import ChannelClosed as ChannelClosed
from bandstand.errors.talk import ChannelTimeout as ChannelTimeout
from bandstand.errors.talk import NodeGone as NodeGone
from bandstand.errors.talk import OutboundFault as OutboundFault
from bandstand.errors.talk import Refused as Refused
from bandstand.errors.talk import RequestFailed as RequestFailed
from bandstand.errors.talk import ScopeClosed as ScopeClosed

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
