"""The approver's side: what waits, and answers to it.

Whoever can open the operator socket decides. Never hand an Approver to code that a model
steers: text of a model or of a tool is no answer.
"""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import Any, Iterator, Optional

from ._link import Link, socket_path


@dataclass(frozen=True)
class Event:
    """Something has happened to a request: kind is `requested`, `updated` or `resolved`."""

    kind: str
    approval: dict
    decision: Optional[dict] = None


class Approver:
    """A connection to the operator socket."""

    def __init__(self, path: str):
        self._events: "queue.Queue[Optional[Event]]" = queue.Queue()
        self._link = Link(path, self._notification)

    def __enter__(self) -> "Approver":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """End the connection. What waits for an answer goes on waiting."""
        self._link.close()

    def events(self) -> Iterator[Event]:
        """Count as an approver, and yield what happens, beginning with what waits.

        It ends with the connection, and works once.
        """
        self._link.request("approvals.subscribe", {})
        while True:
            try:
                event = self._events.get(timeout=0.5)
            except queue.Empty:
                if self._link._lost:
                    return
                continue
            yield event

    def list(self) -> "list[dict]":
        """What waits, oldest first."""
        return self._link.request("approvals.list", {})["approvals"]

    def show(self, approval_id: str) -> dict:
        """One request with its presentation, its arguments and what could be remembered."""
        return self._link.request("approvals.show", {"id": approval_id})

    def allow(self, approval_id: str, *, scope: str = "once", **options: Any) -> dict:
        """Allow one request; options are those of approvals.decide: args, pattern, expires."""
        return self.decide(id=approval_id, decision="allow", scope=scope, **options)["results"][0]["decision"]

    def deny(self, approval_id: str, *, feedback: str = "", mode: str = "reject_hard", **options: Any) -> dict:
        """Deny one request. feedback is for the model; reject_soft denies this call alone."""
        if feedback:
            options["feedback"] = feedback
        return self.decide(id=approval_id, decision="deny", mode=mode, **options)["results"][0]["decision"]

    def decide(self, **params: Any) -> dict:
        """approvals.decide as it is: id, ids or group, decision, scope, mode, feedback, ..."""
        return self._link.request("approvals.decide", params)

    def status(self) -> dict:
        """The supervisor about itself."""
        return self._link.request("status", {})

    def sessions(self) -> "list[dict]":
        """The open sessions of all agents."""
        return self._link.request("sessions.list", {})["sessions"]

    def _notification(self, method: str, params: dict) -> None:
        kind = method.removeprefix("approval.")
        if kind != method:
            self._events.put(Event(kind, params.get("approval") or {}, params.get("decision")))


def connect_approver(path: str = "") -> Approver:
    """Connect to the operator socket at path, or to that of this user's own supervisor."""
    return Approver(path or socket_path("operator.sock"))
