"""Client library for sandgate, the gate between an AI agent and the machine it works on.

An agent asks on one Unix socket, an approver answers on another; docs/protocol.md of
sandgate describes both. Only the standard library is used.

    import sandgate

    with sandgate.connect() as agent, agent.session("my agent") as session:
        result = session.call("shell", {"command": "make test"})
        print(result.exit_code, result.text)

A refusal is a sandgate.Refused; sandgate.model_text says to a model what became of a call.
"""

from ._agent import Agent, Result, Session, connect, model_text
from ._approver import Approver, Event, connect_approver
from ._link import ConnectionLost, Error, Refused, socket_path

__all__ = [
    "Agent", "Approver", "ConnectionLost", "Error", "Event", "Refused", "Result", "Session",
    "connect", "connect_approver", "model_text", "socket_path",
]
