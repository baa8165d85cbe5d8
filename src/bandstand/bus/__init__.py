"""The bus: commands, queries and events between capabilities, and with whoever connects from outside.

    class Greeting(msgspec.Struct):
        text: str

    class Greet(Query[Greeting], type="Greeter.Greet"):
        '''Say hello to somebody.'''

        name: str

    class Greeter(Capability):
        '''Says hello.'''

        def greet(self, msg: Greet) -> Greeting:
            return Greeting(f"hello, {msg.name}")

    async with Node([Greeter], adapters=[UnixAdapter("/run/user/1000/greeter.sock")]) as node:
        print(await node.bus.ask(Greet(name="ada")))

What a capability takes and says is declared with types, and so every message can be checked, described and called by anybody: a
shell, another program, a language model. Each command and query gets exactly one answer, whatever happens. What the room promises is
written down in `docs/semantics.md`.

How the room is laid out: `frame` is the envelope, `wire` writes it as JSON, for which `whole` knows 1.0 as an integer; `faults` are the errors of the runtime's own, `config` its limits, `numbers` those of compiled code. `contracts` has what may be
said, as types: message classes, capabilities, schemas, descriptions. `outlet` is what a capability says things by, `worker` and
`buffered` the shape for those who bring their own object. `router` is the actor that everything passes, whose hot half is in `hot`, and how requests end in `endings`: `repeats`, `retries`, `letters`, `circle`; `gate` lets clients
in, `fanout` hands out events, `schedule` sends later, `ward` looks after capabilities, each of which has a `seat`, is a `speaker`, and has somebody who does its work:
`performers`, `hosting`; `company` is all of them. One that runs elsewhere has a `deputy` in its seat and a `mouthpiece` on the node, and is in an `annex`; `errands` are what they tell each other. `backstage` is what the capabilities of the runtime's own see: `syscall` (with `figures`, `health`, `genealogy` and `watching`), `timer`, `dead`; `memory` is the reference of all others; `pulse` ticks. `tap`
watches, `books` counts, `chronicle` writes down; `lineage` knows which message is at hand, `descent` who follows from whom, `origin` who asked. `adapters` connect with the world, as `ports` says, and ask for a `token` where the world is large; `client` is the other end of the line, and `answers` what programs read theirs by. `node` joins it all, and gives a `summary` of what has started; `serving` makes a
program of it, `loading` finds what to serve, `advice` is what to try first.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bandstand.bus.adapters.limits import Limits as Limits
    from bandstand.bus.adapters.stdio import PipeAdapter as PipeAdapter
    from bandstand.bus.adapters.tcp import TcpAdapter as TcpAdapter
    from bandstand.bus.adapters.unix import UnixAdapter as UnixAdapter
    from bandstand.bus.books import Stats as Stats
    from bandstand.bus.buffered import BufferedWorker as BufferedWorker
    from bandstand.bus.client.address import Address as Address
    from bandstand.bus.client.blocking import BlockingConnection as BlockingConnection
    from bandstand.bus.client.blocking import BlockingSubscription as BlockingSubscription
    from bandstand.bus.client.blocking import connect_blocking as connect_blocking
    from bandstand.bus.client.config import ClientConfig as ClientConfig
    from bandstand.bus.client.connection import Connection as Connection
    from bandstand.bus.client.connection import connect as connect
    from bandstand.bus.client.stream import Gap as Gap
    from bandstand.bus.client.subscribing import Passed as Passed
    from bandstand.bus.client.subscribing import Subscription as Subscription
    from bandstand.bus.config import NodeConfig as NodeConfig
    from bandstand.bus.contracts.blueprint import Blueprint as Blueprint
    from bandstand.bus.contracts.capability import Capability as Capability
    from bandstand.bus.contracts.capability import Provision as Provision
    from bandstand.bus.contracts.capability import provide as provide
    from bandstand.bus.contracts.contract import Contract as Contract
    from bandstand.bus.contracts.contract import RestartLimits as RestartLimits
    from bandstand.bus.contracts.messages import Command as Command
    from bandstand.bus.contracts.messages import Event as Event
    from bandstand.bus.contracts.messages import Failure as Failure
    from bandstand.bus.contracts.messages import Message as Message
    from bandstand.bus.contracts.messages import Query as Query
    from bandstand.bus.contracts.retry import Retry as Retry
    from bandstand.bus.faults import Fault as Fault
    from bandstand.bus.frame import Frame as Frame
    from bandstand.bus.frame import Kind as Kind
    from bandstand.bus.frame import Metadata as Metadata
    from bandstand.bus.hot.log import MemoryLog as MemoryLog
    from bandstand.bus.loading import load_capabilities as load_capabilities
    from bandstand.bus.memory import Memory as Memory
    from bandstand.bus.node import Node as Node
    from bandstand.bus.outlet import Outlet as Outlet
    from bandstand.bus.ports import Adapter as Adapter
    from bandstand.bus.ports import Elsewhere as Elsewhere
    from bandstand.bus.ports import Ingress as Ingress
    from bandstand.bus.ports import Line as Line
    from bandstand.bus.ports import Log as Log
    from bandstand.bus.ports import Outpost as Outpost
    from bandstand.bus.ports import Passage as Passage
    from bandstand.bus.serving import Service as Service
    from bandstand.bus.serving import serve as serve
    from bandstand.bus.summary import BootSummary as BootSummary
    from bandstand.bus.tap import Filter as Filter
    from bandstand.bus.tap import Tap as Tap
    from bandstand.bus.token import Token as Token
    from bandstand.bus.wire import read_frame as read_frame
    from bandstand.bus.wire import write_frame as write_frame
    from bandstand.bus.worker import ErrorEvent as ErrorEvent
    from bandstand.bus.worker import Listeners as Listeners
    from bandstand.bus.worker import MessageEvent as MessageEvent
    from bandstand.bus.worker import Worker as Worker


__all__ = (
    "Adapter",
    "Address",
    "BlockingConnection",
    "BlockingSubscription",
    "Blueprint",
    "BootSummary",
    "BufferedWorker",
    "Capability",
    "ClientConfig",
    "Command",
    "Connection",
    "Contract",
    "Elsewhere",
    "ErrorEvent",
    "Event",
    "Failure",
    "Fault",
    "Filter",
    "Frame",
    "Gap",
    "Ingress",
    "Kind",
    "Limits",
    "Line",
    "Listeners",
    "Log",
    "Memory",
    "MemoryLog",
    "Message",
    "MessageEvent",
    "Metadata",
    "Node",
    "NodeConfig",
    "Outlet",
    "Outpost",
    "Passage",
    "Passed",
    "PipeAdapter",
    "Provision",
    "Query",
    "RestartLimits",
    "Retry",
    "Service",
    "Stats",
    "Subscription",
    "Tap",
    "TcpAdapter",
    "Token",
    "UnixAdapter",
    "Worker",
    "connect",
    "connect_blocking",
    "load_capabilities",
    "provide",
    "read_frame",
    "serve",
    "write_frame",
)

# Where each is at home in the room. Whoever only speaks to a node needs a third of it, and is done sooner than the rest is loaded: a
# command typed in a shell, above all.
_HOMES = {
    "Adapter": "ports",
    "Address": "client.address",
    "BlockingConnection": "client.blocking",
    "BlockingSubscription": "client.blocking",
    "Blueprint": "contracts.blueprint",
    "BootSummary": "summary",
    "BufferedWorker": "buffered",
    "Capability": "contracts.capability",
    "ClientConfig": "client.config",
    "Command": "contracts.messages",
    "Connection": "client.connection",
    "Contract": "contracts.contract",
    "Elsewhere": "ports",
    "ErrorEvent": "worker",
    "Event": "contracts.messages",
    "Failure": "contracts.messages",
    "Fault": "faults",
    "Filter": "tap",
    "Frame": "frame",
    "Gap": "client.stream",
    "Ingress": "ports",
    "Kind": "frame",
    "Limits": "adapters.limits",
    "Line": "ports",
    "Listeners": "worker",
    "Log": "ports",
    "Memory": "memory",
    "MemoryLog": "hot.log",
    "Message": "contracts.messages",
    "MessageEvent": "worker",
    "Metadata": "frame",
    "Node": "node",
    "NodeConfig": "config",
    "Outlet": "outlet",
    "Outpost": "ports",
    "Passage": "ports",
    "Passed": "client.subscribing",
    "PipeAdapter": "adapters.stdio",
    "Provision": "contracts.capability",
    "Query": "contracts.messages",
    "RestartLimits": "contracts.contract",
    "Retry": "contracts.retry",
    "Service": "serving",
    "Stats": "books",
    "Subscription": "client.subscribing",
    "Tap": "tap",
    "TcpAdapter": "adapters.tcp",
    "Token": "token",
    "UnixAdapter": "adapters.unix",
    "Worker": "worker",
    "connect": "client.connection",
    "connect_blocking": "client.blocking",
    "load_capabilities": "loading",
    "provide": "contracts.capability",
    "read_frame": "wire",
    "serve": "serving",
    "write_frame": "wire",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'bandstand.bus' has no attribute {name!r}")
    value: object = getattr(import_module(f"bandstand.bus.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
