// The requests that wait, the one that is looked at, and the answers to it.

import { clock, content, countdown, el, facts, fill } from "./dom.js";
import { SETTLE_MS, Settle } from "./settle.js";

// The answers to one request, with their keys. The first is where the focus goes.
const CHOICES = [
  { key: "N", words: "Deny", title: "this call and the rest of its batch", decision: "deny", mode: "reject_hard" },
  { key: "n", words: "This call only", title: "deny this call; the model goes on", decision: "deny", mode: "reject_soft" },
  { key: "x", words: "Explain first", title: "deny; the model is asked to explain", decision: "deny", mode: "reject_explain" },
  { key: "i", words: "Deny and stop", title: "deny, and tell the agent to end its turn", decision: "deny", mode: "reject_hard", interrupt: true },
  { key: "d", words: "Dismiss", title: "refuse the call and decide nothing about it", decision: "dismiss" },
  { key: "y", words: "Once", title: "allow this call, once", decision: "allow", scope: "once" },
  { key: "s", words: "Session", title: "and the same again, in this session", decision: "allow", scope: "session" },
  { key: "a", words: "This agent", title: "and the same again, whenever this agent asks: for good", decision: "allow", scope: "agent" },
  { key: "g", words: "Everybody", title: "and the same again, whoever asks: for good", decision: "allow", scope: "global" },
];

const SCOPES = [["session", "In this session"], ["agent", "For this agent"], ["global", "For everybody"]];
const RECENT = 12;

export class Requests {
  // counted is told how many requests wait.
  constructor(main, channel, say, counted) {
    this.main = main;
    this.counted = counted;
    this.channel = channel;
    this.say = say;
    this.rows = new Map(); // by id, oldest first
    this.views = new Map(); // by id: what is known of a request beyond its row
    this.recent = [];
    this.current = "";
    this.panel = null; // what lies over the answers: confirm, edit, patterns, gone
    this.serial = 0; // of the panel
    this.drawn = ""; // the shape of the answers that are on the screen
    this.about = ""; // the request that they are about
    this.settle = new Settle();
    this.open = false;
    this.build();
    this.listen();
  }

  build() {
    this.list = el("ol.list", { "aria-label": "Requests that wait" });
    this.done = el("ul.recent", { "aria-label": "Answered lately" });
    this.none = el("p.none", null, "Nothing waits.");
    this.detail = el("article.detail", { tabindex: "-1", "aria-label": "The request", scroll: () => this.scrolled() });
    this.answers = el("section.answers", { "aria-label": "Answers" });
    this.side = el("section.side", { "aria-label": "Requests" }, this.none, this.list, el("h2", null, "Answered lately"), this.done);
    this.root = el("div.requests", null, this.side, el("div.one", null, this.detail, this.answers));
    fill(this.main, this.root);
    this.draw();
  }

  listen() {
    this.onKey = (e) => this.key(e);
    this.onMove = () => { this.settle.restart(); this.forgetSeen(); this.mark(); };
    this.onSight = () => { this.settle.restart(); this.mark(); };
    document.addEventListener("keydown", this.onKey);
    window.addEventListener("resize", this.onMove);
    window.addEventListener("focus", this.onSight);
    document.addEventListener("visibilitychange", this.onSight);
  }

  stop() {
    document.removeEventListener("keydown", this.onKey);
    window.removeEventListener("resize", this.onMove);
    window.removeEventListener("focus", this.onSight);
    document.removeEventListener("visibilitychange", this.onSight);
  }

  // turn is told when the view comes into sight, and when another one does.
  turn(shown) {
    this.root.hidden = !shown;
    this.settle.restart();
    this.scrolled();
    this.mark();
  }

  // linked is told when the channel comes and goes. What waits is told anew then.
  linked(open) {
    this.open = open;
    if (open) {
      this.wanted = this.current;
      this.rows.clear();
      this.views.clear();
      this.select("");
    }
    this.draw();
  }

  event(e) {
    switch (e.event) {
      case "requested":
      case "updated":
        this.requested(e.row);
        break;
      case "resolved":
        this.resolved(e.id, e.outcome);
        break;
    }
  }

  requested(row) {
    const fresh = !this.rows.has(row.id);
    this.rows.set(row.id, row);
    if (!fresh) {
      this.views.delete(row.id);
      if (row.id === this.current) this.load(row.id);
    }
    if (!this.current || row.id === this.wanted) this.select(row.id);
    else this.drawList();
    if (row.id === this.wanted) this.wanted = "";
    if (fresh) this.say(`Request: ${row.title}`);
    this.drawAnswers(); // a group may have grown
  }

  // resolved takes a request off the screen. Whatever was being done about it ends: a
  // text that was begun for it must not go on as keys for the next one.
  resolved(id, outcome) {
    this.recent.unshift({ at: Date.now(), outcome });
    this.recent.length = Math.min(this.recent.length, RECENT);
    const ids = [...this.rows.keys()];
    const at = ids.indexOf(id);
    if (at < 0) return;
    const writing = id === this.current && this.writing();
    this.rows.delete(id);
    this.views.delete(id);
    this.say(outcome);
    if (this.panel && this.panel.ids && this.panel.ids.includes(id)) this.show(null);
    if (id === this.current) {
      ids.splice(at, 1);
      this.select(ids[Math.min(at, ids.length - 1)] || "");
      if (writing) this.show({ kind: "gone", outcome });
    } else {
      this.drawList();
      this.drawAnswers();
    }
  }

  writing() {
    const e = document.activeElement;
    return !!e && (e.tagName === "TEXTAREA" || e.tagName === "INPUT") && this.answers.contains(e);
  }

  row() { return this.rows.get(this.current); }

  view() { return this.views.get(this.current); }

  select(id) {
    this.current = id;
    this.panel = null;
    if (id) this.load(id);
    this.draw();
    this.detail.scrollTop = 0;
    this.scrolled();
  }

  move(by) {
    const ids = [...this.rows.keys()];
    const next = ids[ids.indexOf(this.current) + by];
    if (next) this.select(next);
  }

  // load asks for the presentation, once, and only when it is looked at.
  async load(id) {
    let view = this.views.get(id);
    if (view) return;
    view = { sheet: null, original: null, args: null, draft: "", whole: null, reached: 0, sent: false, problem: "", version: 0 };
    this.views.set(id, view);
    try {
      view.sheet = await this.channel.ask("show", { id });
      view.version++;
    } catch (e) {
      view.problem = e.message;
    }
    if (this.current === id) this.draw();
  }

  // sight is what an answer would refer to.
  sight() {
    const view = this.view();
    if (!this.open || this.root.hidden || document.hidden || !view || !view.sheet || view.sent) return "";
    return this.shape();
  }

  // shape is what the answers on the screen look like, and what they are about: a group
  // that grows moves the buttons.
  shape() {
    const view = this.view() || {};
    return [this.current, view.version, this.panel ? this.panel.serial : "", this.group().length].join(" ");
  }

  // mark shows whether answers count yet.
  mark() {
    this.settle.look(this.sight());
    const ready = this.settle.ready();
    this.answers.querySelectorAll("button[data-answer]").forEach((b) => b.setAttribute("aria-disabled", String(!ready)));
    clearTimeout(this.timer);
    if (!ready && this.settle.sight) this.timer = setTimeout(() => this.mark(), SETTLE_MS / 10);
  }

  accept() {
    if (this.settle.accept()) return true;
    this.mark();
    if (this.settle.sight) this.say("That came as soon as the request; read it, then answer.");
    return false;
  }

  // Drawing.

  draw() {
    this.drawn = "";
    this.drawList();
    this.drawDetail();
    this.drawAnswers();
  }

  drawList() {
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.id : "";
    fill(this.list, ...[...this.rows.values()].map((r) => el("li", null,
      el("button.row", {
        type: "button", "data-id": r.id, "aria-current": r.id === this.current ? "true" : null,
        click: () => this.select(r.id),
      }, el("span.title", null, r.title), el("span.under", null, el("span.agent", null, r.agent), countdown(r.expires))))));
    if (focused) {
      const again = [...this.list.querySelectorAll("button")].find((b) => b.dataset.id === focused);
      if (again) again.focus();
    }
    this.none.hidden = this.rows.size > 0;
    fill(this.done, ...this.recent.map((r) => el("li", null, el("time", null, clock(r.at)), " ", r.outcome)));
    this.done.previousElementSibling.hidden = this.recent.length === 0;
    this.counted(this.rows.size);
    document.title = this.rows.size ? `(${this.rows.size}) sandgate` : "sandgate";
  }

  drawDetail() {
    const view = this.view();
    const sheet = view && view.sheet;
    this.root.classList.toggle("empty", !this.row());
    if (!sheet) {
      fill(this.detail, el("p.none", null, view && view.problem ? view.problem : this.row() ? "Loading" : "No request is shown."));
      return;
    }
    const lines = view.whole || sheet.lines;
    this.end = el("div.end");
    fill(this.detail, 
      el("h2", null, sheet.title),
      view.args !== null && el("p.edited", null, "Edited by you: allowing it allows this, once, in place of what the agent asked for. ",
        el("button", { type: "button", click: () => this.restore() }, "Bring the agent's own back (Esc)")),
      el("p.when", null, `asked at ${clock(sheet.created)}, `, countdown(sheet.expires)),
      facts(sheet.first),
      content(lines, sheet.kind),
      sheet.cut && !view.whole && el("p", null, "The text was cut. ",
        el("button", { type: "button", click: () => this.full() }, "Show all of it (v)")),
      facts(sheet.deciding),
      sheet.then && el("section", null, el("h3", null, "Then, if this is allowed"), el("ol.then", null, sheet.then.map((t) => el("li", null, t)))),
      this.end,
      el("details.depth", null, el("summary", null, "What else the sandbox allows"), facts(sheet.depth)));
    this.scrolled();
  }

  // group are the waiting requests of the one that is looked at. Group ids are the
  // agents' own, so only within one session do they mean anything.
  group() {
    const r = this.row();
    if (!r || !r.group) return [];
    return [...this.rows.values()].filter((o) => o.group === r.group && o.session === r.session && !(this.views.get(o.id) || {}).sent);
  }

  button(words, key, click, more) {
    return el("button", { type: "button", "data-answer": true, "aria-keyshortcuts": key, ...more, click },
      words, key && el("kbd", null, key));
  }

  drawAnswers() {
    const view = this.view();
    const shape = view && view.sheet ? this.shape() : "";
    if (shape && shape === this.drawn) { // what is being pressed or written in stays
      this.mark();
      return;
    }
    this.drawn = shape;
    const kept = this.answers.querySelector("#feedback");
    const feedback = kept && this.about === this.current ? kept.value : "";
    const focused = this.answers.contains(document.activeElement) && this.about === this.current ? document.activeElement : null;
    this.about = this.current;
    if (this.panel) {
      fill(this.answers, this.drawPanel());
      const first = this.answers.querySelector("[data-first]");
      if (first) first.focus();
      this.mark();
      return;
    }
    if (!view || !view.sheet) {
      fill(this.answers);
      this.mark();
      return;
    }
    const edited = view.args !== null;
    const of = (decision) => CHOICES.filter((c) => (c.decision === "allow") === (decision === "allow") && !(edited && c.decision === "allow" && c.scope !== "once"));
    const group = this.group();
    fill(this.answers, 
      el("div.deny", { role: "group", "aria-label": "Deny" }, of("deny").map((c) => this.choiceButton(c))),
      el("label.feedback", null, el("span", null, "If denied, tell the model"),
        el("input", { id: "feedback", type: "text", maxlength: "4000", autocomplete: "off", placeholder: "optional", value: feedback })),
      el("div.allow", { role: "group", "aria-label": "Allow" }, el("span.lead", null, "Allow"), of("allow").map((c) => this.choiceButton(c)),
        !edited && view.sheet.patterns && this.button("More like it", "p", () => this.patterns(), { title: "remember a pattern in place of this very call" }),
        view.sheet.args && this.button("Edit", "e", () => this.edit(), { title: "edit the arguments; what becomes of them is shown first" })),
      group.length > 1 && el("div.other", { role: "group", "aria-label": "Group" }, [
        this.button(`Deny all ${group.length} of the group`, "D", () => this.groupAnswer("deny")),
        this.button(`Allow all ${group.length} of the group`, "A", () => this.groupAnswer("allow"))]));
    if (focused) {
      const again = focused.id ? this.answers.querySelector("#feedback")
        : [...this.answers.querySelectorAll("button")].find((b) => b.textContent === focused.textContent);
      if (again) again.focus();
    }
    this.mark();
  }

  choiceButton(c) {
    return this.button(c.words, c.key, () => this.choose(c), { title: c.title, class: `${c.decision} ${c.scope || c.mode || ""}` });
  }

  // show puts a panel in the place of the answers; null brings them back.
  show(panel) {
    this.panel = panel;
    if (panel) panel.serial = ++this.serial;
    this.drawAnswers();
  }

  drawPanel() {
    const p = this.panel;
    const back = this.plainButton(p.kind === "gone" ? "Go on" : "Back", "Escape", () => this.back());
    switch (p.kind) {
      case "confirm":
        return el("div.panel", { role: "alertdialog", "aria-label": "Are you sure?" }, el("ul.asks", null, p.asks.map((a) => el("li", null, a))),
          el("div", null, back, this.button(p.words, p.key, () => this.confirmed(), { class: p.decide.decision })));
      case "gone":
        return el("div.panel", { role: "alertdialog", "aria-label": "It has ended" },
          el("p", null, "The request that you were writing about has ended."), el("p", null, p.outcome), el("div", null, back));
      case "edit":
        return this.drawEdit(p, back);
      case "patterns":
        return this.drawPatterns(p, back);
    }
    return el("div");
  }

  plainButton(words, key, click) {
    return el("button", { type: "button", "data-first": true, "aria-keyshortcuts": key, click }, words, el("kbd", null, key === "Escape" ? "Esc" : key));
  }

  back() {
    this.show(null);
    this.detail.focus();
  }

  // Answers.

  choose(c) {
    const view = this.view();
    if (!view || !view.sheet || view.sent || !this.accept()) return;
    const decide = { id: this.current, decision: c.decision };
    if (c.mode) decide.mode = c.mode;
    if (c.interrupt) decide.interrupt = true;
    if (c.decision === "deny") {
      const text = (this.answers.querySelector("#feedback") || {}).value;
      if (text) decide.feedback = text;
    }
    const asks = [];
    if (c.decision === "allow") {
      decide.scope = c.scope;
      asks.push(...this.unseen(view));
      if (view.sheet.lasting[c.scope]) asks.push(view.sheet.lasting[c.scope]);
    }
    if (asks.length) this.show({ kind: "confirm", ids: [this.current], asks, decide, key: c.key, words: `Allow: ${c.words.toLowerCase()}` });
    else this.send(decide);
  }

  // unseen says how much of a request has never been on the screen.
  unseen(view) {
    const asks = [];
    if (this.end && view.reached < this.end.offsetTop) asks.push("the end of the request has not been on the screen; scroll down to see it");
    if (view.sheet.cut && !view.whole) asks.push("the text was cut; v shows all of it");
    return asks;
  }

  scrolled() {
    const view = this.view();
    if (!view || !view.sheet) return;
    const d = this.detail;
    if (d.scrollTop <= view.reached) view.reached = Math.max(view.reached, d.scrollTop + d.clientHeight); // else lines were skipped
  }

  forgetSeen() {
    for (const v of this.views.values()) v.reached = 0;
    this.scrolled();
  }

  confirmed() {
    if (this.panel && this.panel.kind === "confirm" && this.accept()) this.send(this.panel.decide);
  }

  async send(decide) {
    const ids = decide.ids || [decide.id];
    const edited = this.views.get(decide.id);
    const text = decide.decision === "allow" && edited && edited.args !== null ? edited.args : "";
    for (const id of ids) {
      const v = this.views.get(id);
      if (v) v.sent = true;
    }
    this.panel = null;
    const next = [...this.rows.keys()].find((id) => !(this.views.get(id) || {}).sent);
    if (next) this.select(next);
    else this.draw();
    let problems;
    try {
      problems = (await this.channel.ask("decide", text ? { answer: decide, text } : { answer: decide })).problems;
    } catch (e) {
      problems = [e.message];
    }
    if (!problems.length) return; // its end comes as an event
    for (const id of ids) {
      const v = this.views.get(id);
      if (v) v.sent = false;
    }
    this.say(problems.join("; "));
    this.draw();
  }

  // groupAnswer answers all requests of the group that are listed, and not one that
  // joins it later.
  groupAnswer(decision) {
    const group = this.group();
    if (group.length < 2 || !this.accept()) return;
    const ids = group.map((r) => r.id);
    if (decision === "deny") {
      this.send({ ids, decision });
      return;
    }
    if (ids.some((id) => (this.views.get(id) || { args: null }).args !== null)) {
      this.say("One of the group is edited: answer one by one, or bring the agent's own back.");
      return;
    }
    this.show({ kind: "confirm", ids, asks: group.map((r) => `allows ${r.title}`), decide: { ids, decision }, key: "A", words: `Allow all ${ids.length}` });
  }

  async full() {
    const id = this.current;
    const view = this.view();
    if (!view || !view.sheet || !view.sheet.cut) return;
    try {
      const params = view.args !== null ? { id, text: view.args } : { id };
      view.whole = (await this.channel.ask("full", params)).lines;
      view.reached = 0;
      view.version++;
    } catch (e) {
      this.say(e.message);
    }
    if (this.current === id) this.draw();
  }

  // Editing the arguments.

  edit() {
    const view = this.view();
    if (!view || !view.sheet || !view.sheet.args || view.sent) return;
    this.show({ kind: "edit", ids: [this.current], text: view.draft || view.sheet.args });
  }

  drawEdit(p, back) {
    back.removeAttribute("data-first");
    const text = el("textarea", { id: "arguments", "data-first": true, spellcheck: "false", autocomplete: "off", rows: "8" });
    text.value = p.text;
    return el("div.panel", null, el("label", { for: "arguments" }, "The arguments, as JSON. What becomes of them is shown before anything is allowed."), text,
      el("div", null, back, el("button", { type: "button", click: () => this.edited(text.value) }, "Show what becomes of it")));
  }

  async edited(text) {
    const id = this.current;
    const view = this.view();
    if (!view || !text.trim()) {
      this.say("Not JSON: there is nothing in it.");
      return;
    }
    view.draft = text;
    try {
      const { sheet } = await this.channel.ask("preview", { id, text });
      Object.assign(view, { original: view.original || view.sheet, sheet, args: text, whole: null, reached: 0, version: view.version + 1 });
    } catch (e) {
      this.say(e.message);
      return;
    }
    this.say("");
    if (this.current === id) this.select(id);
  }

  restore() {
    const view = this.view();
    if (!view || view.args === null || view.sent) return;
    Object.assign(view, { sheet: view.original, original: null, args: null, draft: "", whole: null, reached: 0, version: view.version + 1 });
    this.say("The arguments are the agent's again.");
    this.select(this.current);
  }

  // Patterns.

  patterns() {
    const view = this.view();
    if (!view || !view.sheet || view.sent || view.args !== null) return;
    if (!view.sheet.patterns) {
      this.say("No pattern is offered for this request: s, a and g remember this very call.");
      return;
    }
    this.show({ kind: "patterns", ids: [this.current], offers: [...view.sheet.patterns], at: 0, deny: false });
  }

  drawPatterns(p, back) {
    const o = p.offers[p.at];
    const again = () => this.show({ ...p });
    const value = el("input", { type: "text", id: "pattern", value: o.value, autocomplete: "off", spellcheck: "false" });
    return el("div.panel.patterns", null,
      el("fieldset", null, el("legend", null, p.deny ? "Deny this call, and remember to deny" : "Allow this call, and remember in its place"),
        p.offers.map((offer, i) => el("label", null,
          el("input", { type: "radio", name: "offer", checked: i === p.at, change: () => { p.at = i; again(); } }), " ", offer.text))),
      el("ul.asks", null, (p.deny ? o.deny_notes : o.notes).map((n) => el("li", null, n))),
      el("div", null, el("label", { for: "pattern" }, `Change it (${o.kind}) `), value,
        el("button", { type: "button", click: () => this.editPattern(p, { kind: o.kind, value: value.value }) }, "Show what it covers")),
      el("div", null, back,
        el("label", null, el("input", { type: "checkbox", checked: p.deny, change: () => { p.deny = !p.deny; again(); } }), " deny instead"),
        SCOPES.map(([scope, words]) => this.button(words, "", () => this.patternAnswer(p, scope, words), { class: p.deny ? "deny" : "allow" }))));
  }

  async editPattern(p, pattern) {
    const id = this.current;
    try {
      const { pattern: offer } = await this.channel.ask("preview", { id, pattern });
      if (this.panel === p && this.current === id) this.show({ ...p, offers: [...p.offers, offer], at: p.offers.length });
    } catch (e) {
      this.say(e.message);
    }
  }

  patternAnswer(p, scope, words) {
    const view = this.view();
    if (!view || view.sent || !this.accept()) return;
    const o = p.offers[p.at];
    const decision = p.deny ? "deny" : "allow";
    const asks = p.deny ? [o.deny[scope], ...o.deny_notes] : [...this.unseen(view), o.allow[scope], ...o.notes];
    this.show({
      kind: "confirm", ids: [this.current], asks, key: "", words: `${p.deny ? "Deny" : "Allow"}: ${words.toLowerCase()}`,
      decide: { id: this.current, decision, scope, pattern: { kind: o.kind, value: o.value } },
    });
  }

  // Keys.

  key(e) {
    // A key that is held down presses a button again and again: it never answers.
    if (e.repeat && (e.key === "Enter" || e.key === " ")) e.preventDefault();
    if (e.ctrlKey || e.altKey || e.metaKey || e.isComposing || this.root.hidden) return;
    const field = ["INPUT", "TEXTAREA", "SELECT"].includes(e.target.tagName);
    if (e.key === "Escape") {
      if (this.panel) this.back();
      else if (field) e.target.blur();
      else this.restore();
      return;
    }
    if (field) return;
    if (e.key === "ArrowDown" || e.key === "j") return void this.move(1), void e.preventDefault();
    if (e.key === "ArrowUp" || e.key === "k") return void this.move(-1), void e.preventDefault();
    if (e.repeat || (this.panel && this.panel.kind !== "confirm")) return;
    if (this.panel) {
      if (this.panel.key && e.key === this.panel.key) this.confirmed();
      return;
    }
    const c = CHOICES.find((choice) => choice.key === e.key);
    const view = this.view();
    if (c && view && view.args !== null && c.decision === "allow" && c.scope !== "once") {
      this.say("Edited arguments are allowed once: y, or Esc for the agent's own.");
    } else if (c) this.choose(c);
    else if (e.key === "e") this.edit(), e.preventDefault();
    else if (e.key === "p") this.patterns();
    else if (e.key === "v") this.full();
    else if (e.key === "D") this.groupAnswer("deny");
    else if (e.key === "A") this.groupAnswer("allow");
  }
}
