"""Approvals of a chat front end that keeps its own decisions, by agent and for all.

The store is on the person's device, not in the supervisor: lists of allowed and denied tools,
for each agent and for all agents. It needs only the events, each of which names its agent. An
agent's list is checked before the list for all, and a denial before an allow of the same
list. If the store has no answer, the person is asked.

    python3 agent_store.py STORE.json
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from typing import Callable, Iterator, Optional

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import sandgate  # noqa: E402

PATH = "/v1/agent/tool_permission"


class Store:
    """{"global": {"allow": [...], "deny": [...]}, "agent": {"allow": {AGENT: [...]}, "deny": {...}}}"""

    def __init__(self, path: str):
        self.path = path
        self.lists: dict = {"global": {"allow": [], "deny": []}, "agent": {"allow": {}, "deny": {}}}
        if os.path.exists(path):
            with open(path) as f:
                self.lists = json.load(f)

    def decision(self, agent: str, tool: str) -> Optional[str]:
        """`allow` or `deny`, or None if the store has no answer."""
        for of in (lambda d: self.lists["agent"][d].get(agent, []), lambda d: self.lists["global"][d]):
            for behavior in ("deny", "allow"):
                if tool in of(behavior):
                    return behavior
        return None

    def remember(self, behavior: str, tool: str, agent: Optional[str] = None) -> None:
        """For one agent, or for all."""
        tools = self.lists["global"][behavior] if agent is None else self.lists["agent"][behavior].setdefault(agent, [])
        if tool not in tools:
            tools.append(tool)
        partial = self.path + ".new"
        with open(partial, "w") as f:
            json.dump(self.lists, f, indent=2)
        os.replace(partial, self.path)


class Bridge:
    """The bridge of a supervisor that was started with --http."""

    def __init__(self) -> None:
        with sandgate.connect_approver() as operator:
            status = operator.status().get("http")
        if not status:
            raise SystemExit("the supervisor serves no bridge: start it with `sandgate serve --http 127.0.0.1:0`")
        self._address = status["address"]
        with open(status["token_file"]) as f:
            self._headers = {"Authorization": "Bearer " + f.read().strip()}

    def events(self) -> Iterator[dict]:
        """What happens to requests, beginning with those that wait."""
        connection = http.client.HTTPConnection(self._address)
        connection.request("GET", PATH, headers=self._headers)
        response = connection.getresponse()
        if response.status != 200:
            raise SystemExit(f"{response.status} {response.read().decode()}")
        for line in response:
            if line.startswith(b"data: "):
                yield json.loads(line[len(b"data: "):])

    def answer(self, event: dict, behavior: str, message: str = "") -> int:
        """Answer one event. 404 and 409 are no failures: it was answered elsewhere, or is over."""
        body = {"conversation_id": event["conversation_id"], "permission_id": event["permission_id"], "behavior": behavior}
        if message:
            body["message"] = message
        connection = http.client.HTTPConnection(self._address)
        connection.request("POST", PATH, json.dumps(body), {**self._headers, "Content-Type": "application/json"})
        return connection.getresponse().status


def shown(text: object) -> str:
    """Text of an agent, so that a terminal obeys none of it."""
    return json.dumps(text, ensure_ascii=True)


def ask(event: dict) -> str:
    """The five actions of a sheet, on a terminal."""
    print(f"Permission required to use {shown(event['tool_name'])} for {shown(event['agent'])}: {shown(event['input'])}")
    return input("[a]llow once, always for this [ag]ent, always for [all], [d]eny, [dr] deny and remember: ").strip()


def serve(bridge: Bridge, store: Store, person: Callable[[dict], str], most: Optional[int] = None) -> None:
    """Answer what comes; most is how many requests, for tests."""
    done = 0
    for event in bridge.events():
        if event["type"] != "tool_permission":
            continue
        agent, tool = event["agent"], event["tool_name"]
        behavior = store.decision(agent, tool)
        if behavior is None:
            action = person(event)
            behavior = "allow" if action in ("a", "ag", "all") else "deny"
            if action in ("ag", "dr"):
                store.remember(behavior, tool, agent)
            elif action == "all":
                store.remember(behavior, tool)
        bridge.answer(event, behavior, "Permission denied by user." if behavior == "deny" else "")
        done += 1
        if done == most:
            return


if __name__ == "__main__":
    serve(Bridge(), Store(sys.argv[1]), ask)
