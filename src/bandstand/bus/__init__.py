"""The bus: commands, queries and events between capabilities, and with clients in other processes.

    class Greeting(msgspec.Struct):
        text: str

    class Greet(Query[Greeting], type="Greeter.Greet"):
        '''Greet a person.'''

        name: str

    class Greeter(Capability):
        '''Says hello.'''

        def greet(self, msg: Greet) -> Greeting:
            return Greeting(f"hello, {msg.name}")

    async with Node([Greeter], adapters=[UnixAdapter("/run/user/1000/greeter.sock")]) as node:
        print(await node.bus.ask(Greet(name="ada")))

A capability declares with types what it accepts and sends, so every message can be validated, described and called by any client: a
shell, another program, a language model. Each command and query gets exactly one answer. `docs/guarantees.md` has the guarantees, and
`docs/architecture.md` describes the modules.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bandstand.bus.adapters.limits import Limits as Limits
    from bandstand.bus.adapters.stdio import PipeAdapter as PipeAdapter
    from bandstand.bus.adapters.tcp import TcpAdapter as TcpAdapter
    from bandstand.bus.adapters.unix import UnixAdapter as UnixAdapter
    from bandstand.bus.auth import Token as Token
    from bandstand.bus.boot_summary import BootSummary as BootSummary
    from bandstand.bus.bus_client import Bus as Bus
    from bandstand.bus.client.blocking import BlockingConnection as BlockingConnection
    from bandstand.bus.client.blocking import BlockingSubscription as BlockingSubscription
    from bandstand.bus.client.blocking import connect_blocking as connect_blocking
    from bandstand.bus.client.config import Address as Address
    from bandstand.bus.client.config import ClientConfig as ClientConfig
    from bandstand.bus.client.connection import Connection as Connection
    from bandstand.bus.client.connection import connect as connect
    from bandstand.bus.client.subscription import Gap as Gap
    from bandstand.bus.client.subscription import Passed as Passed
    from bandstand.bus.client.subscription import Subscription as Subscription
    from bandstand.bus.config import NodeConfig as NodeConfig
    from bandstand.bus.contracts.capability import Capability as Capability
    from bandstand.bus.contracts.capability import CapabilitySpec as CapabilitySpec
    from bandstand.bus.contracts.capability import Contract as Contract
    from bandstand.bus.contracts.capability import Provision as Provision
    from bandstand.bus.contracts.capability import RestartLimits as RestartLimits
    from bandstand.bus.contracts.capability import provide as provide
    from bandstand.bus.contracts.entity import Decision as Decision
    from bandstand.bus.contracts.entity import Entity as Entity
    from bandstand.bus.contracts.messages import Command as Command
    from bandstand.bus.contracts.messages import Event as Event
    from bandstand.bus.contracts.messages import Failure as Failure
    from bandstand.bus.contracts.messages import Message as Message
    from bandstand.bus.contracts.messages import Query as Query
    from bandstand.bus.contracts.messages import Retry as Retry
    from bandstand.bus.faults import Fault as Fault
    from bandstand.bus.frame import Frame as Frame
    from bandstand.bus.frame import Kind as Kind
    from bandstand.bus.frame import Metadata as Metadata
    from bandstand.bus.loading import load_capabilities as load_capabilities
    from bandstand.bus.memory import Memory as Memory
    from bandstand.bus.message_log import MemoryLog as MemoryLog
    from bandstand.bus.node import Node as Node
    from bandstand.bus.protocols import Adapter as Adapter
    from bandstand.bus.protocols import HostFactory as HostFactory
    from bandstand.bus.protocols import Ingress as Ingress
    from bandstand.bus.protocols import Line as Line
    from bandstand.bus.protocols import Log as Log
    from bandstand.bus.serving import Service as Service
    from bandstand.bus.serving import serve as serve
    from bandstand.bus.stats import Stats as Stats
    from bandstand.bus.steps import Done as Done
    from bandstand.bus.tap import Filter as Filter
    from bandstand.bus.tap import Tap as Tap
    from bandstand.bus.wire import read_frame as read_frame
    from bandstand.bus.wire import write_frame as write_frame
    from bandstand.bus.worker import BufferedWorker as BufferedWorker
    from bandstand.bus.worker import ErrorEvent as ErrorEvent
    from bandstand.bus.worker import Listeners as Listeners
    from bandstand.bus.worker import MessageEvent as MessageEvent
    from bandstand.bus.worker import Worker as Worker


__all__ = (
    "Adapter",
    "Address",
    "BlockingConnection",
    "BlockingSubscription",
    "BootSummary",
    "BufferedWorker",
    "Bus",
    "Capability",
    "CapabilitySpec",
    "ClientConfig",
    "Command",
    "Connection",
    "Contract",
    "Decision",
    "Done",
    "Entity",
    "ErrorEvent",
    "Event",
    "Failure",
    "Fault",
    "Filter",
    "Frame",
    "Gap",
    "HostFactory",
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

# The module of each name, imported on first use: a client needs a third of the package, and a command in a shell should start fast.
_MODULES = {
    "Adapter": "protocols",
    "Address": "client.config",
    "BlockingConnection": "client.blocking",
    "BlockingSubscription": "client.blocking",
    "BootSummary": "boot_summary",
    "BufferedWorker": "worker",
    "Bus": "bus_client",
    "Capability": "contracts.capability",
    "CapabilitySpec": "contracts.capability",
    "ClientConfig": "client.config",
    "Command": "contracts.messages",
    "Connection": "client.connection",
    "Contract": "contracts.capability",
    "Decision": "contracts.entity",
    "Done": "steps",
    "Entity": "contracts.entity",
    "ErrorEvent": "worker",
    "Event": "contracts.messages",
    "Failure": "contracts.messages",
    "Fault": "faults",
    "Filter": "tap",
    "Frame": "frame",
    "Gap": "client.subscription",
    "HostFactory": "protocols",
    "Ingress": "protocols",
    "Kind": "frame",
    "Limits": "adapters.limits",
    "Line": "protocols",
    "Listeners": "worker",
    "Log": "protocols",
    "Memory": "memory",
    "MemoryLog": "message_log",
    "Message": "contracts.messages",
    "MessageEvent": "worker",
    "Metadata": "frame",
    "Node": "node",
    "NodeConfig": "config",
    "Passed": "client.subscription",
    "PipeAdapter": "adapters.stdio",
    "Provision": "contracts.capability",
    "Query": "contracts.messages",
    "RestartLimits": "contracts.capability",
    "Retry": "contracts.messages",
    "Service": "serving",
    "Stats": "stats",
    "Subscription": "client.subscription",
    "Tap": "tap",
    "TcpAdapter": "adapters.tcp",
    "Token": "auth",
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
    if name not in _MODULES:
        raise AttributeError(f"module 'bandstand.bus' has no attribute {name!r}")
    value: object = getattr(import_module(f"bandstand.bus.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
