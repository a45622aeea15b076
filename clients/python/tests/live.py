"""The client against a real supervisor, which has to run with a bridge and this test's rules.

Run by the script python_client of cmd/sandgate's tests.
"""

import asyncio
import dataclasses
import json
import os
import sys
import tempfile
import threading
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "examples")]
import agent_store  # noqa: E402
import sandgate  # noqa: E402
import sandgate.claude  # noqa: E402


class Answering:
    """An approver that answers each request with a function, on a thread of its own."""

    def __init__(self, answer):
        self.seen = []
        self.approver = sandgate.connect_approver()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.run, args=(answer,))

    def run(self, answer):
        for event in self.approver.events():
            if event.kind == "requested":
                self.seen.append(event.approval)
                answer(self.approver, event.approval)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.approver.close()
        self.thread.join()


class Live(unittest.TestCase):
    def setUp(self):
        self.agent = sandgate.connect()
        self.addCleanup(self.agent.close)
        self.session = self.agent.session("py", metadata={"chat": "c-1"})

    def refused(self, code, tool="shell", args=None, **options):
        with self.assertRaises(sandgate.Refused) as caught:
            self.session.call(tool, args or {"command": "touch f; echo hi"}, **options)
        self.assertEqual(caught.exception.code, code)
        return caught.exception

    def test_a_free_call(self):
        with open("note.txt", "w") as f:
            f.write("nöte\n" * 40_000)  # longer than a reader's usual buffer
        result = self.session.call("read_file", {"path": "note.txt", "max_bytes": 1_000_000})
        self.assertEqual(result.text, "nöte\n" * 40_000)
        self.assertTrue(result.enforced_by["files"])
        listed = self.session.list()
        self.assertIn("shell", [t["name"] for t in listed["tools"]])
        self.assertEqual(listed["workdir"], os.getcwd())
        self.assertEqual(self.session.check("shell", {"command": "touch f; echo hi"})["decision"], "ask")

    def test_output_as_it_comes(self):
        heard, states = [], []
        with Answering(lambda a, r: a.allow(r["id"])) as answering:
            result = self.session.call("shell", {"command": "touch f; echo out; echo err >&2; exit 3"}, metadata={"run": 7},
                                       on_output=lambda stream, data: heard.append((stream, data)), on_state=lambda s, _: states.append(s))
        self.assertEqual((result.exit_code, result.stdout, result.stderr), (3, "out\n", "err\n"))
        self.assertEqual(sorted(heard), [("stderr", b"err\n"), ("stdout", b"out\n")])
        self.assertEqual(states, ["pending", "running", "done"])
        self.assertEqual((answering.seen[0]["metadata"], answering.seen[0]["session_metadata"]), ({"run": 7}, {"chat": "c-1"}))

    def test_refusals(self):
        with Answering(lambda a, r: a.deny(r["id"], feedback="use yarn", mode="reject_soft")):
            e = self.refused("denied")
        self.assertEqual((sandgate.model_text(e), e.ends_turn), ("The user rejected this call: use yarn", False))
        e = self.refused("blocked", args={"command": "rm x"})
        self.assertIn("use the trash", sandgate.model_text(e))
        with self.assertRaises(sandgate.Error) as caught:
            self.session.call("shell", {"comand": "ls"})
        self.assertEqual(caught.exception.code, "invalid_arguments")

    def test_deferred(self):
        e = self.refused("approval_required", defer=True)
        with sandgate.connect_approver() as approver:
            approver.allow(e.approval_id)
        self.assertEqual(self.session.call("shell", {"command": "touch f; echo hi"}, approval_id=e.approval_id).stdout, "hi\n")
        self.refused("denied", approval_id=e.approval_id)  # it was good for one run

    def test_a_batch(self):
        def answer(approver, request):
            if "echo 1" in json.dumps(request["payload"]):
                approver.allow(request["id"])
            elif "echo 2" in json.dumps(request["payload"]):
                approver.deny(request["id"])
        with Answering(answer):
            outcomes = self.session.batch([{"tool": "shell", "args": {"command": "touch f; echo " + n}} for n in "123"])
        self.assertEqual(outcomes[0].stdout, "1\n")
        self.assertTrue(all(isinstance(o, sandgate.Refused) and o.ends_turn for o in outcomes[1:]), outcomes)

    def test_cancelled_with_its_task(self):
        async def main():
            running = asyncio.Event()
            loop = asyncio.get_running_loop()
            state = lambda s, _: s == "running" and loop.call_soon_threadsafe(running.set)
            task = asyncio.create_task(self.session.acall("shell", {"command": "sleep 600"}, on_state=state))
            await running.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
        with Answering(lambda a, r: a.allow(r["id"])):
            asyncio.run(main())
        self.assertEqual(self.session.call("read_file", {"path": "note2.txt"}).exit_code, 1)  # the session goes on

    def test_a_named_session(self):
        first = self.agent.session("py", name="chat-17")
        with Answering(lambda a, r: a.allow(r["id"], scope="session")) as answering:
            first.call("shell", {"command": "touch f; echo remembered"})
        self.assertEqual(len(answering.seen), 1)
        with sandgate.connect() as again:
            joined = again.session("py", name="chat-17")
            self.assertTrue(joined.resumed)
            self.assertEqual(joined.call("shell", {"command": "touch f; echo remembered"}).stdout, "remembered\n")

    def test_claude(self):
        @dataclasses.dataclass
        class PermissionResultAllow:
            behavior: str = "allow"
            updated_input: dict = None

        @dataclasses.dataclass
        class PermissionResultDeny:
            behavior: str = "deny"
            message: str = ""
            interrupt: bool = False

        sdk = types.ModuleType("claude_agent_sdk")
        sdk.PermissionResultAllow, sdk.PermissionResultDeny = PermissionResultAllow, PermissionResultDeny
        sys.modules["claude_agent_sdk"] = sdk
        self.addCleanup(sys.modules.pop, "claude_agent_sdk")
        callback, hook = sandgate.claude.can_use_tool(self.session), sandgate.claude.pre_tool_use(self.session)
        with Answering(lambda a, r: a.allow(r["id"], scope="session")) as answering:
            answer = asyncio.run(callback("WebSearch", {"query": "go"}, None))
            self.assertEqual((answer.behavior, answer.updated_input), ("allow", {"query": "go"}))
            self.assertEqual(asyncio.run(callback("WebSearch", {"query": "go"}, None)).behavior, "allow")
        self.assertEqual(len(answering.seen), 1)  # the second was remembered
        with Answering(lambda a, r: a.deny(r["id"], feedback="no web", interrupt=True)):
            answer = asyncio.run(callback("WebFetch", {"url": "x"}, None))
            self.assertEqual((answer.behavior, answer.message, answer.interrupt), ("deny", "The user rejected this call: no web", True))
        with Answering(lambda a, r: a.deny(r["id"], mode="reject_soft")):
            output = asyncio.run(hook({"tool_name": "Other", "tool_input": {"n": 1}}, "toolu_1", None))
        self.assertEqual(output["hookSpecificOutput"]["permissionDecision"], "deny")
        self.assertNotIn("continue_", output)  # the model goes on
        with Answering(lambda a, r: a.deny(r["id"], feedback="no more", interrupt=True)):
            output = asyncio.run(hook({"tool_name": "Other", "tool_input": {"n": 2}}, "toolu_2", None))
        # The SDK's name in Python, which it sends to its process as "continue".
        self.assertEqual((output["continue_"], output["stopReason"]), (False, "The user rejected this call: no more"))
        self.agent.close()
        answer = asyncio.run(callback("WebSearch", {"query": "go"}, None))
        self.assertEqual((answer.behavior, answer.message), ("deny", "The call was not made: the supervisor does not answer."))

    def test_a_store_by_agent(self):
        """Approve once, deny once, allow for an agent, deny for all: each as a front end of
        its own decides, without a question to anybody where its store knows."""
        with tempfile.TemporaryDirectory() as directory:
            store = agent_store.Store(os.path.join(directory, "store.json"))
            actions, asked = iter(["a", "d", "ag", "d"]), []

            def person(event):
                asked.append((event["agent"], event["tool_name"]))
                return next(actions)

            store.remember("deny", "Banned")
            thread = threading.Thread(target=agent_store.serve, args=(agent_store.Bridge(), store, person, 7))
            thread.start()
            other = self.agent.session("other")
            decide = lambda session, tool, query: asyncio.run(sandgate.claude.decide(session, tool, {"query": query}))[0]
            got = [
                decide(self.session, "WebSearch", "1"),  # once
                decide(self.session, "WebSearch", "2"),  # denied once
                decide(self.session, "WebSearch", "3"),  # always for this agent
                decide(self.session, "WebSearch", "4"),  # not asked
                decide(other, "WebSearch", "5"),  # another agent is asked about
                decide(self.session, "Banned", "6"), decide(other, "Banned", "7"),  # all agents
            ]
            thread.join()
            self.assertEqual(got, [True, False, True, True, False, False, False])
            self.assertEqual(asked, [("py", "WebSearch")] * 3 + [("other", "WebSearch")])
            self.assertEqual(agent_store.Store(store.path).decision("py", "WebSearch"), "allow")


if __name__ == "__main__":
    unittest.main(verbosity=2)
