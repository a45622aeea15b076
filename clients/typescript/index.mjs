// Client library for sandgate: docs/protocol.md of sandgate describes the two sockets.
// Nothing but Node's own modules is used.

import {randomBytes} from 'node:crypto';
import {lstatSync} from 'node:fs';
import {createConnection} from 'node:net';
import {isAbsolute, join} from 'node:path';

/** The longest message of the protocol, in bytes. */
export const MAX_MESSAGE = 16 << 20;

const REFUSALS = new Map([
  ['denied', 'This call was denied.'],
  ['blocked', 'This call is never allowed.'],
  ['approval_required', "This call waits for a person's approval."],
  ['approval_timeout', 'Nobody approved this call in time.'],
  ['no_approver', 'Nobody is there to approve this call.'],
]);

/** What the supervisor answered instead of a result. Compare code. */
export class SandgateError extends Error {
  constructor(code, message, data = {}) {
    super(message);
    this.name = this.constructor.name;
    this.code = code;
    this.data = data;
  }
  /** For the model: what would be allowed instead. */
  get hint() { return this.data.hint ?? ''; }
  /** The member of the request that is wrong. */
  get field() { return this.data.field ?? ''; }
}

/** The call was not made: a rule, a mode or a person says no, or has yet to say yes. */
export class Refused extends SandgateError {
  /** Of approval_required: call again with it after the decision. */
  get approvalId() { return this.data.approval_id ?? ''; }
  get decision() { return this.data.decision ?? {}; }
  /** The person wants the agent to stop and wait. */
  get endsTurn() { return Boolean(this.decision.interrupt) || this.decision.mode === 'reject_hard'; }
}

/** The supervisor is gone. What was under way did not answer; take it for refused. */
export class ConnectionLost extends Error {
  constructor(message) {
    super(message);
    this.name = 'ConnectionLost';
  }
}

function errorOf(e) {
  const data = e.data ?? {};
  const code = data.code ?? String(e.code ?? '');
  return new (REFUSALS.has(code) ? Refused : SandgateError)(code, e.message ?? '', data);
}

/**
 * Where the supervisor of this user listens: 'agent.sock' or 'operator.sock'. A base
 * directory that belongs to somebody else is passed over. A directory that others could
 * have made, or can write to, is refused: whoever listens there may not be the supervisor.
 */
export function socketPath(name) {
  const uid = process.geteuid();
  const mode = (path) => {
    try {
      const st = lstatSync(path);
      return st.isDirectory() && st.uid === uid ? st.mode & 0o7777 : -1;
    } catch (e) {
      if (e.code === 'ENOENT') return undefined;
      return -1;
    }
  };
  let directory = join(process.env.TMPDIR || '/tmp', `sandgate-${uid}`);
  for (const base of [process.env.XDG_RUNTIME_DIR ?? '', `/run/user/${uid}`]) {
    if (isAbsolute(base) && (mode(base) ?? -1) >= 0) {
      directory = join(base, 'sandgate');
      break;
    }
  }
  if ((mode(directory) ?? 0o700) !== 0o700) {
    throw new ConnectionLost(`${directory} is not a directory of this user's alone: whoever listens there may not be sandgate`);
  }
  return join(directory, name);
}

/** One connection on which requests are answered in any order. */
class Link {
  #socket;
  #waiting = new Map();
  #last = 0;
  #lost;
  #notify;
  #pieces = [];
  #length = 0;

  static connect(path, notify) {
    return new Promise((resolve, reject) => {
      const socket = createConnection(path);
      const failed = (e) => reject(new ConnectionLost(`connect to the supervisor at ${path}: ${e.message}; start one with \`sandgate serve\``));
      socket.once('error', failed);
      socket.once('connect', () => {
        socket.off('error', failed);
        resolve(new Link(socket, notify));
      });
    });
  }

  constructor(socket, notify) {
    this.#socket = socket;
    this.#notify = notify;
    socket.on('data', (b) => this.#read(b));
    socket.on('error', (e) => this.#fail(`read from the supervisor: ${e.message}`));
    socket.on('close', () => this.#fail('the supervisor ended the connection'));
  }

  request(method, params) {
    if (this.#lost) return Promise.reject(this.#lost);
    const id = ++this.#last;
    const line = JSON.stringify({jsonrpc: '2.0', id, method, params}) + '\n';
    if (Buffer.byteLength(line) > MAX_MESSAGE + 1) {
      return Promise.reject(new SandgateError('message_too_large', `the request is longer than ${MAX_MESSAGE} bytes`));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, {resolve, reject});
      this.#socket.write(line);
    });
  }

  close() {
    this.#fail('the connection was closed');
    return new Promise((resolve) => (this.#socket.closed ? resolve() : this.#socket.once('close', () => resolve())));
  }

  #read(b) {
    for (let end; (end = b.indexOf(10)) >= 0 && !this.#lost; b = b.subarray(end + 1)) {
      const line = Buffer.concat([...this.#pieces, b.subarray(0, end)]);
      this.#pieces = [];
      this.#length = 0;
      try {
        this.#take(JSON.parse(line.toString('utf8')));
      } catch (e) {
        return this.#fail(`read from the supervisor: ${e.message}`);
      }
    }
    this.#pieces.push(b);
    this.#length += b.length;
    if (this.#length > MAX_MESSAGE) this.#fail('the supervisor sent a message that is too long');
  }

  #take(m) {
    if ('method' in m) return this.#notify(m.method, m.params ?? {});
    const waiting = this.#waiting.get(m.id);
    if (!waiting) return; // nobody waits any more
    this.#waiting.delete(m.id);
    if ('error' in m) waiting.reject(errorOf(m.error));
    else waiting.resolve(m.result);
  }

  #fail(why) {
    this.#lost ??= new ConnectionLost(why);
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    this.#socket.destroy();
    for (const w of waiting) w.reject(this.#lost);
  }
}

/** What a call did. A program that failed by itself is a result with its exit code. */
export class Result {
  constructor(raw) {
    this.raw = raw;
    this.exitCode = raw.exit_code ?? 0;
    this.signal = raw.signal ?? '';
    this.structured = raw.structured;
    this.truncated = raw.truncated ?? false;
    this.decision = raw.decision ?? {};
    this.enforcedBy = raw.enforced_by ?? {};
    this.violations = raw.violations ?? [];
    this.warnings = raw.warnings ?? [];
  }
  /** What was given back; of one stream ('stdout', 'stderr'), or of all. */
  data(stream) {
    return Buffer.concat((this.raw.content ?? []).filter((c) => stream === undefined || c.stream === stream)
      .map((c) => (c.type === 'blob' ? Buffer.from(c.blob, 'base64') : Buffer.from(c.text ?? ''))));
  }
  get text() { return this.data().toString(); }
  get stdout() { return this.data('stdout').toString(); }
  get stderr() { return this.data('stderr').toString(); }
}

const sentence = (...parts) => parts.filter(Boolean).join(' ');

/**
 * What to tell a model about a call, whatever became of it. A refusal says its reason once,
 * and not who answered. A failure of the supervisor reads as a refusal.
 */
export function modelText(outcome) {
  if (outcome instanceof Result) {
    if (!outcome.exitCode) return outcome.text;
    const end = `[exit status ${outcome.exitCode}${outcome.signal ? ` (${outcome.signal})` : ''}]`;
    return outcome.text ? `${outcome.text}\n${end}` : end;
  }
  if (outcome instanceof Refused) {
    const {feedback, reason, approver} = outcome.decision;
    if (feedback) return `The user rejected this call: ${feedback}`;
    return sentence(REFUSALS.get(outcome.code), reason && !approver && `Reason: ${reason}.`, outcome.hint);
  }
  if (outcome instanceof SandgateError) return sentence(`The call failed: ${outcome.message}.`, outcome.hint);
  return 'The call was not made: the supervisor does not answer.';
}

const defined = (o) => Object.fromEntries(Object.entries(o).filter(([, v]) => v !== undefined));

/** A conversation of one agent: what is remembered, and its sandboxes, last as long. */
export class Session {
  #agent;

  constructor(agent, opened) {
    this.#agent = agent;
    this.id = opened.session_id;
    this.mode = opened.mode ?? '';
    this.resumed = opened.resumed ?? false;
  }

  /** End the session and everything in it; how many calls there were. */
  close() { return this.#request('session.close', {}); }

  /** `tools` with what there is to say about them: `workdir`, `paths`, `warnings`. */
  list() { return this.#request('tools.list', {}); }

  /** What a call would do: `decision` is allow, ask or deny. Nothing is run or asked. */
  check(tool, args, options = {}) { return this.#request('tools.check', this.#call(tool, args, options)); }

  /**
   * Make a call. A refusal is Refused. Options are those of tools.call, and signal: when it
   * is aborted the call is cancelled, and the promise is settled when everything that it
   * had started is dead; onOutput(stream, data) and onState(state, event) hear of it.
   */
  async call(tool, args, {signal, onOutput, onState, ...options} = {}) {
    signal?.throwIfAborted();
    const params = this.#call(tool, args, options);
    const id = params.call_id;
    const abort = () => this.cancel(id).catch(() => {}); // it may be over: its own answer says so
    this.#agent.handlers.set(id, {onOutput, onState});
    signal?.addEventListener('abort', abort, {once: true});
    try {
      return new Result(await this.#request('tools.call', params));
    } finally {
      signal?.removeEventListener('abort', abort);
      this.#agent.handlers.delete(id);
    }
  }

  /** Ask for the end of a call. */
  cancel(callId) { return this.#agent.request('tools.cancel', {call_id: callId}); }

  /** Make the calls of one turn: each {tool, args, ...}. What became of each is its Result or its error. */
  async batch(calls, {groupId} = {}) {
    const params = defined({calls: calls.map((c) => ({call_id: this.#agent.newId(), ...c})), group_id: groupId});
    const {results} = await this.#request('tools.batch', params);
    return results.map((o) => ('error' in o ? errorOf(o.error) : new Result(o.result ?? {})));
  }

  /** Whether the runtime may make a call itself, outside of any sandbox. No is Refused. */
  decide(tool, args, options = {}) { return this.#request('tools.decide', this.#call(tool, args, options)); }

  #call(tool, args, options) {
    return defined({call_id: this.#agent.newId(), tool, args, ...options});
  }

  #request(method, params) { return this.#agent.request(method, {session_id: this.id, ...params}); }
}

/** A connection to the agent socket. It can ask; it can decide nothing. */
export class Agent {
  #link;
  #prefix = `js-${process.pid}-${randomBytes(3).toString('hex')}`;
  #calls = 0;

  /** @internal */
  handlers = new Map();

  /** @internal */
  static async open(path, name, version) {
    const agent = new Agent();
    agent.#link = await Link.connect(path, (method, params) => agent.#notification(method, params));
    try {
      agent.server = await agent.request('initialize', {protocol_version: 1, client: defined({name, version})});
    } catch (e) {
      await agent.close();
      throw e;
    }
    return agent;
  }

  /** Open a session. A name makes it outlive the connection. */
  async session(agent, {metadata, mode, name} = {}) {
    return new Session(this, await this.request('session.open', defined({agent, metadata, mode, name})));
  }

  /** End the connection, and with it every session without a name and every call. */
  close() { return this.#link.close(); }

  /** @internal */
  request(method, params) { return this.#link.request(method, params); }

  /** @internal */
  newId() { return `${this.#prefix}-${++this.#calls}`; }

  #notification(method, p) {
    const h = this.handlers.get(p.call_id);
    if (method === 'tool.output') h?.onOutput?.(p.stream, p.base64 === undefined ? Buffer.from(p.text ?? '') : Buffer.from(p.base64, 'base64'));
    else if (method === 'tool.state') h?.onState?.(p.state, p);
  }
}

/**
 * A connection to the operator socket. Whoever has one decides: keep it from whatever a
 * model steers. Text of a model or of a tool is no answer.
 */
export class Approver {
  #link;
  #queue = [];
  #wake;
  #over = false;

  /** @internal */
  static async open(path) {
    const p = new Approver();
    p.#link = await Link.connect(path, (method, params) => {
      if (!method.startsWith('approval.')) return;
      p.#queue.push({kind: method.slice('approval.'.length), approval: params.approval ?? {}, decision: params.decision});
      p.#wake?.();
    });
    return p;
  }

  /** Count as an approver, and yield what happens, beginning with what waits. It works once. */
  async *events() {
    await this.request('approvals.subscribe', {});
    for (;;) {
      while (this.#queue.length) yield this.#queue.shift();
      if (this.#over) return;
      await new Promise((resolve) => (this.#wake = resolve));
    }
  }

  async list() { return (await this.request('approvals.list', {})).approvals; }
  show(id) { return this.request('approvals.show', {id}); }
  async allow(id, {scope = 'once', ...options} = {}) { return (await this.decide({id, decision: 'allow', scope, ...options})).results[0].decision; }
  async deny(id, {mode = 'reject_hard', ...options} = {}) { return (await this.decide({id, decision: 'deny', mode, ...options})).results[0].decision; }
  /** approvals.decide as it is. */
  decide(params) { return this.request('approvals.decide', params); }
  status() { return this.request('status', {}); }

  close() {
    this.#over = true;
    this.#wake?.();
    return this.#link.close();
  }

  /** @internal */
  request(method, params) { return this.#link.request(method, params); }
}

/** Connect to the agent socket at path, or to that of this user's own supervisor. */
export async function connect({path, name = 'sandgate-js', version} = {}) {
  return Agent.open(path ?? socketPath('agent.sock'), name, version);
}

/** Connect to the operator socket at path, or to that of this user's own supervisor. */
export async function connectApprover({path} = {}) {
  return Approver.open(path ?? socketPath('operator.sock'));
}
