"""The recorded conversations of protocol/testdata, played against this client.

A server of the test says what the recording says. What the client sends, made by its own
methods from the recorded parameters, has to be what was recorded, and what it makes of the
answers is looked at.
"""

import glob
import json
import os
import socket
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import sandgate  # noqa: E402
from sandgate._link import Link, error_of  # noqa: E402

CONVERSATIONS = os.path.join(HERE, "..", "..", "..", "protocol", "testdata", "conversations")


class Server:
    """A socket on which a test says what a supervisor would."""

    def __init__(self, answer):
        self.dir = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.dir.name, "s")
        self.got = []
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        conn, _ = self._listener.accept()
        with conn, conn.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                self.got.append(request)
                for reply in self._answer(request):
                    conn.sendall(reply if isinstance(reply, bytes) else json.dumps(reply).encode() + b"\n")
                    if reply == b"":
                        return

    def close(self):
        self._thread.join()
        self._listener.close()
        self.dir.cleanup()


def exchanges(path, side):
    """Requests of one side with what was answered: (request, notifications, response)."""
    asked, found = {}, []
    with open(path, encoding="utf-8") as f:
        for line in f:
            who, _, text = line.rstrip("\n").partition(" ")
            if who not in (side + ">", side + "<"):
                continue
            try:
                m = json.loads(text)
            except ValueError:
                continue  # lines that no client sends
            if who.endswith(">"):
                if isinstance(m, dict) and "id" in m and m.get("jsonrpc") == "2.0":
                    asked[json.dumps(m["id"])] = [m, [], None]
            elif "method" in m:
                for e in asked.values():
                    if e[2] is None:
                        e[1].append(m)
            elif json.dumps(m.get("id")) in asked:
                e = asked.pop(json.dumps(m["id"]))
                e[2] = m
                found.append(e)
    return found


class Recorded(unittest.TestCase):
    def play(self, side, methods):
        """Every recorded request of a method that the client has, made by the client."""
        played = {}
        for path in sorted(glob.glob(os.path.join(CONVERSATIONS, "*.txt"))):
            for request, notes, response in exchanges(path, side):
                make = methods.get(request["method"])
                if make is None:
                    continue
                params = request.get("params") or {}
                if not sendable(request["method"], params):
                    continue
                with self.subTest(file=os.path.basename(path), request=request):
                    self.one(make, request["method"], params, notes, response)
                    played[request["method"]] = played.get(request["method"], 0) + 1
        return played

    def one(self, make, method, params, notes, response):
        def answer(got):
            if got["method"] == "initialize":
                return [{"jsonrpc": "2.0", "id": got["id"], "result": {"protocol_version": 1, "server": {"name": "s"}, "limits": {}}}]
            return [*notes, {**response, "id": got["id"]}]

        server = Server(answer)
        heard = []
        try:
            outcome = make(server.path, params, heard)
        except sandgate.Error as e:
            outcome = e
        finally:
            server.close()
        sent = [g for g in server.got if g["method"] == method]
        self.assertEqual(len(sent), 1, server.got)
        self.assertEqual(sent[0].get("params"), params)
        self.assertEqual(sorted(sent[0]), ["id", "jsonrpc", "method", "params"])
        if "error" in response:
            want = response["error"]
            self.assertIsInstance(outcome, sandgate.Error)
            self.assertEqual((outcome.code, str(outcome)), (want["data"]["code"], want["message"]))
            self.assertEqual(outcome.hint, want["data"].get("hint", ""))
            self.assertEqual(outcome.field, want["data"].get("field", ""))
            self.assertTrue(sandgate.model_text(outcome))
        elif method == "tools.call":
            raw = response["result"]
            self.assertEqual(outcome.raw, raw)
            self.assertEqual(outcome.text, "".join(c.get("text", "") for c in raw["content"]))
            said = [n["params"] for n in notes if n["method"] == "tool.output" and n["params"]["call_id"] == params["call_id"]]
            self.assertEqual(len(heard), len(said))
        elif method == "tools.batch":
            self.assertEqual([isinstance(o, sandgate.Error) for o in outcome], ["error" in r for r in response["result"]["results"]])
        elif method == "session.open":
            self.assertEqual((outcome.id, outcome.mode, outcome.resumed),
                             (response["result"]["session_id"], response["result"]["mode"], response["result"].get("resumed", False)))

    def test_agent(self):
        def in_session(do):
            def make(path, params, heard):
                with sandgate.connect(path) as agent:
                    params = dict(params)
                    opened = sandgate.Session(agent, {"session_id": params.pop("session_id")})
                    return do(opened, params, heard)
            return make

        def call(s, p, heard):
            return s.call(p.pop("tool"), p.pop("args", None), on_output=lambda *o: heard.append(o), **p)

        def opened(path, params, heard):
            params = dict(params)
            with sandgate.connect(path) as agent:
                return agent.session(params.pop("agent"), **params)

        played = self.play("agent", {
            "session.open": opened,
            "session.close": in_session(lambda s, p, h: s.close()),
            "tools.list": in_session(lambda s, p, h: s.list()),
            "tools.check": in_session(lambda s, p, h: s.check(p.pop("tool"), p.pop("args", None), **p)),
            "tools.call": in_session(call),
            "tools.decide": in_session(lambda s, p, h: s.decide(p.pop("tool"), p.pop("args", None), **p)),
            "tools.batch": in_session(lambda s, p, h: s.batch(p.pop("calls"), p.pop("group_id", ""))),
        })
        for method in ("session.open", "session.close", "tools.list", "tools.check", "tools.call", "tools.decide", "tools.batch"):
            self.assertGreater(played.get(method, 0), 0, f"no recording of {method} was played")

    def test_operator(self):
        def approver(do):
            def make(path, params, heard):
                with sandgate.connect_approver(path) as p:
                    return do(p, params)
            return make

        played = self.play("operator", {
            "approvals.decide": approver(lambda a, p: a.decide(**p)),
            "approvals.show": approver(lambda a, p: a.show(p["id"])),
        })
        self.assertGreater(played.get("approvals.decide", 0), 1)

    def test_initialize(self):
        for request, _, response in exchanges(os.path.join(CONVERSATIONS, "errors.txt"), "agent"):
            if request["method"] == "initialize" and request["params"]["protocol_version"] == 99:
                server = Server(lambda got: [{**response, "id": got["id"]}])
                with self.assertRaises(sandgate.Error) as caught:
                    sandgate.connect(server.path)
                server.close()
                self.assertEqual(caught.exception.code, "unsupported_version")
                return
        self.fail("no recording of another version")


# The parameters that a method of the client can be given, where these are fixed.
KNOWN = {
    "session.open": {"agent", "metadata", "mode", "name"},
    "tools.batch": {"session_id", "group_id", "calls"},
}


def sendable(method, params):
    """Recordings also have what no method of a client would send."""
    try:
        json.dumps(params, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False  # half a character
    if not set(params) <= KNOWN.get(method, set(params)):
        return False
    return "session_id" in params or method == "session.open" or method.startswith("approvals.")


class Broken(unittest.TestCase):
    """What a supervisor must not do, and what happens when it does."""

    def setUp(self):
        self.replies = []
        self.server = Server(lambda got: self.answer(got))

    def tearDown(self):
        self.server.close()

    def answer(self, got):
        if got["method"] == "initialize":
            return [{"jsonrpc": "2.0", "id": got["id"], "result": {"new_member": 1, "server": {}}}]
        return self.replies

    def refused(self, *replies):
        self.replies = list(replies)
        with sandgate.connect(self.server.path) as agent:
            session = sandgate.Session(agent, {"session_id": "s-1"})
            with self.assertRaises(sandgate.ConnectionLost) as caught:
                session.call("shell", {"command": "ls"})
            with self.assertRaises(sandgate.ConnectionLost):
                session.call("shell", {"command": "again"})
            return sandgate.model_text(caught.exception)

    def test_it_hangs_up(self):
        self.assertEqual(self.refused(b""), "The call was not made: the supervisor does not answer.")

    def test_half_an_answer(self):
        self.refused(b'{"jsonrpc":"2.0","id":2,"result":{"exit_code":0', b"")

    def test_no_json(self):
        self.refused(b"allowed\n")

    def test_an_answer_to_nothing_is_no_answer(self):
        self.refused({"jsonrpc": "2.0", "id": 99, "result": {"exit_code": 0}}, {"jsonrpc": "2.0", "id": None, "result": {}}, b"")


class Words(unittest.TestCase):
    def refusal(self, code, **data):
        return sandgate.model_text(error_of({"message": "denied: denied by uid 0, gid 0, pid 9: use yarn", "data": {"code": code, **data}}))

    def test_a_refusal_says_its_reason_once(self):
        text = self.refusal("denied", hint="use yarn", decision={"feedback": "use yarn", "approver": "uid 0, gid 0, pid 9"})
        self.assertEqual(text, "The user rejected this call: use yarn")
        text = self.refusal("denied", hint="Stop.", decision={"reason": "by uid 0, gid 0, pid 9", "approver": "uid 0, gid 0, pid 9"})
        self.assertEqual(text, "This call was denied. Stop.")
        self.assertIn("use the trash", self.refusal("blocked", hint="use the trash tool"))

    def test_results(self):
        result = sandgate.Result.of({"content": [{"type": "text", "stream": "stdout", "text": "out"}, {"type": "blob", "stream": "stderr", "blob": "/w=="}],
                                     "exit_code": 3, "later": True})
        self.assertEqual((result.stdout, result.data("stderr"), result.raw["later"]), ("out", b"\xff", True))
        self.assertIn("[exit status 3]", sandgate.model_text(result))


class Paths(unittest.TestCase):
    def test_a_directory_of_others_is_refused(self):
        with tempfile.TemporaryDirectory() as base:
            old = os.environ.get("XDG_RUNTIME_DIR")
            os.environ["XDG_RUNTIME_DIR"] = base
            try:
                self.assertEqual(sandgate.socket_path("agent.sock"), os.path.join(base, "sandgate", "agent.sock"))
                os.mkdir(os.path.join(base, "sandgate"), 0o700)
                sandgate.socket_path("agent.sock")
                os.chmod(os.path.join(base, "sandgate"), 0o777)
                with self.assertRaises(sandgate.ConnectionLost):
                    sandgate.socket_path("agent.sock")
            finally:
                del os.environ["XDG_RUNTIME_DIR"]
                if old is not None:
                    os.environ["XDG_RUNTIME_DIR"] = old


if __name__ == "__main__":
    unittest.main()
