import type {Session} from './index.mjs';

export function decide(session: Session, tool: string, args: {[name: string]: unknown}, options?: {signal?: AbortSignal; metadata?: {[name: string]: any}}):
  Promise<{allowed: boolean; text: string; interrupt: boolean}>;
export function canUseTool(session: Session): (toolName: string, input: Record<string, unknown>, options?: {signal?: AbortSignal}) =>
  Promise<{behavior: 'allow'; updatedInput: Record<string, unknown>} | {behavior: 'deny'; message: string; interrupt?: boolean}>;
export function preToolUse(session: Session): (event: any, toolUseID?: string, options?: {signal?: AbortSignal}) => Promise<{[name: string]: any}>;
