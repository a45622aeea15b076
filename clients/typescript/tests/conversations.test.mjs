// The recorded conversations of protocol/testdata, played against this client: what it
// sends, made by its own methods from the recorded parameters, has to be what was recorded,
// and what it makes of the answers is looked at.

import assert from 'node:assert/strict';
import {chmodSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync} from 'node:fs';
import {createServer} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {test} from 'node:test';
import {fileURLToPath} from 'node:url';
import * as sandgate from '../index.mjs';

const recordings = fileURLToPath(new URL('../../../protocol/testdata/conversations/', import.meta.url));

/** A socket on which a test says what a supervisor would. */
async function serve(answer) {
  const dir = mkdtempSync(join(tmpdir(), 'sg'));
  const got = [];
  const server = createServer((socket) => {
    let rest = '';
    socket.setEncoding('utf8');
    socket.on('error', () => {});
    socket.on('data', (text) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        const m = JSON.parse(line);
        got.push(m);
        for (const reply of answer(m)) {
          if (reply === '') return socket.destroySoon();
          socket.write(typeof reply === 'string' ? reply : JSON.stringify(reply) + '\n');
        }
      }
    });
  });
  const path = join(dir, 's');
  await new Promise((resolve) => server.listen(path, resolve));
  const close = async () => {
    await new Promise((resolve) => server.close(resolve));
    rmSync(dir, {recursive: true});
  };
  return {path, got, close};
}

/** Requests of one side with the notifications before their answer, and the answer. */
function exchanges(file, side) {
  const asked = new Map();
  const found = [];
  for (const line of readFileSync(join(recordings, file), 'utf8').split('\n')) {
    const [who] = line.split(' ', 1);
    if (who !== `${side}>` && who !== `${side}<`) continue;
    let m;
    try {
      m = JSON.parse(line.slice(who.length + 1));
    } catch {
      continue; // lines that no client sends
    }
    if (who.endsWith('>')) {
      if (m.id !== undefined && m.jsonrpc === '2.0') asked.set(JSON.stringify(m.id), {request: m, notes: []});
    } else if ('method' in m) {
      for (const e of asked.values()) e.notes.push(m);
    } else if (asked.has(JSON.stringify(m.id))) {
      found.push({...asked.get(JSON.stringify(m.id)), response: m});
      asked.delete(JSON.stringify(m.id));
    }
  }
  return found;
}

const known = {'session.open': ['agent', 'metadata', 'mode', 'name'], 'tools.batch': ['session_id', 'group_id', 'calls']};
const sendable = (method, params) =>
  !/\\ud[89a-f]/.test(JSON.stringify(params)) &&
  Object.keys(params).every((k) => !known[method] || known[method].includes(k)) &&
  ('session_id' in params || method === 'session.open' || method.startsWith('approvals.'));

const inSession = (make) => async (path, params, heard) => {
  const agent = await sandgate.connect({path});
  try {
    const {session_id, ...rest} = params;
    return await make(new sandgate.Session(agent, {session_id}), rest, heard);
  } finally {
    await agent.close();
  }
};
const called = (make) => inSession((s, {tool, args, ...rest}, heard) => make(s, tool, args, rest, heard));

const sides = {
  agent: {
    'session.open': async (path, {agent: name, ...options}) => {
      const agent = await sandgate.connect({path});
      try {
        return await agent.session(name, options);
      } finally {
        await agent.close();
      }
    },
    'session.close': inSession((s) => s.close()),
    'tools.list': inSession((s) => s.list()),
    'tools.check': called((s, tool, args, o) => s.check(tool, args, o)),
    'tools.call': called((s, tool, args, o, heard) => s.call(tool, args, {...o, onOutput: (...x) => heard.push(x)})),
    'tools.decide': called((s, tool, args, o) => s.decide(tool, args, o)),
    'tools.batch': inSession((s, {calls, group_id}) => s.batch(calls, {groupId: group_id})),
  },
  operator: {
    'approvals.decide': async (path, params) => {
      const p = await sandgate.connectApprover({path});
      try {
        return await p.decide(params);
      } finally {
        await p.close();
      }
    },
  },
};

const hello = (m) => ({jsonrpc: '2.0', id: m.id, result: {protocol_version: 1, server: {name: 's'}, limits: {}, new_member: 1}});

for (const [side, methods] of Object.entries(sides)) {
  test(`recorded conversations, ${side}`, async (t) => {
    const played = {};
    for (const file of readdirSync(recordings).filter((f) => f.endsWith('.txt')).sort()) {
      for (const {request: {method, params = {}}, notes, response} of exchanges(file, side)) {
        if (!methods[method] || !sendable(method, params)) continue;
        played[method] = (played[method] ?? 0) + 1;
        await t.test(`${file} ${method} ${JSON.stringify(params)}`, async () => {
          const server = await serve((m) => (m.method === 'initialize' ? [hello(m)] : [...notes, {...response, id: m.id}]));
          const heard = [];
          const outcome = await methods[method](server.path, params, heard).catch((e) => e);
          await server.close();
          const sent = server.got.filter((m) => m.method === method);
          assert.equal(sent.length, 1);
          assert.deepEqual(sent[0].params, params);
          if (response.error) {
            assert.ok(outcome instanceof sandgate.SandgateError, String(outcome));
            assert.deepEqual([outcome.code, outcome.message, outcome.hint, outcome.field],
              [response.error.data.code, response.error.message, response.error.data.hint ?? '', response.error.data.field ?? '']);
            assert.ok(sandgate.modelText(outcome));
          } else if (method === 'tools.call') {
            assert.deepEqual(outcome.raw, response.result);
            assert.equal(outcome.text, response.result.content.map((c) => c.text ?? '').join(''));
            assert.equal(heard.length, notes.filter((n) => n.method === 'tool.output' && n.params.call_id === params.call_id).length);
          } else if (method === 'tools.batch') {
            assert.deepEqual(outcome.map((o) => o instanceof Error), response.result.results.map((r) => 'error' in r));
          }
        });
      }
    }
    for (const method of Object.keys(methods)) assert.ok(played[method], `no recording of ${method} was played`);
  });
}

for (const [name, replies] of Object.entries({
  'it hangs up': [''], 'half an answer': ['{"jsonrpc":"2.0","id":2,"result":{"exit_code":0', ''], 'no JSON': ['allowed\n'],
  'an answer to nothing': [{jsonrpc: '2.0', id: 99, result: {exit_code: 0}}, {jsonrpc: '2.0', id: null, result: {}}, ''],
})) {
  test(`a supervisor that breaks the protocol: ${name}`, async () => {
    const server = await serve((m) => (m.method === 'initialize' ? [hello(m)] : replies));
    const agent = await sandgate.connect({path: server.path});
    const session = new sandgate.Session(agent, {session_id: 's-1'});
    const lost = await session.call('shell', {command: 'ls'}).catch((e) => e);
    assert.ok(lost instanceof sandgate.ConnectionLost, String(lost));
    assert.equal(sandgate.modelText(lost), 'The call was not made: the supervisor does not answer.');
    await assert.rejects(session.call('shell', {command: 'again'}), sandgate.ConnectionLost);
    await server.close();
  });
}

test('a directory that others can write to is refused', () => {
  const base = mkdtempSync(join(tmpdir(), 'sg'));
  const before = process.env.XDG_RUNTIME_DIR;
  process.env.XDG_RUNTIME_DIR = base;
  try {
    assert.equal(sandgate.socketPath('agent.sock'), join(base, 'sandgate', 'agent.sock'));
    mkdirSync(join(base, 'sandgate'), {mode: 0o700});
    sandgate.socketPath('agent.sock');
    chmodSync(join(base, 'sandgate'), 0o777);
    assert.throws(() => sandgate.socketPath('agent.sock'), sandgate.ConnectionLost);
  } finally {
    if (before === undefined) delete process.env.XDG_RUNTIME_DIR;
    else process.env.XDG_RUNTIME_DIR = before;
    rmSync(base, {recursive: true});
  }
});
