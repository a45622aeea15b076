// What an operator looks at beside the requests. The server says what is on a board, in
// words, holds the list still while a person is at it, and asks before anything is done;
// this draws any of them.

import { button, composing, el, fill, put, stands, texts, watch, where } from "./dom.js";
import { begun, Guard, keyboard, PAUSE, typing } from "./guard.js";

const EVERY_MS = 2000;

export class Board {
  constructor(root, channel, signal, say) {
    Object.assign(this, { root, channel, say, touched: 0, guard: new Guard(keyboard) });
    this.news = el("span", { role: "status" });
    this.title = el("h2", { hidden: true });
    this.body = el("div.body");
    this.bar = el("div.row.news");
    fill(root, this.bar, this.body);
    this.stop();
    document.addEventListener("keydown", (e) => this.key(e), { capture: true, signal });
    for (const what of ["pointermove", "pointerdown", "wheel", "focusin"]) root.addEventListener(what, () => this.touch(), { passive: true });
    watch(() => this.look(), (e) => this.moved(e), signal);
  }

  touch() { this.touched = performance.now(); }

  moved(e) {
    this.touch();
    if (e.type !== "resize") keyboard.rest = performance.now() + PAUSE; // what was typed elsewhere until now may go on here
    this.guard.moved(performance.now());
    this.look();
  }

  key(e) {
    if (this.root.hidden) return;
    this.touch();
    const press = e.target.tagName === "BUTTON" && (e.key === "Enter" || e.key === " "), field = e.target.tagName === "INPUT";
    if (typing(e) && !field) {
      this.guard.key(this.touched, e.timeStamp, press || e.key === texts.refresh_key);
      this.look();
    }
    if (composing(e) || e.repeat || e.ctrlKey || e.altKey || e.metaKey) return;
    if (e.key === "Escape" && this.asked) this.ask(null);
    if (e.key === "Enter" && e.target.dataset.enter !== undefined) this.act(e);
    if (e.key === texts.refresh_key && !field && !this.asked) this.load(true);
  }

  // start shows a board; asked opens one of its actions with a text.
  start(name, asked) {
    this.stop();
    fill(this.bar, this.title, button("plain", texts.refresh, texts.refresh_key, () => this.load(true)), this.news);
    Object.assign(this, { name, wanted: asked, timer: setInterval(() => this.load(), EVERY_MS) });
    this.load(true);
  }

  stop() {
    clearInterval(this.timer);
    clearTimeout(this.waiting);
    Object.assign(this, { name: "", asked: null, shown: "", result: "", board: { version: 0, sections: [] }, loading: false });
  }

  async load(fresh) {
    if (document.hidden || this.asked || (this.loading && !fresh)) return;
    const { name, board } = this, at = performance.now(), drawn = board.version;
    this.loading = true;
    const now = await this.channel.ask("board", { name, drawn, fresh: !!fresh, idle: Math.round(at - this.touched) }).catch((e) => this.say(e.message));
    if (name !== this.name) return;
    this.loading = false;
    if (!now || this.asked || (!fresh && drawn !== this.board.version)) return;
    if (!fresh && now.version !== drawn && this.touched > at) return; // a person has turned to it meanwhile
    const text = JSON.stringify(now);
    if (text === this.shown) return;
    Object.assign(this, { board: now, shown: text });
    const w = this.wanted, found = w && now.sections.flatMap((s) => s.actions || []).find((a) => a.do === w.do);
    this.wanted = null;
    if (found) this.ask({ ...found, text: w.text });
    else this.draw();
  }

  draw() {
    const held = this.root.contains(document.activeElement) && document.activeElement.dataset.of;
    put(this.news, "textContent", this.board.news || "");
    put(this.title, "textContent", this.board.title);
    put(this.title, "hidden", false);
    fill(this.body, this.result && el("p.result", null, this.result), this.board.sections.map((s) => el("section", null,
      el("h3", null, s.heading),
      s.actions && el("div.row", null, s.actions.map((a) => this.action(a))),
      s.items.length ? el("ul.things", null, s.items.map((i) => el(i.careful ? "li.careful" : "li", null,
        el("span.what", null, i.text), el("span.under", null, i.under, i.now && el("span.now", null, i.now)),
        i.actions && el("span.row", null, i.actions.map((a) => this.action(a)))))) : s.empty && el("p.none", null, s.empty))));
    // Times are told anew every few seconds: whoever goes by keys stays where they were.
    const first = this.root.querySelector("[data-first]") || (held && [...this.root.querySelectorAll("[data-of]")].find((b) => b.dataset.of === held));
    if (first) first.focus({ preventScroll: first.dataset.first === undefined });
    this.look();
  }

  action(a) {
    const q = this.asked;
    if (!q || q.shown !== a.shown) return button("plain", a.words, "", (e) => this.act(e, a), { "data-act": true, "data-of": a.shown });
    const field = !q.sure && el("input", { type: "text", id: "line", value: q.text || "", autocomplete: "off", spellcheck: "false", "data-of": a.shown, "data-first": true, "data-enter": true, "aria-describedby": "hint" });
    return el("span.sure", { role: "group" }, q.sure && el("span", { "data-must": true }, q.sure),
      field && [el("label", { for: "line" }, q.label), field, el("span.under", { id: "hint" }, q.hint)],
      button("plain", texts.back, "Esc", () => this.ask(null), q.text ? {} : { "data-of": a.shown, "data-first": !field }), // an Enter of a line is not Back
      button(q.sure ? "deny" : "allow", q.words, "", (e) => this.act(e), { "data-act": true }));
  }

  ask(a) {
    Object.assign(this, { asked: a, result: "" });
    this.draw();
  }

  // look tells the guard what is on the screen, and whether a button has moved on it, and
  // shows which ones count.
  look() {
    if (this.root.hidden) return;
    const now = performance.now(), buttons = [...this.root.querySelectorAll("[data-act]")], q = this.asked;
    const list = `${this.name} ${this.board.version}`;
    this.guard.look(now, q && q.sure && q.text ? q.sure : list, [list, q && q.shown, q && q.sure].join(" "));
    const places = buttons.map(where).join();
    if (places !== this.places) this.guard.moved(now);
    this.places = places;
    const ready = this.guard.ready(now) && stands(this.body);
    buttons.forEach((b) => put(b, "ariaDisabled", String(!ready)));
    clearTimeout(this.waiting);
    if (!this.guard.ready(now)) this.waiting = setTimeout(() => this.look(), 50);
  }

  // act is a press of an action, or of the button of what is asked.
  async act(e, a) {
    const at = begun(e), was = this.asked, of = a || was, line = !a && this.root.querySelector("#line");
    this.look();
    if (!of || !e.isTrusted || !stands(this.body) || !this.guard.answer(performance.now(), at, e.detail > 1)) return this.look();
    if (a && a.label) return this.ask(a);
    const text = line ? line.value : (!a && was.text) || "";
    const { said, asks, problem } = await this.channel.ask("act", { shown: of.shown, text, yes: of.sure }).catch((e) => ({ problem: e.message }));
    if (this.asked !== was) return; // what was left meanwhile is not asked about
    if (asks) return this.ask({ ...of, ...asks, text });
    this.result = problem || said;
    this.say(this.result);
    if (problem && line) { // the text stays, to be put right
      this.asked = { ...of, text };
      return this.draw();
    }
    this.asked = null;
    this.draw();
    this.load(true);
  }
}
