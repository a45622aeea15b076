"""One connection: framing, requests under way, and errors."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from concurrent.futures import Future
from typing import Any, Callable, Optional

MAX_MESSAGE = 16 << 20
"""The longest message of the protocol, in bytes."""

PROTOCOL_VERSION = 1

#: Codes that say: the call was not made, and why. Everything else is a failure.
REFUSALS = frozenset({
    "denied", "blocked", "approval_required", "approval_timeout", "no_approver",
})


class Error(Exception):
    """What the supervisor answered instead of a result.

    `code` is stable and meant to be compared; `str()` is one line for people; `hint` is for
    the model; `data` is everything that came with it.
    """

    def __init__(self, code: str, message: str, data: Optional[dict] = None):
        super().__init__(message)
        self.code = code
        self.data = data or {}

    @property
    def hint(self) -> str:
        return self.data.get("hint", "")

    @property
    def field(self) -> str:
        """The member of the request that is wrong, such as `params.args`."""
        return self.data.get("field", "")


class Refused(Error):
    """The call was not made: a rule, a mode or a person says no, or has yet to say yes.

    `approval_id` is set for `approval_required`: call again with it after the decision.
    """

    @property
    def approval_id(self) -> str:
        return self.data.get("approval_id", "")

    @property
    def decision(self) -> dict:
        return self.data.get("decision", {})

    @property
    def ends_turn(self) -> bool:
        """The person wants the agent to stop and wait, and not to try something else."""
        return bool(self.decision.get("interrupt")) or self.decision.get("mode") == "reject_hard"


class ConnectionLost(Exception):
    """The supervisor is gone. What was under way did not answer; take it for refused."""


def error_of(e: dict) -> Error:
    data = e.get("data") or {}
    code = data.get("code", str(e.get("code", "")))
    kind = Refused if code in REFUSALS else Error
    return kind(code, e.get("message", ""), data)


def socket_path(name: str) -> str:
    """Where the supervisor of this user listens: name is `agent.sock` or `operator.sock`.

    A base directory that belongs to somebody else is passed over, as sandgate does. A
    directory that others could have made, or can write to, is refused: whoever listens
    there may not be the supervisor.
    """
    uid = os.geteuid()
    directory = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"sandgate-{uid}")
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{uid}"):
        if os.path.isabs(base) and _mode_if_ours(base, uid) is not None:
            directory = os.path.join(base, "sandgate")
            break
    if os.path.lexists(directory) and _mode_if_ours(directory, uid) != 0o700:
        raise ConnectionLost(f"{directory} is not a directory of this user's alone: whoever listens there may not be sandgate")
    return os.path.join(directory, name)


def _mode_if_ours(path: str, uid: int) -> Optional[int]:
    try:
        st = os.lstat(path)
    except OSError:
        return None
    return stat.S_IMODE(st.st_mode) if stat.S_ISDIR(st.st_mode) and st.st_uid == uid else None


class Link:
    """A connection on which requests are answered in any order.

    One thread of its own reads; any thread may ask. What is asked when the connection ends
    fails with ConnectionLost, and so does what is asked later.
    """

    def __init__(self, path: str, notify: Callable[[str, dict], None]):
        self._notify = notify
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
        except OSError as e:
            self._socket.close()
            raise ConnectionLost(f"connect to the supervisor at {path}: {e.strerror}; start one with `sandgate serve`") from e
        self._writing = threading.Lock()
        self._state = threading.Lock()
        self._waiting: dict[int, Future] = {}
        self._last = 0
        self._lost: Optional[ConnectionLost] = None
        self._reader = threading.Thread(target=self._read, name="sandgate", daemon=True)
        self._reader.start()

    def send(self, method: str, params: dict) -> Future:
        """Ask; the future has the result, or the Error."""
        answer: Future = Future()
        with self._state:
            if self._lost:
                raise self._lost
            self._last += 1
            ident = self._last
            self._waiting[ident] = answer
        line = json.dumps({"jsonrpc": "2.0", "id": ident, "method": method, "params": params}, allow_nan=False, separators=(",", ":")).encode()
        try:
            if len(line) > MAX_MESSAGE:
                raise Error("message_too_large", f"the request has {len(line)} bytes, more than {MAX_MESSAGE}")
            with self._writing:
                self._socket.sendall(line + b"\n")
        except BaseException as e:
            with self._state:
                self._waiting.pop(ident, None)
            if isinstance(e, OSError):
                raise self._fail(f"send to the supervisor: {e.strerror}") from e
            raise
        return answer

    def request(self, method: str, params: dict) -> Any:
        return self.send(method, params).result()

    def close(self) -> None:
        self._fail("the connection was closed")
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def _read(self) -> None:
        why = "the supervisor ended the connection"
        try:
            with self._socket.makefile("rb") as lines:
                while True:
                    line = lines.readline(MAX_MESSAGE + 2)
                    if not line.endswith(b"\n"):
                        break  # the end, or half a message: never to be read as a whole one
                    self._take(json.loads(line))
        except (OSError, ValueError) as e:
            why = f"read from the supervisor: {e}"
        finally:
            self._fail(why)
            self._socket.close()

    def _take(self, m: dict) -> None:
        if "method" in m:
            self._notify(m["method"], m.get("params") or {})
            return
        with self._state:
            answer = self._waiting.pop(m.get("id"), None)
        if answer is None or not answer.set_running_or_notify_cancel():
            return  # nobody waits any more
        if "error" in m:
            answer.set_exception(error_of(m["error"]))
        else:
            answer.set_result(m.get("result"))

    def _fail(self, why: str) -> ConnectionLost:
        with self._state:
            if not self._lost:
                self._lost = ConnectionLost(why)
            waiting, self._waiting = self._waiting, {}
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is gone already
        for answer in waiting.values():
            if answer.set_running_or_notify_cancel():
                answer.set_exception(self._lost)
        return self._lost


def initialize(link: Link, name: str, version: str) -> dict:
    client = {"name": name}
    if version:
        client["version"] = version
    return link.request("initialize", {"protocol_version": PROTOCOL_VERSION, "client": client})
