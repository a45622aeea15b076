// The one rule for answers, as package ui/guard has it: when an act of a person counts as
// an answer to the request in front of them. Both are held to the same vectors. Times are
// in ms, of performance.now() and of the events.

export const SETTLE = 500; // since it appeared, moved, was resized or came back
export const OTHER = 1500; // since another request stood in its place
export const PAUSE = 1000; // since the last key of a text
export const LONE = 500; // for which a letter that answers is alone

let down = null; // when the button or key went down that a click comes from
document.addEventListener("pointerdown", (e) => { down = e.timeStamp; }, true);
document.addEventListener("keydown", (e) => {
  if (e.key !== "Enter" && e.key !== " ") return;
  // A key that is held down presses a button again and again: it never answers.
  if (e.repeat) e.preventDefault();
  else down = e.timeStamp;
}, true);

// begun is when the act began that an event is the end of. A click without a press before
// it is a screen reader's.
export function begun(e) {
  if (e.type !== "click") return e.timeStamp;
  const at = down === null ? e.timeStamp : down;
  down = null;
  return at;
}

// typing reports whether a key may be one of a text. Arrows and their like are in none.
export function typing(e) { return !e.ctrlKey && !e.metaKey && (e.key.length === 1 || ["Enter", "Backspace", "Dead", "Process"].includes(e.key)); }

// keyboard is the one that a person has: what they typed on one view is typed on all.
export const keyboard = { rest: 0 };

export class Guard {
  constructor(keys = { rest: 0 }) {
    this.keys = keys;
    Object.assign(this, { request: "", sight: "", due: 0, before: "", left: 0, letGo: 0, ended: false, text: false });
  }

  // look says what is in sight: the request, and all that decides what an answer would
  // mean. "" is none.
  look(now, request, sight) {
    if (request === this.request && sight === this.sight) return;
    if (this.request !== "" && this.request !== request) {
      this.before = this.request;
      this.left = now;
    }
    this.request = request;
    this.sight = sight;
    this.wait(now + SETTLE);
    if (this.before !== "" && this.before !== request) this.wait(this.left + OTHER);
  }

  wait(until) { this.due = Math.max(this.due, until, this.keys.rest); }

  // key says that a key was pressed which may be one of a text; meant, that it is a key of
  // what is in sight.
  key(now, begun, meant) {
    this.wrote(now);
    if (!meant || begun < this.due) this.wait(now);
  }

  // wrote says that a key was pressed in a text field in front of the person.
  wrote(now) { this.keys.rest = now + PAUSE; }

  moved(now) { this.wait(now + SETTLE); }

  // gone says that the request in sight ended by another hand.
  gone(now) { this.ended = true; this.letGo = now + SETTLE; }

  textGone(now) { this.text = true; this.letGo = now + SETTLE; }

  held() { return this.ended || this.text; }

  // writing: keys are still taken for those of a text that has gone.
  writing() { return this.text; }

  // release takes the act that lets go: click, escape, enter.
  release(now, begun, act) {
    if (act === "enter" && (this.text || begun < this.keys.rest)) {
      this.wrote(now);
      return false;
    }
    if (!this.held() || begun < this.letGo) return false;
    this.ended = this.text = false;
    this.moved(now);
    return true;
  }

  ready(now) { return this.request !== "" && !this.held() && now >= this.due; }

  answer(now, begun, repeated) {
    if (this.ready(now) && begun >= this.due && !repeated) return true;
    if (!repeated) this.moved(now);
    return false;
  }
}
