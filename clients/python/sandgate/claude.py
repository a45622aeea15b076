"""Adapters for the Claude Agent SDK: its own tools are asked about first.

    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
    import sandgate, sandgate.claude

    agent = sandgate.connect()
    session = agent.session("claude", name="chat-17")
    options = ClaudeAgentOptions(
        can_use_tool=sandgate.claude.can_use_tool(session),
        hooks={"PreToolUse": [HookMatcher(hooks=[sandgate.claude.pre_tool_use(session)], timeout=330)]},
    )

The SDK does not call can_use_tool for tools in allowed_tools, nor in some permission modes:
what has to be asked about in every case belongs into the hook. No sandbox holds what the
SDK runs itself; for that, offer sandgate's tools (`sandgate mcp serve`).

Both deny when the supervisor does not answer.
"""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable, Optional

from ._agent import Session, model_text
from ._link import Refused


async def decide(session: Session, tool: str, args: dict, metadata: Optional[dict] = None) -> "tuple[bool, str, bool]":
    """Whether the runtime may make a call: yes or no, what to tell the model, and whether
    its turn is over. Everything that goes wrong is a no."""
    params = session._call(tool, args, {"metadata": metadata})
    try:
        answer = session._agent._link.send("tools.decide", session._with_id(params))
        await asyncio.wrap_future(answer)
        return True, "", False
    except asyncio.CancelledError:
        session.cancel(params["call_id"])
        raise
    except Refused as e:
        return False, model_text(e), bool(e.decision.get("interrupt"))
    except Exception as e:  # the supervisor is gone, or a fault of ours: never a yes
        return False, model_text(e), False


def can_use_tool(session: Session) -> Callable[[str, dict, Any], Awaitable[Any]]:
    """The SDK's can_use_tool callback, answered by sandgate's rules, memory and people."""
    from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny

    async def callback(tool_name: str, input_data: dict, context: Any) -> Any:
        allowed, text, interrupt = await decide(session, tool_name, input_data)
        if allowed:
            return PermissionResultAllow(updated_input=input_data)
        return PermissionResultDeny(message=text, interrupt=interrupt)

    return callback


def pre_tool_use(session: Session) -> Callable[[dict, Optional[str], Any], Awaitable[dict]]:
    """A PreToolUse hook. Give its HookMatcher a timeout above sandgate's approval.timeout."""

    async def hook(event: dict, tool_use_id: Optional[str], context: Any) -> dict:
        metadata = {"tool_use_id": tool_use_id} if tool_use_id else None
        allowed, text, interrupt = await decide(session, event["tool_name"], event.get("tool_input") or {}, metadata)
        output: dict = {"hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow" if allowed else "deny",
            "permissionDecisionReason": text or "allowed by sandgate",
        }}
        if interrupt:
            output.update({"continue_": False, "stopReason": text})
        return output

    return hook
