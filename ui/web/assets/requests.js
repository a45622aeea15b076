// The requests that wait, the one that is looked at, and the answers to it.

import { button, clock, composing, content, countdown, cover, el, facts, fill, fold, put, said, sight, stands, texts, watch, where } from "./dom.js";
import { begun, Guard, keyboard, LONE, typing } from "./guard.js";
import { List } from "./list.js";
import { Panels } from "./panels.js";

const RECENT = 12;
const DRAW_MS = 50; // what happens within is drawn at once
// UNREAD is a view of which nothing has been on the screen.
const UNREAD = { whole: null, seen: 0, upto: 0, all: false };

// byPerson reports whether a key or a click of a person is being handled just now. What
// comes later, such as an answer of the server's, is nobody's act.
function byPerson() {
  const e = window.event;
  return !!e && e.isTrusted && ["keydown", "click", "change"].includes(e.type);
}

export class Requests {
  // on has: say(text), counted(n), rule(text) for a request that becomes a rule.
  constructor(main, channel, signal, on) {
    Object.assign(this, { main, channel, on });
    this.rows = new Map(); // by id, in their turns
    this.views = new Map(); // by id: what is known of a request beyond its row
    this.recent = [];
    this.current = "";
    this.tomb = null; // the current one has ended by another hand: { id, ended, after }
    this.panel = null; // what takes the place of the answers
    this.serial = 0; // of the panel
    this.guard = new Guard(keyboard);
    this.open = false;
    this.words = null; // of the answers, as the server has them
    this.panels = new Panels(this);
    this.build();
    document.addEventListener("keydown", (e) => this.key(e), { capture: true, signal });
    watch(() => this.seen(), (e) => this.moved(e), signal);
  }

  build() {
    this.list = new List((id, e) => this.choose(id, e));
    this.count = el("h2");
    this.done = el("ul.recent", { "aria-label": "Answered lately" });
    this.detail = el("article.detail", { tabindex: "-1", "aria-label": "The request" });
    this.answers = el("section.answers", { "aria-label": "Answers" });
    this.said = el("p.said", { role: "status" });
    this.root = el("div.requests", null,
      el("section.side", { "aria-label": "Requests" }, this.count, this.list.root, this.done),
      el("div.one", null,
        el("div.pager", null, button("back", "‹ All requests", "", () => this.pane("list")), el("span.place")),
        this.detail, this.answers));
    fill(this.main, this.root);
    this.pane("list");
    this.draw();
  }

  seen() { this.scrolled(); this.look(); }

  moved(e) {
    if (e && e.type === "resize") this.forgetSeen();
    else if (e) this.guard.wrote(performance.now()); // what was typed elsewhere until now may go on here
    this.guard.moved(performance.now());
    this.seen();
  }

  stop() { for (const t of [this.timer, this.scheduled]) clearTimeout(t); }

  // turn is told when the view comes into sight, and when another one does.
  turn(shown) { this.root.hidden = !shown; this.moved(); }

  // pane is what a narrow screen shows: the list or the one request.
  pane(name) { this.root.dataset.pane = name; this.scrolled(); }

  hello(words) {
    this.words = words;
    Object.assign(texts, words.texts);
    if (!this.current && !this.tomb) this.drawDetail();
    const waiting = new Set(words.waiting);
    for (const id of [...this.rows.keys()]) {
      if (!waiting.has(id)) this.resolved({ id, ended: "It ended while there was no connection.", outcome: `Ended while there was no connection. ${this.rows.get(id).title}` });
    }
    for (const [id, view] of this.views) { // what was asked for when there was no connection
      if (!view.sheet && !view.sent) this.views.delete(id);
    }
    if (this.row()) this.load(this.current);
    this.later();
  }

  // linked is told when the channel comes and goes. What is on the screen stays, with the
  // text that is being written in it.
  linked(open) {
    this.open = open;
    this.root.classList.toggle("unlinked", !open);
    this.guard.moved(performance.now());
    this.look();
  }

  events(list) {
    const fresh = [];
    for (const e of list) {
      if (e.event === "resolved") this.resolved(e);
      else if (this.requested(e)) fresh.push(e.row);
    }
    this.inTurns(fresh);
    if (fresh.length === 1) this.on.say(`New request: ${fresh[0].title}`, 6000);
    else if (fresh.length) this.on.say(`${fresh.length} new requests`, 6000);
    if (fresh.length) this.on.fresh(this.rows.size);
    this.later();
  }

  // inTurns puts new rows where their turns are. Most are the last.
  inTurns(fresh) {
    const rows = [...this.rows.values()];
    if (fresh.length && rows.some((r, i) => i > 0 && r.turn < rows[i - 1].turn)) this.rows = new Map(rows.sort((a, b) => a.turn - b.turn).map((r) => [r.id, r]));
  }

  requested(e) {
    const known = this.rows.has(e.row.id);
    if (known && e.event === "requested") return false; // the connection came back
    this.rows.set(e.row.id, e.row);
    if (known) this.refresh(e.row.id);
    else if (!this.current && !this.tomb) this.select(e.row.id);
    return !known;
  }

  // resolved takes a request off the list. The one in sight stays where it is, without
  // answers, until the person goes on: nothing else takes its place under their hand.
  resolved(e) {
    this.recent.unshift({ at: Date.now(), outcome: e.outcome });
    this.recent.length = Math.min(this.recent.length, RECENT);
    if (e.withdrawn) this.forgetLikes();
    if (!this.rows.has(e.id)) return;
    if (e.id === this.current) {
      const ids = [...this.rows.keys()];
      const at = ids.indexOf(e.id);
      this.tomb = { id: e.id, ended: e.ended, after: ids[at + 1] || ids[at - 1] || "" };
      this.guard.gone(performance.now());
      this.panel = null;
    } else this.views.delete(e.id);
    this.rows.delete(e.id);
    this.on.say(e.outcome);
    if (this.tomb && this.tomb.id === e.id) this.draw();
    else if (this.panel && this.panel.ids && this.panel.ids.includes(e.id)) this.show(null);
  }

  // forgetLikes has what was looked at before be asked for again: it may look like what was
  // withdrawn just now.
  forgetLikes() {
    for (const [id, view] of this.views) {
      const open = this.panel && this.panel.ids && this.panel.ids.includes(id); // a group's, which needs what it showed
      if (id !== this.current && !open && view.args === null && !view.sent) this.views.delete(id);
    }
  }

  // later draws the list once for all that happens by then: a flood would have each frame
  // draw it.
  later() {
    this.scheduled = this.scheduled || setTimeout(() => {
      this.scheduled = 0;
      this.drawList();
      this.drawAnswers(); // a group may have come
      const many = this.answers.querySelector(".together span.many");
      if (many) put(many, "textContent", said("group", this.group().length));
    }, DRAW_MS);
  }

  row() { return this.tomb ? null : this.rows.get(this.current); }

  view() { return this.tomb ? null : this.views.get(this.current); }

  // answerable is the view if there is something to answer, and it has not been.
  answerable() {
    const view = this.view();
    return view && view.sheet && !view.sent ? view : null;
  }

  // choose is the person's way to another request.
  choose(id, e) {
    if (this.guard.held() && !this.guard.release(performance.now(), begun(e), "click")) return;
    this.tomb = null;
    this.select(id);
    this.pane("detail");
  }

  select(id) {
    this.current = id;
    this.panel = null;
    if (id) this.load(id);
    this.draw();
    this.detail.scrollTop = 0;
    if (!id) this.pane("list");
    this.scrolled();
  }

  move(by) {
    const ids = [...this.rows.keys()];
    const next = ids[ids.indexOf(this.current) + by];
    if (next) this.select(next);
  }

  // goOn lets go of what holds the answers back.
  goOn(e, act) {
    if (!this.guard.release(performance.now(), begun(e), act)) return this.refuse(texts.go_on);
    const after = this.tomb && (this.rows.has(this.tomb.after) ? this.tomb.after : [...this.rows.keys()][0] || "");
    if (this.tomb) {
      this.views.delete(this.tomb.id);
      this.tomb = null;
      this.select(after);
      if (!this.writing()) this.detail.focus({ preventScroll: true });
    } else this.draw();
  }

  // load asks for the presentation, once, and only when it is looked at.
  async load(id) {
    if (this.views.has(id)) return;
    const view = { sheet: null, original: null, args: null, draft: "", ...UNREAD, sent: false, problem: "", version: ++this.serial };
    this.views.set(id, view);
    await this.channel.ask("show", { id }).then((sheet) => { view.sheet = sheet; }, (e) => { view.problem = e.message; });
    if (this.current === id && !this.tomb) this.draw();
  }

  // refresh asks again for what has been loaded, and draws it if it is another.
  async refresh(id) {
    const view = this.views.get(id);
    if (!view || !view.sheet || view.args !== null || view.sent) return;
    const sheet = await this.channel.ask("show", { id }).catch(() => null); // its end is on the way then
    if (!sheet || this.views.get(id) !== view || view.args !== null || JSON.stringify(sheet) === JSON.stringify(view.sheet)) return;
    Object.assign(view, { sheet, ...UNREAD, version: ++this.serial });
    if (this.current === id && !this.tomb) this.draw();
  }

  // The guard: what is in sight, and which act counts.

  // look tells the guard what an answer would refer to, once more when it is painted, and
  // whether a button has moved since: what makes it move, near or far, is not asked.
  look() {
    const view = this.answerable();
    let request = "", sight = "";
    if (this.tomb) [request, sight] = [this.tomb.id, "ended"];
    else if (this.open && this.detail.offsetParent && !document.hidden && view && view === this.whole && !view.asking && stands(this.answers, this.main)) {
      [request, sight] = [this.current, [view.version, this.panel ? this.panel.serial : "", this.grouped()].join(" ")];
    }
    const changed = request !== this.guard.request || sight !== this.guard.sight;
    this.guard.look(performance.now(), request, sight);
    const places = [...this.answers.querySelectorAll("button[data-answer]")].map(where).join();
    if (places !== this.places) this.guard.moved(performance.now());
    this.places = places;
    if (changed) requestAnimationFrame(() => requestAnimationFrame(() => { this.guard.moved(performance.now()); this.mark(); }));
    this.mark();
  }

  // mark shows whether answers count yet.
  mark() {
    const ready = this.guard.ready(performance.now());
    if (ready !== this.ready) this.answers.style.setProperty("--wait", `${Math.max(0, Math.round(this.guard.due - performance.now()))}ms`);
    this.ready = ready;
    this.answers.classList.toggle("settling", !ready);
    this.root.querySelectorAll("button[data-answer]").forEach((b) => put(b, "ariaDisabled", String(!ready || b.dataset.blocked === "true")));
    clearTimeout(this.timer);
    if (!ready && this.guard.request && !this.guard.held()) this.timer = setTimeout(() => this.mark(), 50);
  }

  // accept reports whether an event is an answer to what is in sight.
  accept(e) {
    if (!e.isTrusted) return false;
    this.look();
    if (this.guard.answer(performance.now(), begun(e), e.type === "click" ? e.detail > 1 : e.repeat)) return true;
    this.mark();
    const view = this.view();
    if (view && view.asking) this.refuse(texts.edit_pending);
    else if (view && !stands(this.answers, this.main)) this.refuse(texts.not_whole);
    else if (this.guard.request && !this.guard.held()) this.refuse(texts.too_soon);
    return false;
  }

  refuse(text) {
    this.said.textContent = text;
    this.look(); // it takes room
  }

  draw() { this.drawList(); this.drawDetail(); this.drawAnswers(true); }

  drawList() {
    const rows = [...this.rows.values()];
    this.list.show(rows, this.tomb ? "" : this.current);
    put(this.count, "textContent", rows.length ? said("waiting", rows.length) : texts.nothing);
    const at = rows.findIndex((r) => r.id === this.current);
    put(this.root.querySelector(".place"), "textContent", at >= 0 ? `${at + 1} of ${rows.length}` : "");
    const recent = JSON.stringify(this.recent);
    if (recent !== this.recentShown) {
      this.recentShown = recent;
      fill(this.done, this.recent.map((r) => el("li", null, el("time", null, clock(r.at)), " ", r.outcome)));
      this.done.hidden = this.recent.length === 0;
    }
    this.root.classList.toggle("empty", !this.current);
    this.on.counted(rows.length);
  }

  drawDetail() {
    const view = this.tomb ? this.views.get(this.tomb.id) : this.view();
    const sheet = view && view.sheet;
    this.whole = null; // what cannot be drawn cannot be answered
    this.detail.classList.toggle("ended", !!this.tomb);
    const banner = this.tomb && el("section.tomb", { role: "alert" },
      el("p", null, el("b", null, this.tomb.ended)),
      this.guard.writing() && el("p", null, texts.text_ended),
      button("next", this.tomb.after || this.rows.size ? "Next request" : "Go on", this.guard.writing() ? "Esc" : "Enter", (e) => this.goOn(e, "click")));
    if (!sheet) return fill(this.detail, banner, !banner && el("p.none", null, view && view.problem ? view.problem : this.row() ? "Loading" : texts.appear));
    const together = this.panel && this.panel.kind === "group";
    fill(this.detail, banner, together ? this.panels.members(this.panel) : this.sheet(sheet, view));
    this.whole = view;
    this.scrolled();
  }

  // sheet is all about one request: who wants what, what it can do at most, the thing
  // itself, what speaks against it, and the rest in folds.
  sheet(sheet, view) {
    return [
      el("h2", null, el("b", null, sheet.agent), ` ${sheet.wants}`),
      el("p.when", null, sheet.place && ["in ", el("span.dir", null, sheet.place), " · "], `asked at ${clock(sheet.created)} · `, this.tomb ? "" : countdown(sheet.expires)),
      el("dl.strip", { "data-block": true, "aria-label": "What it can do at most" }, sheet.strip.map((c) => el(c.careful ? "div.careful" : "div", null, el("dt", null, c.label), el("dd", null, c.text)))),
      sheet.like && el("p.alike", { "data-block": true }, el("b", null, texts.look_twice, ": "), said("this_is", sheet.like)),
      view.args !== null && el("p.edited", { "data-block": true }, texts.edited, " ",
        button("undo", texts.back, "Esc", () => this.restore())),
      content(view.whole || sheet.lines, sheet.type),
      sheet.cut && !view.whole && el("p.cut", null, "The text was cut. ", button("whole", "Show all of it", "v", () => this.full())),
      sheet.careful.length > 0 && el("ul.careful", { "data-block": true, "aria-label": "What speaks against it" }, sheet.careful.map((c) => el("li", null, c))),
      sheet.first.length > 0 && el("div", { "data-block": true }, facts(sheet.first)),
      el("div.folds", null,
        fold("Why am I asked?", facts(sheet.why), el("p", null, button("rule", "Make a rule of it...", "", () => this.on.rule(sheet.rule)))),
        fold(texts.all_reach, facts(sheet.depth), el("p.none", null, `session ${sheet.session}`)),
        sheet.then.length > 0 && fold(`What comes next (${sheet.then.length})`, el("ol.then", null, sheet.then.map((t) => el("li", null, t))))),
    ];
  }

  // group are the waiting requests of the one that is looked at. Group ids are the
  // agents' own, so only within one session do they mean anything.
  group() {
    const r = this.row();
    if (!r || !r.group) return [];
    return [...this.rows.values()].filter((o) => o.group === r.group && o.session === r.session && !(this.views.get(o.id) || {}).sent);
  }

  // grouped reports whether the answers are for a group as well. Once they are, they stay so: an agent that adds
  // to its group, or withdraws from it, moves no answer, takes no text, and begins no wait anew.
  grouped() {
    const view = this.view();
    if (view && this.group().length > 1) view.grouped = true;
    return !this.panel && !!view && !!view.grouped;
  }

  writing() {
    const e = document.activeElement;
    return !!e && (e.tagName === "TEXTAREA" || (e.tagName === "INPUT" && e.type === "text")) && this.answers.contains(e);
  }

  // drawAnswers draws the answers anew if what they are about has changed. Whatever draws
  // over a text that is being written, but the person's own key or click as it happens: keys
  // that follow are still that text's.
  drawAnswers(force) {
    const shape = this.shape();
    if (shape !== this.drawn || force) {
      const same = shape === this.drawn;
      if (this.writing() && !same && !byPerson()) {
        this.guard.textGone(performance.now());
        if (this.tomb) this.drawDetail();
      }
      if (!same || !this.writing()) {
        const held = this.guard.writing() && !this.tomb;
        fill(this.answers, this.said, held ? this.panels.held() : this.answerable() && this.words ? this.panels.draw(this.view()) : null);
        this.said.textContent = "";
        this.answers.hidden = this.answers.children.length < 2 && !this.tomb;
        const first = (byPerson() || this.asked) && this.answers.querySelector("[data-first]");
        if (first) first.focus();
      }
      this.drawn = this.shape(); // a text that has gone changes it
    }
    this.look();
  }

  shape() {
    const view = this.view();
    return [this.current, view && view.version, view && !!view.sheet, view && view.sent, this.panel && this.panel.serial, this.grouped(), !!this.tomb, this.guard.writing()].join(" ");
  }

  // show puts a panel in the place of the answers; null brings them back. asked says that a
  // person asked for it, and it comes only now: it takes the focus.
  show(panel, asked) {
    if (panel !== this.panel && this.view()) this.view().asking = null;
    const together = this.panel && this.panel.kind === "group";
    this.panel = panel;
    if (panel) panel.serial = ++this.serial;
    this.asked = !!asked;
    if (together || (panel && panel.kind === "group")) {
      this.drawDetail();
      this.detail.scrollTop = 0;
    }
    this.drawAnswers();
    this.asked = false;
    this.scrolled();
  }

  back() { this.show(null); this.detail.focus({ preventScroll: true }); }

  // What has been on the screen.

  // scrolled counts the blocks that have been on the screen, one after the other and each
  // from its first line to its last: what was jumped over was not.
  scrolled() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      const state = this.panel && this.panel.kind === "group" ? this.panel : this.view();
      if (!state || this.root.hidden || document.hidden) return;
      const s = sight(this.detail, this.main);
      const blocks = this.detail.querySelectorAll("[data-block]");
      while (state.seen < blocks.length && !("closed" in blocks[state.seen].dataset)) {
        const r = blocks[state.seen].getBoundingClientRect();
        state.upto = cover(r, s, state.upto);
        if (r.height === 0 || state.upto < r.height - 1) break;
        state.seen++;
        state.upto = 0;
      }
      state.all = blocks.length > 0 && state.seen >= blocks.length;
      if (state === this.panel) this.panels.seen(state);
    });
  }

  forgetSeen() {
    for (const v of [...this.views.values(), this.panel, ...this.answers.querySelectorAll("[data-must]")]) {
      if (v) Object.assign(v, { seen: 0, upto: 0, all: false });
    }
    this.scrolled();
  }

  // unseen says how much of a request has never been on the screen.
  unseen(view) {
    const asks = [];
    if (!view.all) asks.push(texts.unread);
    if (view.sheet.cut && !view.whole) asks.push(texts.was_cut);
    return asks;
  }

  // answer gives one of the choices.
  answer(choice, e, text) {
    const view = this.answerable();
    if (!view || !this.accept(e)) return;
    if (choice.writes && text === undefined) return this.show({ kind: "text", choice });
    const decide = { id: this.current, decision: choice.decision };
    if (choice.mode) decide.mode = choice.mode;
    if (choice.interrupt) decide.interrupt = true;
    if (text) decide.feedback = text;
    if (choice.decision === "allow") {
      decide.scope = "once";
      const asks = this.unseen(view);
      if (view.sheet.unshown) asks.push(said("unshown", view.sheet.unshown)); // remembering it says so in its panel
      if (asks.length && !(this.panel && this.panel.kind === "confirm")) return this.show({ kind: "confirm", asks, choice }, true);
    }
    this.send(decide);
  }

  // send answers, and only this goes on to the next request by itself.
  async send(decide) {
    const ids = decide.ids || [decide.id];
    const edited = this.views.get(decide.id);
    const text = decide.decision === "allow" && edited && edited.args !== null ? edited.args : "";
    if (text && edited.sheet.digest) decide.plan_digest = edited.sheet.digest; // the answer is to what was shown
    const all = [...this.rows.keys()];
    const from = all.indexOf(this.current);
    for (const id of ids) {
      if (!this.views.has(id)) this.views.set(id, { sheet: null, args: null, draft: "", version: ++this.serial });
      this.views.get(id).sent = true;
    }
    const open = (id) => !(this.views.get(id) || {}).sent;
    this.select(all.slice(from + 1).find(open) || all.find(open) || "");
    const { problems } = await this.channel.ask("decide", text ? { answer: decide, text } : { answer: decide }).catch((e) => ({ problems: [e.message] }));
    if (!problems.length) return; // its end comes as an event
    for (const id of ids) {
      const v = this.views.get(id);
      if (v) v.sent = false;
    }
    this.on.say(problems.join("; "));
    if (!this.current && !this.tomb && this.rows.size) this.select([...this.rows.keys()][0]);
    this.drawAnswers();
    this.refuse(problems.join("; "));
  }

  async full() {
    const id = this.current;
    const view = this.view();
    if (!view || !view.sheet || !view.sheet.cut || view.whole) return;
    const full = await this.channel.ask("full", view.args !== null ? { id, text: view.args } : { id }).catch((e) => this.refuse(e.message));
    if (!full) return;
    Object.assign(view, { ...UNREAD, whole: full.lines, version: ++this.serial });
    if (this.current === id && !this.tomb) this.draw();
  }

  // preview asks what becomes of an edit. Until that is known nothing is answered: what is on
  // the screen is the old thing, and whoever has edited it means the new one. Its result is
  // for the panel that asked, and null if that has gone, or is written in again.
  async preview(params) {
    const id = this.current, view = this.view(), panel = this.panel, asking = {};
    view.asking = asking;
    this.look();
    const result = await this.channel.ask("preview", { id, ...params }).catch((e) => {
      if (this.panel === panel) this.refuse(e.message);
    });
    if (view.asking === asking) view.asking = null;
    this.look();
    if (this.current !== id || this.tomb || this.panel !== panel || this.views.get(id) !== view) return null;
    if (result && this.writing()) {
      this.refuse("You were writing when the preview came: ask for it again.");
      return null;
    }
    return result;
  }

  // revised shows what edited arguments make of the request, in its place.
  async revised(text) {
    const view = this.view();
    if (!view || view.asking || !text.trim()) return this.refuse(view && view.asking ? texts.edit_pending : "Not JSON: it is empty.");
    view.draft = text;
    const result = await this.preview({ text });
    if (!result) return;
    Object.assign(view, { original: view.original || view.sheet, sheet: result.sheet, args: text, ...UNREAD, version: ++this.serial });
    this.select(this.current);
    this.detail.focus({ preventScroll: true });
  }

  restore() {
    const view = this.view();
    if (!view || view.args === null || view.sent) return;
    Object.assign(view, { sheet: view.original, original: null, args: null, draft: "", ...UNREAD, version: ++this.serial });
    this.select(this.current);
    this.refuse(texts.restored);
  }

  // meant is what a key does as things are: that of a button that stands below the request, or of another denial.
  // Alone are those that answer by themselves, with no text or panel before it.
  meant(key) {
    const p = this.panel, where = p ? ".answers button" : ".one button";
    if (!this.words || this.root.hidden || key.length > 1) return null;
    const b = [...this.root.querySelectorAll(where)].find((b) => b.getAttribute("aria-keyshortcuts") === key);
    if (b) return { act: b.act, answers: "answer" in b.dataset || key === "A", alone: "answer" in b.dataset && !("writes" in b.dataset), button: b };
    const choice = !p && this.answerable() && this.words.denials.find((c) => c.key === key);
    if (choice) return { act: (e) => this.answer(choice, e), answers: true, alone: !choice.writes };
    if (!p && key === this.words.remember.key) return { act: () => this.panels.openRemember() }; // which says why not
    const scope = p && p.kind === "remember" && this.words.scopes.find((s) => s.key === key);
    return scope ? { act: () => this.show(Object.assign(p, { scope, focus: "scope" })) } : null;
  }

  // noteKey tells the guard of a key that may be one of a text: whether it answers as things are, or moves.
  noteKey(e, field) {
    if (!typing(e) || (this.guard.held() && e.key === "Enter")) return;
    const meant = e.key === "Enter" ? ["BUTTON", "SUMMARY"].includes(e.target.tagName) : "jk ".includes(e.key) || (this.meant(e.key) || {}).answers;
    if (field) this.guard.wrote(performance.now());
    else this.guard.key(performance.now(), e.timeStamp, meant);
    this.mark();
  }

  // alone has a letter answer once no other key has followed it: it may begin a text that is meant for elsewhere.
  alone(e, button) {
    if (button) button.classList.add("pressed");
    this.lone = setTimeout(() => {
      this.notAlone();
      const meant = this.meant(e.key);
      if (meant) meant.act(e);
    }, LONE);
  }

  // notAlone ends that, and reports whether there was such a letter.
  notAlone() {
    const was = this.lone;
    clearTimeout(was);
    this.lone = 0;
    this.answers.querySelectorAll(".pressed").forEach((b) => b.classList.remove("pressed"));
    return !!was;
  }

  key(e) {
    const field = e.target.tagName === "TEXTAREA" || e.target.tagName === "SELECT" || (e.target.tagName === "INPUT" && e.target.type === "text");
    this.noteKey(e, field);
    if (!e.repeat && this.notAlone() && typing(e)) this.refuse(texts.too_soon);
    if (e.ctrlKey || e.altKey || e.metaKey || composing(e) || this.root.hidden) return;
    if (this.guard.held()) {
      const lets = !e.repeat && (e.key === "Escape" || (e.key === "Enter" && !this.guard.writing()));
      if (lets || e.key === "Enter" || e.key === " ") e.preventDefault();
      return lets && this.goOn(e, e.key === "Enter" ? "enter" : "escape");
    }
    if (e.key === "Escape") {
      if (this.panel) this.back();
      else if (field) e.target.blur();
      else this.restore();
      return;
    }
    if (field) {
      if (e.key !== "Enter" || e.target.dataset.enter === undefined) return;
      e.preventDefault();
      return this.panels.entered(e);
    }
    const meant = this.detail.offsetParent && this.meant(e.key);
    if (meant) {
      e.preventDefault();
      return !e.repeat && (meant.alone ? this.alone(e, meant.button) : meant.act(e));
    }
    if (this.panel && this.panel.kind === "remember" && e.key.length === 1 && e.key !== " ") return;
    const by = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[e.key];
    if (by && e.target.type !== "radio") {
      e.preventDefault();
      return this.move(by);
    }
    const page = { PageDown: 0.9, PageUp: -0.9, " ": e.target.tagName === "BUTTON" || e.target.tagName === "SUMMARY" ? 0 : 0.9 }[e.key];
    if (!page) return;
    e.preventDefault();
    this.detail.scrollBy(0, page * this.detail.clientHeight);
  }
}
