// Programs as they are written with this client, for the compiler alone: `make types` holds
// them, and the declarations, to tsc --strict and to the types of the Claude Agent SDK.

import type {CanUseTool, HookCallback, Options} from '@anthropic-ai/claude-agent-sdk';
import {canUseTool, decide, preToolUse} from 'sandgate/claude';
import {connect, connectApprover, ConnectionLost, type Decision, MAX_MESSAGE, modelText, Refused, Result, SandgateError, socketPath} from 'sandgate';

export async function agent(signal: AbortSignal): Promise<string> {
  const agent = await connect({path: socketPath('agent.sock'), name: 'types'});
  const session = await agent.session('types', {metadata: {run_id: 'r-1', parts: [1, null]}, mode: 'strict', name: 'chat 1'});
  const tools: string[] = (await session.list()).tools.map((t) => t.name);
  const {decision}: {decision: 'allow' | 'ask' | 'deny'} = await session.check('shell', {command: 'ls'});
  try {
    const result: Result = await session.call('shell', {command: 'ls'}, {
      signal, defer: true, timeout_ms: 1000, onOutput: (stream, data) => process.stdout.write(stream + data.length.toString()), onState: (state) => console.log(state),
    });
    if (result.exitCode !== 0 || result.signal) return result.stderr;
    const outcomes: (Result | SandgateError)[] = await session.batch([{tool: 'read_file', args: {path: 'x'}}], {groupId: 'g'});
    for (const o of outcomes) console.log(o instanceof Result ? o.stdout : o.code, modelText(o));
  } catch (e) {
    if (e instanceof Refused) return `${e.approvalId} ${e.decision.feedback ?? ''} ${e.endsTurn}`;
    if (e instanceof SandgateError) return `${e.code}: ${e.hint} ${e.field}`;
    if (!(e instanceof ConnectionLost)) throw e;
  }
  const {calls, refused} = await session.close();
  await agent.close();
  return `${tools.length} ${decision} ${calls - refused} ${MAX_MESSAGE}`;
}

export async function frontEnd(): Promise<void> {
  const approver = await connectApprover();
  for await (const e of approver.events()) {
    if (e.kind !== 'requested') continue;
    const shown = await approver.show(e.approval.id);
    const given: Decision = shown.tool === 'read_file' ? await approver.allow(shown.id, {scope: 'session'}) : await approver.deny(shown.id, {mode: 'reject_soft', feedback: 'use yarn'});
    console.log(given.action, (await approver.status()).pending);
  }
}

// The adapters are what the SDK takes.
export async function claude(): Promise<Options> {
  const session = await (await connect()).session('claude');
  const callback: CanUseTool = canUseTool(session);
  const hook: HookCallback = preToolUse(session);
  const {allowed, text, interrupt}: {allowed: boolean; text: string; interrupt: boolean} = await decide(session, 'WebSearch', {query: 'x'});
  return {canUseTool: callback, hooks: {PreToolUse: [{hooks: [hook], timeout: 360}]}, tools: allowed && !interrupt ? [text] : []};
}

// What must not compile.
export async function wrong(): Promise<void> {
  const session = await (await connect()).session('types');
  // @ts-expect-error a command is an argument, and not the arguments
  await session.call('shell', 'ls');
  // @ts-expect-error no option has this name
  await session.call('shell', {command: 'ls'}, {timeout: 3});
  // @ts-expect-error there are two sockets
  socketPath('web.sock');
}
