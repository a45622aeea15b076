// Adapters for the Claude Agent SDK: its own tools are asked about first.
//
//   import {query} from '@anthropic-ai/claude-agent-sdk';
//   import {connect} from 'sandgate';
//   import {canUseTool, preToolUse} from 'sandgate/claude';
//   const session = await (await connect()).session('claude', {name: 'chat-17'});
//   query({prompt, options: {canUseTool: canUseTool(session), hooks: {PreToolUse: [{hooks: [preToolUse(session)], timeout: 330}]}}});
//
// The SDK does not call canUseTool for tools in allowedTools, nor in some permission modes:
// what has to be asked about in every case belongs into the hook. No sandbox holds what the
// SDK runs itself. Both deny when the supervisor does not answer.

import {randomUUID} from 'node:crypto';
import {modelText, Refused} from './index.mjs';

/** Whether the runtime may make a call. Everything that goes wrong is a no. */
export async function decide(session, tool, args, {signal, metadata} = {}) {
  const id = randomUUID();
  const abort = () => session.cancel(id).catch(() => {});
  try {
    signal?.throwIfAborted();
    signal?.addEventListener('abort', abort, {once: true});
    await session.decide(tool, args, {call_id: id, metadata});
    return {allowed: true, text: '', interrupt: false};
  } catch (e) {
    return {allowed: false, text: modelText(e), interrupt: e instanceof Refused && Boolean(e.decision.interrupt)};
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

/** The SDK's canUseTool callback, answered by sandgate's rules, memory and people. */
export function canUseTool(session) {
  return async (toolName, input, {signal} = {}) => {
    const {allowed, text, interrupt} = await decide(session, toolName, input, {signal});
    return allowed ? {behavior: 'allow', updatedInput: input} : {behavior: 'deny', message: text, interrupt};
  };
}

/** A PreToolUse hook. Give its matcher a timeout, in seconds, above sandgate's approval.timeout. */
export function preToolUse(session) {
  return async (event, toolUseID, {signal} = {}) => {
    const metadata = toolUseID ? {tool_use_id: toolUseID} : undefined;
    const {allowed, text, interrupt} = await decide(session, event.tool_name, event.tool_input ?? {}, {signal, metadata});
    return {
      ...(interrupt ? {continue: false, stopReason: text} : {}),
      hookSpecificOutput: {
        hookEventName: 'PreToolUse',
        permissionDecision: allowed ? 'allow' : 'deny',
        permissionDecisionReason: text || 'allowed by sandgate',
      },
    };
  };
}
