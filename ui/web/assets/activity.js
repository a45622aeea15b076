// What goes on: sessions, the calls under way, and the end of the log. A call can be
// killed and a session ended, each by two clicks that count.

import { clock, el, fill } from "./dom.js";
import { SETTLE_MS, Settle } from "./settle.js";

const EVERY_MS = 2000;

export class Activity {
  constructor(root, channel, say) {
    this.root = root;
    this.channel = channel;
    this.say = say;
    this.settle = new Settle();
    this.shown = "";
    this.marked = null; // what a second click would end: { do, params, id }
  }

  // start and stop are told when the view comes into sight and goes.
  start() {
    this.stop();
    this.timer = setInterval(() => this.load(), EVERY_MS);
    this.load();
  }

  stop() {
    clearInterval(this.timer);
    this.marked = null;
    this.shown = "";
  }

  async load() {
    if (document.hidden) return;
    let view;
    try {
      view = await this.channel.ask("activity", {});
    } catch (e) {
      this.say(e.message);
      return;
    }
    const text = JSON.stringify(view);
    if (text === this.shown) return;
    this.shown = text;
    this.view = view;
    this.draw();
  }

  draw() {
    const v = this.view;
    fill(this.root,
      el("h2", null, "Calls under way"),
      v.calls.length ? el("ul.things", null, v.calls.map((c) => el("li", null,
        el("span.what", null, c.text), el("span.under", null, `${c.agent}, since ${clock(c.started)}`),
        this.ending("Kill", "kill", { id: c.id }, c.id)))) : el("p.none", null, "None."),
      el("h2", null, "Sessions"),
      v.sessions.length ? el("ul.things", null, v.sessions.map((s) => el("li", null,
        el("span.what", null, s.text), el("span.under", null, `${s.id}, since ${clock(s.opened)}`),
        this.ending("End", "close", { session_id: s.id }, s.id)))) : el("p.none", null, "None is open."),
      el("h2", null, "The log, latest first"),
      el("ol.log", { reversed: true }, [...v.log].reverse().map((e) => el("li", { value: e.seq },
        el("time", null, clock(e.time)), " ", el("b", null, e.kind), " ", e.text))));
    this.mark();
  }

  ending(word, what, params, id) {
    const sure = this.marked && this.marked.id === id;
    return el("button.deny", { type: "button", "data-ends": id, click: () => this.end(what, params, id) }, sure ? `${word}: click again` : word);
  }

  // mark has the buttons count once they have stood still.
  mark() {
    const ends = [...this.root.querySelectorAll("[data-ends]")].map((b) => b.textContent + b.dataset.ends).join(" ");
    this.settle.look(ends);
    const ready = this.settle.ready();
    this.root.querySelectorAll("[data-ends]").forEach((b) => b.setAttribute("aria-disabled", String(!ready)));
    clearTimeout(this.waiting);
    if (!ready && ends) this.waiting = setTimeout(() => this.mark(), SETTLE_MS / 10);
  }

  async end(what, params, id) {
    if (!this.settle.accept()) {
      this.mark();
      return;
    }
    if (!this.marked || this.marked.id !== id) {
      this.marked = { id };
      this.draw();
      const again = [...this.root.querySelectorAll("[data-ends]")].find((b) => b.dataset.ends === id);
      if (again) again.focus();
      return;
    }
    this.marked = null;
    try {
      await this.channel.ask(what, params);
      this.say("Ended.");
    } catch (e) {
      this.say(e.message);
    }
    this.shown = "";
    this.load();
  }
}
