/** The longest message of the protocol, in bytes. */
export const MAX_MESSAGE: number;

export type Json = null | boolean | number | string | Json[] | {[name: string]: Json};
export type Args = {[name: string]: unknown};

export class SandgateError extends Error {
  readonly code: string;
  readonly data: {[name: string]: any};
  readonly hint: string;
  readonly field: string;
}
export class Refused extends SandgateError {
  readonly approvalId: string;
  readonly decision: Decision;
  readonly endsTurn: boolean;
}
export class ConnectionLost extends Error {}

export interface Decision {
  action?: string; source?: string; scope?: string; reason?: string; approver?: string;
  feedback?: string; rule?: string; mode?: string; interrupt?: boolean; args?: Args;
}

export class Result {
  readonly raw: {[name: string]: any};
  readonly exitCode: number;
  readonly signal: string;
  readonly structured: unknown;
  readonly truncated: boolean;
  readonly decision: Decision;
  readonly enforcedBy: {[axis: string]: string};
  readonly violations: {[name: string]: any}[];
  readonly warnings: string[];
  data(stream?: 'stdout' | 'stderr'): Buffer;
  readonly text: string;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CallOptions {
  call_id?: string; group_id?: string; batch_remaining?: {tool: string; arguments?: Json}[];
  timeout_ms?: number; one_stream?: boolean; metadata?: {[name: string]: Json}; defer?: boolean; approval_id?: string;
}
export interface Watching {
  signal?: AbortSignal;
  onOutput?(stream: string, data: Buffer): void;
  onState?(state: string, event: {[name: string]: any}): void;
}

export class Session {
  readonly id: string;
  readonly mode: string;
  readonly resumed: boolean;
  close(): Promise<{calls: number; completed: number; refused: number; failed: number}>;
  list(): Promise<{tools: {name: string; description: string; inputSchema: any; annotations: any; unavailable?: string}[]; workdir?: string; paths?: any[]; warnings?: string[]}>;
  check(tool: string, args?: Args, options?: CallOptions): Promise<{decision: 'allow' | 'ask' | 'deny'; [name: string]: any}>;
  call(tool: string, args?: Args, options?: CallOptions & Watching): Promise<Result>;
  cancel(callId: string): Promise<{}>;
  batch(calls: ({tool: string; args?: Args; call_id?: string; timeout_ms?: number; one_stream?: boolean; metadata?: {[name: string]: Json}})[], options?: {groupId?: string}): Promise<(Result | SandgateError)[]>;
  decide(tool: string, args?: Args, options?: {call_id?: string; group_id?: string; metadata?: {[name: string]: Json}; ask?: 'approvers' | 'agent'}): Promise<{decision: Decision; [name: string]: any}>;
}

export class Agent {
  readonly server: {[name: string]: any};
  session(agent: string, options?: {metadata?: Json; mode?: string; name?: string}): Promise<Session>;
  close(): Promise<void>;
}

export interface ApprovalEvent {kind: 'requested' | 'updated' | 'resolved'; approval: {id: string; [name: string]: any}; decision?: Decision}

export class Approver {
  events(): AsyncGenerator<ApprovalEvent>;
  list(): Promise<{id: string; [name: string]: any}[]>;
  show(id: string): Promise<{id: string; [name: string]: any}>;
  allow(id: string, options?: {scope?: string; args?: Args; pattern?: {kind: string; value: string}; expires?: {after_ms?: number; uses?: number}}): Promise<Decision>;
  deny(id: string, options?: {mode?: string; feedback?: string; scope?: string; interrupt?: boolean}): Promise<Decision>;
  decide(params: {[name: string]: any}): Promise<{results: {id: string; decision?: Decision; error?: any}[]}>;
  status(): Promise<{[name: string]: any}>;
  close(): Promise<void>;
}

export function connect(options?: {path?: string; name?: string; version?: string}): Promise<Agent>;
export function connectApprover(options?: {path?: string}): Promise<Approver>;
export function socketPath(name: 'agent.sock' | 'operator.sock'): string;
export function modelText(outcome: Result | unknown): string;
