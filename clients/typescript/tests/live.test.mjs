// The client against a real supervisor. Run by the script typescript_client of
// cmd/sandgate's tests.

import assert from 'node:assert/strict';
import {writeFileSync} from 'node:fs';
import {after, test} from 'node:test';
import {canUseTool, preToolUse} from '../claude.mjs';
import {connect, connectApprover, modelText, Refused, SandgateError} from '../index.mjs';

const agent = await connect();
const session = await agent.session('js', {metadata: {chat: 'c-1'}});
after(() => agent.close());

/** Answer each request with a function while another one runs. */
async function answering(answer, run) {
  const approver = await connectApprover();
  const seen = [];
  const listening = (async () => {
    for await (const e of approver.events()) {
      if (e.kind !== 'requested') continue;
      seen.push(e.approval);
      await answer(approver, e.approval);
    }
  })();
  try {
    return {outcome: await run().catch((e) => e), seen};
  } finally {
    await approver.close();
    await listening;
  }
}

test('a free call, with more than one piece of a message', async () => {
  const text = 'nöte\n'.repeat(40_000);
  writeFileSync('js.txt', text);
  const result = await session.call('read_file', {path: 'js.txt', max_bytes: 1_000_000});
  assert.equal(result.text, text);
  assert.ok(result.enforcedBy.files);
  assert.equal((await session.list()).workdir, process.cwd());
  assert.equal((await session.check('shell', {command: 'touch f; echo hi'})).decision, 'ask');
});

test('output as it comes', async () => {
  const heard = [], states = [];
  const {outcome, seen} = await answering((a, r) => a.allow(r.id), () => session.call('shell', {command: 'touch f; echo out; echo err >&2; exit 3'}, {
    metadata: {run: 7}, onOutput: (stream, data) => heard.push(`${stream}: ${data}`), onState: (s) => states.push(s),
  }));
  assert.deepEqual([outcome.exitCode, outcome.stdout, outcome.stderr], [3, 'out\n', 'err\n']);
  assert.deepEqual([heard.sort(), states], [['stderr: err\n', 'stdout: out\n'], ['pending', 'running', 'done']]);
  assert.deepEqual([seen[0].metadata, seen[0].session_metadata], [{run: 7}, {chat: 'c-1'}]);
});

test('refusals', async () => {
  const {outcome} = await answering((a, r) => a.deny(r.id, {feedback: 'use yarn', mode: 'reject_soft'}), () => session.call('shell', {command: 'touch f; echo hi'}));
  assert.ok(outcome instanceof Refused, String(outcome));
  assert.deepEqual([modelText(outcome), outcome.endsTurn], ['The user rejected this call: use yarn', false]);
  const blocked = await session.call('shell', {command: 'rm x'}).catch((e) => e);
  assert.equal(blocked.code, 'blocked');
  assert.match(modelText(blocked), /use the trash/);
  await assert.rejects(session.call('shell', {comand: 'ls'}), (e) => e instanceof SandgateError && e.code === 'invalid_arguments');
});

test('deferred', async () => {
  const args = {command: 'touch f; echo deferred'};
  const e = await session.call('shell', args, {defer: true}).catch((e) => e);
  assert.equal(e.code, 'approval_required');
  const approver = await connectApprover();
  await approver.allow(e.approvalId);
  await approver.close();
  assert.equal((await session.call('shell', args, {approval_id: e.approvalId})).stdout, 'deferred\n');
  await assert.rejects(session.call('shell', args, {approval_id: e.approvalId}), Refused); // it was good for one run
});

test('a batch', async () => {
  const calls = ['one', 'two', 'three'].map((n) => ({tool: 'shell', args: {command: `touch f; echo batch ${n}`}}));
  const {outcome} = await answering(async (a, r) => {
    if (r.payload.command.endsWith('one')) await a.allow(r.id);
    if (r.payload.command.endsWith('two')) await a.deny(r.id);
  }, () => session.batch(calls));
  assert.equal(outcome[0].stdout, 'batch one\n');
  assert.ok(outcome.slice(1).every((o) => o instanceof Refused && o.endsTurn), String(outcome));
});

test('an abort ends the call', async () => {
  const ending = new AbortController();
  const {outcome} = await answering((a, r) => a.allow(r.id), () => session.call('shell', {command: 'sleep 600'}, {
    signal: ending.signal, onState: (s) => s === 'running' && ending.abort(),
  }));
  assert.equal(outcome.code, 'cancelled');
  await assert.rejects(session.call('shell', {command: 'true'}, {signal: AbortSignal.abort()}), {name: 'AbortError'});
});

test('the Claude Agent SDK', async () => {
  const callback = canUseTool(session);
  const {seen} = await answering((a, r) => a.allow(r.id, {scope: 'session'}), async () => {
    assert.deepEqual(await callback('WebSearch', {query: 'js'}), {behavior: 'allow', updatedInput: {query: 'js'}});
    assert.equal((await callback('WebSearch', {query: 'js'})).behavior, 'allow');
  });
  assert.equal(seen.length, 1);
  const {outcome} = await answering((a, r) => a.deny(r.id, {feedback: 'no web', interrupt: true}), () => callback('WebFetch', {url: 'x'}));
  assert.deepEqual(outcome, {behavior: 'deny', message: 'The user rejected this call: no web', interrupt: true});
  const hook = await answering((a, r) => a.deny(r.id, {mode: 'reject_soft'}), () => preToolUse(session)({tool_name: 'Other', tool_input: {n: 1}}, 'toolu_1'));
  assert.equal(hook.outcome.hookSpecificOutput.permissionDecision, 'deny');
  assert.ok(!('continue' in hook.outcome)); // the model goes on
  const stop = await answering((a, r) => a.deny(r.id, {feedback: 'no more', interrupt: true}), () => preToolUse(session)({tool_name: 'Other', tool_input: {n: 2}}, 'toolu_2'));
  assert.deepEqual([stop.outcome.continue, stop.outcome.stopReason], [false, 'The user rejected this call: no more']);
  assert.equal((await callback('WebSearch', {query: 'js'}, {signal: AbortSignal.abort()})).behavior, 'deny');
  const gone = await connect();
  const other = await gone.session('js');
  await gone.close();
  assert.deepEqual(await canUseTool(other)('WebSearch', {}), {behavior: 'deny', message: 'The call was not made: the supervisor does not answer.', interrupt: false});
});
