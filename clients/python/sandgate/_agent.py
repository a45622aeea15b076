"""The agent's side: sessions and calls."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from ._link import Error, Link, Refused, error_of, initialize, socket_path


@dataclass(frozen=True)
class Result:
    """What a call did. A program that failed by itself is a result with its exit code.

    `raw` is the whole answer: members that this version does not know are in it.
    """

    exit_code: int = 0
    signal: str = ""
    structured: Any = None
    truncated: bool = False
    decision: dict = field(default_factory=dict)
    enforced_by: dict = field(default_factory=dict)
    violations: list = field(default_factory=list)
    warnings: list = field(default_factory=list)
    raw: dict = field(default_factory=dict)

    @classmethod
    def of(cls, raw: dict) -> "Result":
        return cls(
            exit_code=raw.get("exit_code", 0), signal=raw.get("signal", ""), structured=raw.get("structured"),
            truncated=raw.get("truncated", False), decision=raw.get("decision") or {}, enforced_by=raw.get("enforced_by") or {},
            violations=raw.get("violations") or [], warnings=raw.get("warnings") or [], raw=raw,
        )

    def data(self, stream: Optional[str] = None) -> bytes:
        """What was given back; of one stream (`stdout`, `stderr`), or of all."""
        pieces = []
        for c in self.raw.get("content") or []:
            if stream is None or c.get("stream") == stream:
                pieces.append(base64.b64decode(c["blob"]) if c.get("type") == "blob" else c.get("text", "").encode())
        return b"".join(pieces)

    @property
    def text(self) -> str:
        return self.data().decode(errors="replace")

    @property
    def stdout(self) -> str:
        return self.data("stdout").decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.data("stderr").decode(errors="replace")


def model_text(outcome: "Result | BaseException") -> str:
    """What to tell a model about a call, whatever became of it.

    A refusal says its reason once, with what would be allowed, and who answered is left
    out. A failure of the supervisor reads as a refusal: nothing was done, or nobody knows.
    """
    if isinstance(outcome, Result):
        text = outcome.text
        if outcome.exit_code:
            end = f"exit status {outcome.exit_code}" + (f" ({outcome.signal})" if outcome.signal else "")
            text = f"{text}\n[{end}]" if text else f"[{end}]"
        return text
    if isinstance(outcome, Refused):
        feedback = outcome.decision.get("feedback", "")
        if feedback:
            return f"The user rejected this call: {feedback}"
        reason = outcome.decision.get("reason", "") if not outcome.decision.get("approver") else ""
        text = {
            "denied": "This call was denied.", "blocked": "This call is never allowed.",
            "approval_required": "This call waits for a person's approval.",
            "approval_timeout": "Nobody approved this call in time.", "no_approver": "Nobody is there to approve this call.",
        }[outcome.code]
        return " ".join(part for part in (text, reason and f"Reason: {reason}.", outcome.hint) if part)
    if isinstance(outcome, Error):
        return " ".join(part for part in (f"The call failed: {outcome}.", outcome.hint) if part)
    return "The call was not made: the supervisor does not answer."


class Session:
    """A conversation of one agent: what is remembered, and its sandboxes, last as long."""

    def __init__(self, agent: "Agent", opened: dict):
        self._agent = agent
        self.id: str = opened["session_id"]
        self.mode: str = opened.get("mode", "")
        self.resumed: bool = opened.get("resumed", False)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> dict:
        """End the session and everything in it; how many calls there were."""
        return self._request("session.close", {})

    def tools(self) -> list:
        """The tools that can be called: name, description, inputSchema, annotations."""
        return self.list()["tools"]

    def list(self) -> dict:
        """`tools` with what there is to say about them: `workdir`, `paths`, `warnings`."""
        return self._request("tools.list", {})

    def check(self, tool: str, args: Optional[dict] = None, **options: Any) -> dict:
        """What a call would do: `decision` is allow, ask or deny. Nothing is run or asked."""
        return self._request("tools.check", self._call(tool, args, options))

    def call(self, tool: str, args: Optional[dict] = None, *, on_output: Optional[Callable[[str, bytes], None]] = None,
             on_state: Optional[Callable[[str, dict], None]] = None, **options: Any) -> Result:
        """Make a call and wait for its end. A refusal is Refused.

        Options are those of tools.call: call_id, group_id, batch_remaining, timeout_ms,
        one_stream, metadata, defer, approval_id. on_output(stream, data) and on_state(state, event) are
        called on the connection's thread, and must not wait for it. An interrupt
        (Ctrl-C) while it waits cancels the call.
        """
        params = self._call(tool, args, options)
        with self._agent._listening(params["call_id"], on_output, on_state):
            answer = self._agent._link.send("tools.call", self._with_id(params))
            try:
                return Result.of(answer.result())
            except KeyboardInterrupt:
                self.cancel(params["call_id"])
                raise

    async def acall(self, tool: str, args: Optional[dict] = None, *, on_output: Optional[Callable[[str, bytes], None]] = None,
                    on_state: Optional[Callable[[str, dict], None]] = None, **options: Any) -> Result:
        """call, for asyncio, in any loop. When the task is cancelled, so is the call."""
        params = self._call(tool, args, options)
        with self._agent._listening(params["call_id"], on_output, on_state):
            answer = self._agent._link.send("tools.call", self._with_id(params))
            try:
                return Result.of(await asyncio.wrap_future(answer))
            except asyncio.CancelledError:
                self.cancel(params["call_id"])
                raise

    def cancel(self, call_id: str) -> Future:
        """Ask for the end of a call. It answers when everything it started is dead."""
        return self._agent._link.send("tools.cancel", {"call_id": call_id})

    def batch(self, calls: "list[dict]", group_id: str = "") -> "list[Result | Error]":
        """Make the calls of one turn: each {tool, args, ...}, asked about together, run in order.

        What became of each is its Result, or the Error that call would have raised.
        """
        params: dict = {"calls": [{"call_id": self._agent._new_id(), **c} for c in calls]}
        if group_id:
            params["group_id"] = group_id
        outcomes = self._request("tools.batch", params)["results"]
        return [error_of(o["error"]) if "error" in o else Result.of(o.get("result") or {}) for o in outcomes]

    def decide(self, tool: str, args: Optional[dict] = None, **options: Any) -> dict:
        """Whether the runtime may make a call itself, outside of any sandbox. No is Refused.

        Options are those of tools.decide; ask="agent" leaves the question to the caller's
        own user: Refused with the code approval_required means: ask them.
        """
        return self._request("tools.decide", self._call(tool, args, options))

    def _call(self, tool: str, args: Optional[dict], options: dict) -> dict:
        params = {"call_id": options.pop("call_id", "") or self._agent._new_id(), "tool": tool}
        if args is not None:
            params["args"] = args
        params.update((k, v) for k, v in options.items() if v is not None)
        return params

    def _with_id(self, params: dict) -> dict:
        return {"session_id": self.id, **params}

    def _request(self, method: str, params: dict) -> dict:
        return self._agent._link.request(method, self._with_id(params))


class _Listening:
    def __init__(self, agent: "Agent", call_id: str, handlers: tuple):
        self._agent, self._id, self._handlers = agent, call_id, handlers

    def __enter__(self) -> None:
        if any(self._handlers):
            self._agent._handlers[self._id] = self._handlers

    def __exit__(self, *_: Any) -> None:
        self._agent._handlers.pop(self._id, None)


class Agent:
    """A connection to the agent socket. It can ask; it can decide nothing."""

    def __init__(self, path: str, name: str, version: str):
        self._handlers: dict = {}
        self._ids = itertools.count(1)
        self._prefix = f"py-{os.getpid()}-{os.urandom(3).hex()}"
        self._link = Link(path, self._notification)
        try:
            self.server: dict = initialize(self._link, name, version)
        except BaseException:
            self._link.close()
            raise

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and with it every session without a name and every call."""
        self._link.close()

    def session(self, agent: str, *, metadata: Any = None, mode: str = "", name: str = "") -> Session:
        """Open a session. metadata (run ids, the user, the chat) is shown to approvers.

        A name makes it outlive the connection: the same agent, mode and name join it again.
        """
        params: dict = {"agent": agent}
        for key, value in (("metadata", metadata), ("mode", mode or None), ("name", name or None)):
            if value is not None:
                params[key] = value
        return Session(self, self._link.request("session.open", params))

    def _new_id(self) -> str:
        return f"{self._prefix}-{next(self._ids)}"

    def _listening(self, call_id: str, on_output: Any, on_state: Any) -> _Listening:
        return _Listening(self, call_id, (on_output, on_state))

    def _notification(self, method: str, params: dict) -> None:
        on_output, on_state = self._handlers.get(params.get("call_id"), (None, None))
        if method == "tool.output" and on_output:
            data = base64.b64decode(params["base64"]) if "base64" in params else params.get("text", "").encode()
            on_output(params.get("stream", ""), data)
        elif method == "tool.state" and on_state:
            on_state(params.get("state", ""), params)


def connect(path: str = "", *, name: str = "sandgate-python", version: str = "") -> Agent:
    """Connect to the agent socket at path, or to that of this user's own supervisor."""
    return Agent(path or socket_path("agent.sock"), name, version)
