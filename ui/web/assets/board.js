// What an operator looks at beside the requests. The server says what is on a board, in
// words; this draws any of them.

import { button, composing, el, fill, put, stands, watch, where } from "./dom.js";
import { begun, Guard, keyboard, PAUSE, typing } from "./guard.js";

const EVERY_MS = 2000, AIM_MS = 10000;

export class Board {
  constructor(root, channel, signal, say) {
    Object.assign(this, { root, channel, say });
    this.places = new Map(); // a guard for each place where a button stands or stood
    this.name = "";
    this.asked = null; // an action that is asked about, or takes a text
    root.addEventListener("keydown", (e) => this.key(e), true);
    root.addEventListener("pointermove", () => { this.aimed = performance.now(); });
    watch(() => this.look(), (e) => this.moved(e), signal);
  }

  moved(e) {
    if (e.type === "resize") this.place();
    else keyboard.rest = performance.now() + PAUSE; // what was typed elsewhere until now may go on here
    for (const g of this.places.values()) g.moved(performance.now());
    this.look();
  }

  key(e) {
    const now = this.aimed = performance.now(), press = e.target.tagName === "BUTTON" && (e.key === "Enter" || e.key === " ");
    if (typing(e) && e.target.tagName !== "INPUT") for (const g of this.places.values()) g.key(now, e.timeStamp, press);
    if (composing(e)) return;
    if (e.key === "Escape" && this.asked) this.ask(null);
    if (e.key === "Enter" && e.target.dataset.enter !== undefined && !e.repeat) this.act(this.asked, e, this.root.querySelector(".sure [data-act]"));
  }

  // start shows a board; asked opens one of its actions with a text.
  start(name, asked) {
    this.stop();
    this.name = name;
    this.places.clear();
    this.timer = setInterval(() => this.aiming() || this.load(), EVERY_MS);
    this.pending = asked;
    this.load();
  }

  stop() {
    clearInterval(this.timer);
    clearTimeout(this.waiting);
    Object.assign(this, { name: "", asked: null, shown: "", result: "" });
  }

  // aiming: an agent that ends its calls moves no button away from a person who has just turned to it.
  aiming() { return performance.now() - this.aimed < AIM_MS && !!this.root.querySelector("[data-act]:hover, [data-act]:focus"); }

  async load() {
    if (document.hidden || this.asked) return;
    const name = this.name;
    const board = await this.channel.ask("board", { name }).catch((e) => this.say(e.message));
    const text = JSON.stringify(board);
    if (!board || name !== this.name || this.asked || text === this.shown) return;
    this.shown = text;
    this.board = board;
    if (this.pending) {
      const action = board.sections.flatMap((s) => s.actions || []).find((a) => a.do === this.pending.do);
      this.asked = { ...action, text: this.pending.text };
      this.pending = null;
    }
    this.draw();
  }

  draw() {
    const held = this.root.contains(document.activeElement) && document.activeElement.dataset.of;
    fill(this.root, el("h2", null, this.board.title), this.result && el("p.result", null, this.result), this.board.sections.map((s) => el("section", null,
      el("h3", null, s.heading),
      s.actions && el("div.row", null, s.actions.map((a) => this.action(a))),
      s.items.length ? el("ul.things", null, s.items.map((i) => el(i.careful ? "li.careful" : "li", null,
        el("span.what", null, i.text), i.under && el("span.under", null, i.under),
        i.actions && el("span.row", null, i.actions.map((a) => this.action(a)))))) : s.empty && el("p.none", null, s.empty))));
    // Times are told anew every few seconds: whoever goes by keys stays where they were.
    const first = this.root.querySelector("[data-first]") || (held && [...this.root.querySelectorAll("[data-of]")].find((b) => b.dataset.of === held));
    if (first) first.focus({ preventScroll: first.dataset.first === undefined });
    this.place();
    this.look();
  }

  // place tells the guard of each place what a press there would do. Other words, such as a
  // time that is told anew, may change beside a button; another act in its place begins the
  // wait anew there, and nowhere else.
  place() {
    const now = performance.now(), root = this.root.getBoundingClientRect(), held = new Set();
    for (const b of this.root.querySelectorAll("[data-act]")) {
      const r = b.getBoundingClientRect();
      const at = `${Math.round(r.left - root.left)} ${Math.round(r.top - root.top + this.root.scrollTop)}`;
      b.guard = this.places.get(at) || new Guard(keyboard);
      this.places.set(at, b.guard);
      b.guard.look(now, b.dataset.act, b.dataset.act);
      held.add(b.guard);
    }
    for (const g of this.places.values()) if (!held.has(g)) g.look(now, "", "");
  }

  // asks reports whether an action is the one that is asked about. One rule more has one
  // place, wherever it was begun.
  asks(a) {
    const q = this.asked;
    if (!q || q.do !== a.do || (a.do === "rule.add" && a.text && q.text !== a.text)) return false;
    return (a.do === "rule.add" && !a.text) || (q.target === a.target && q.words === a.words);
  }

  action(a) {
    const q = this.asked, of = [a.do, a.target, a.words].join(" "); // whoever goes back is where they were
    if (!this.asks(a)) {
      return button("plain", a.words, "", (e) => this.act(a, e, e.currentTarget),
        { "data-act": JSON.stringify([this.name, a.do, a.target, a.text, a.words]), "data-of": of });
    }
    const field = q.label && el("input", {
      type: "text", id: "line", value: q.text || "", autocomplete: "off", spellcheck: "false", "data-of": of, "data-first": true, "data-enter": true, "aria-describedby": "hint",
    });
    return el("span.sure", { role: "group" }, q.sure && el("span", { "data-must": true }, q.sure),
      field && [el("label", { for: "line" }, q.label), field, el("span.under", { id: "hint" }, q.hint)],
      button("plain", "Back", "Esc", () => this.ask(null), q.typed ? {} : { "data-of": of, "data-first": !field }),
      button(q.sure ? "deny" : "allow", a.words, "", (e) => this.act(q, e, e.currentTarget), { "data-act": JSON.stringify([this.name, q.do, q.target, q.sure, "sure"]) }));
  }

  ask(a) { this.asked = a; this.result = ""; this.draw(); }

  // look tells the guards whether their buttons have moved on the screen, and shows which
  // ones count.
  look() {
    if (this.root.hidden) return;
    const now = performance.now(), whole = stands(this.root);
    let due = true;
    this.root.querySelectorAll("[data-act]").forEach((b) => {
      const at = where(b);
      if (at !== b.guard.at) b.guard.moved(now);
      b.guard.at = at;
      due = due && b.guard.ready(now);
      put(b, "ariaDisabled", String(!b.guard.ready(now) || !whole));
    });
    clearTimeout(this.waiting);
    if (!due) this.waiting = setTimeout(() => this.look(), 50);
  }

  // act does what the button b is for, if the press that e is the end of counts there.
  async act(a, e, b) {
    const at = begun(e);
    this.look();
    if (!a || !e.isTrusted || !stands(this.root) || !b.guard.answer(performance.now(), at, e.detail > 1)) return this.look();
    if ((a.sure || a.label) && this.asked !== a) return this.ask(a);
    if (a.again) return this.ask({ ...a, sure: a.again, again: "" });
    const line = this.root.querySelector("#line");
    const { said, asks, problem } = await this.channel.ask("act", { do: a.do, target: a.target, text: line ? line.value : a.text, yes: a.yes }).catch((e) => ({ problem: e.message }));
    if (asks) return this.asked === a && this.ask({ ...asks, typed: true }); // what was left meanwhile is not asked about; an Enter of the line is not Back
    this.result = problem || said;
    this.say(this.result);
    if (problem && line) { // the text stays, to be put right
      this.asked = { ...a, text: line.value };
      return this.draw();
    }
    this.asked = null;
    this.shown = "";
    this.load();
  }
}
