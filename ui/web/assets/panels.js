// What stands below a request: the three choices, and what opens in their place.

import { button, el, put, said, texts } from "./dom.js";

const MAX_GROUP = 20; // more are answered by pattern or one by one

export class Panels {
  constructor(view) { this.v = view; }

  // draw makes what stands there: each kind of panel has a method of its name.
  draw(view) { return this.v.panel ? this[this.v.panel.kind](this.v.panel) : this.choices(view); }

  // held stands where a text was being written.
  held() {
    return el("div.panel.tomb", { role: "alert" }, el("p", null, texts.text_gone),
      el("div.row", null, button("next", "Go on", "Esc", (e) => this.v.goOn(e, "click"))));
  }

  // answer is a button that answers.
  answer(kind, words, key, click, more) { return button(kind, words, key, click, { "data-answer": true, ...more }); }

  back() { return button("plain", texts.back, "Esc", () => this.v.back()); }

  // choices are the three: deny, remember, allow once. Deny and allow stand apart.
  choices(view) {
    const { deny, allow, remember, others } = this.v.words;
    const edited = view.args !== null;
    return [
      this.v.grouped() && el("div.together", null, this.answer("plain", "Deny all", "D", (e) => this.groupDenied(e)),
        button("plain", "Look at all", "A", () => this.openGroup()), el("span.many", null, said("group", this.v.group().length))),
      el("div.bar", null,
        this.answer("deny", deny.words, deny.key, (e) => this.v.answer(deny, e), { title: deny.title }),
        el("div.more", null,
          button("plain", others.words, others.key, () => this.v.show({ kind: "denials" })),
          view.sheet.args && button("plain", "Edit...", "e", () => this.openEdit()),
          !edited && view.sheet.offers.length > 0 && button("plain", remember.words, remember.key, () => this.openRemember())),
        this.answer("allow", edited ? "Allow the edited call once" : allow.words, allow.key, (e) => this.v.answer(allow, e), { title: allow.title })),
    ];
  }

  denials() {
    return el("div.panel", { role: "group", "aria-label": texts.other_denials },
      el("ul.menu", null, this.v.words.denials.map((c) => el("li", null,
        this.answer("deny", c.words, c.key, (e) => this.v.answer(c, e), { "data-writes": c.writes }), el("span", null, c.title)))),
      el("div.row", null, this.back()));
  }

  text(p) {
    return el("div.panel", null,
      el("label", { for: "feedback" }, said("write", p.choice.words)),
      el("input", { id: "feedback", type: "text", maxlength: "4000", autocomplete: "off", "data-first": true, "data-enter": true }),
      el("div.row", null, this.back(), this.answer("deny", p.choice.words, "Enter", (e) => this.entered(e))));
  }

  confirm(p) {
    return el("div.panel", { role: "alertdialog", "aria-label": "Not all was seen" }, el("ul.asks", { "data-must": true }, p.asks.map((a) => el("li", null, a))),
      el("div.row.apart", null, button("plain", texts.back, "Esc", () => this.v.back(), { "data-first": true }),
        this.answer("allow", "Allow once, unseen", p.choice.key, (e) => this.v.answer(p.choice, e))));
  }

  openEdit() {
    const view = this.v.answerable();
    if (view && view.sheet.args) this.v.show({ kind: "edit", text: view.draft || view.sheet.args });
  }

  edit(p) {
    const text = el("textarea", { id: "arguments", "data-first": true, spellcheck: "false", autocomplete: "off", rows: "8" });
    text.value = p.text;
    return el("div.panel", null, el("label", { for: "arguments" }, texts.arguments), text,
      el("div.row", null, this.back(), button("plain", "Preview the edited call", "", () => this.v.revised(text.value))));
  }

  // Remembering: what, for whom, and the sentence that holds from now on.

  openRemember() {
    const view = this.v.answerable();
    if (!view) return;
    if (view.args !== null || !view.sheet.offers.length) return this.v.refuse(view.args !== null ? texts.once_edited : texts.once_each);
    this.v.show({ kind: "remember", offers: [...view.sheet.offers], at: 0, scope: this.v.words.scopes[0], deny: false });
  }

  remember(p) {
    const o = p.offers[p.at];
    const again = (change) => { Object.assign(p, change); this.v.show(p); };
    const radio = (name, checked, words, key, choose) => el("label", null,
      el("input", { type: "radio", name, checked, "data-first": checked && name === p.focus, change: choose }), el("span", null, words), key && el("kbd", null, key));
    const value = o.kind && el("input", { type: "text", id: "pattern", value: o.value, autocomplete: "off", spellcheck: "false", "data-enter": true });
    return el("div.panel.remember", null,
      el("div.columns", null,
        el("fieldset", null, el("legend", null, "What"), p.offers.map((offer, i) => radio("offer", i === p.at, offer.text, "", () => again({ at: i, focus: "offer" }))),
          value && el("div.row", null, el("label", { for: "pattern" }, "Change it"), value, button("plain", "Show what it covers", "", () => this.editPattern(p, value.value)))),
        el("fieldset", null, el("legend", null, "For whom"), this.v.words.scopes.map((s) => radio("scope", s === p.scope, s.words, s.key, () => again({ scope: s, focus: "scope" })))),
        el("fieldset", null, el("legend", null, "And then"),
          radio("effect", !p.deny, "allow it", "", () => again({ deny: false, focus: "effect" })), radio("effect", p.deny, "deny it", "", () => again({ deny: true, focus: "effect" })))),
      el("div.panel", { "data-must": true }, el("p.sentence", { role: "status" }, (p.deny ? o.deny : o.allow)[p.scope.scope]),
        el("ul.notes", null, (p.deny ? o.deny_notes : o.notes).map((n) => el(n.careful ? "li.careful" : "li", null, n.text)))),
      el("div.row.apart", null, this.back(), p.deny
        ? this.answer("deny", o.deny_words, "N", (e) => this.remembered(p, e))
        : this.answer(p.scope.scope === "session" ? "allow" : "lasting", o.allow_words, "y", (e) => this.remembered(p, e))));
  }

  async editPattern(p, value) {
    document.activeElement.blur(); // what goes on being written is not what was asked about
    const result = await this.v.preview({ pattern: { kind: p.offers[p.at].kind, value } });
    if (result) this.v.show(Object.assign(p, { offers: [...p.offers, result.pattern], at: p.offers.length, focus: "offer" }), true);
  }

  remembered(p, e) {
    const view = this.v.answerable();
    if (!view || !this.v.accept(e)) return;
    const o = p.offers[p.at];
    const asks = p.deny ? [] : this.v.unseen(view);
    if (asks.length) return this.v.refuse(asks.join(" "));
    const decide = { id: this.v.current, decision: p.deny ? "deny" : "allow", scope: p.scope.scope };
    if (o.kind) decide.pattern = { kind: o.kind, value: o.value };
    this.v.send(decide);
  }

  // Groups: allowed only after every member was on the screen.

  groupDenied(e) {
    const ids = this.v.panel ? this.v.panel.ids : this.v.group().map((r) => r.id);
    if (ids.length > 1 && this.v.accept(e)) this.v.send({ ids, decision: "deny" });
  }

  async openGroup() {
    const group = this.v.group();
    if (group.length < 2) return;
    if (group.length > MAX_GROUP) {
      return this.v.refuse(said("group_large", group.length));
    }
    const ids = group.map((r) => r.id);
    if (ids.some((id) => (this.v.views.get(id) || { args: null }).args !== null)) {
      return this.v.refuse(texts.group_edited);
    }
    const current = this.v.current;
    await Promise.all(ids.map((id) => this.v.load(id)));
    for (const id of ids) { // one that is being loaded already
      while (this.v.views.get(id) && !this.v.views.get(id).sheet && !this.v.views.get(id).problem) await new Promise((done) => setTimeout(done, 20));
    }
    if (this.v.current !== current || this.v.tomb || this.v.panel) return;
    this.v.show({ kind: "group", ids, opened: new Set(), seen: 0, upto: 0, all: false }, true);
  }

  // members are all of a group, one below the other. What changes something is opened by
  // hand, one after the other.
  members(p) {
    return p.ids.map((id, i) => {
      const view = this.v.views.get(id);
      if (!view || !view.sheet) return el("section.member", { "data-block": true, "data-closed": true }, view ? view.problem : "It has ended.");
      const closed = view.sheet.changes && !p.opened.has(id);
      const ahead = p.ids.slice(0, i).some((other) => this.v.views.get(other)?.sheet?.changes && !p.opened.has(other));
      return el("section.member", null, el("p.number", null, `${i + 1} of ${p.ids.length}`),
        closed ? el("p", { "data-block": true, "data-closed": true }, el("b", null, view.sheet.title), " ",
          !ahead && button("plain", "Open: it can change things", "", () => { p.opened.add(id); this.v.drawDetail(); }))
          : this.v.sheet(view.sheet, view));
    });
  }

  group(p) {
    return el("div.panel", null, el("p.todo"),
      el("div.bar", null, this.answer("deny", `Deny all ${p.ids.length}`, "D", (e) => this.groupDenied(e)), el("div.more", null, this.back()),
        this.answer("allow", `Allow all ${p.ids.length}, once`, "A", (e) => this.groupAllowed(p, e), { "data-blocked": "true" })));
  }

  // seen says what is left to be looked at, and lets the group be allowed after that.
  seen(p) {
    // A view that is gone, or not there yet, has not been looked at.
    const cut = p.ids.some((id) => { const v = this.v.views.get(id); return !v || !v.sheet || v.sheet.cut || v.sheet.unshown; });
    const todo = this.v.answers.querySelector(".todo");
    const b = this.v.answers.querySelector("button.allow");
    if (!todo || !b) return;
    p.whole = p.all && !cut;
    const text = p.whole ? "All of them have been on the screen." : cut ? texts.group_unshown : "Scroll through all of them; what can change things is opened first.";
    put(todo, "textContent", text);
    b.dataset.blocked = String(!p.whole);
    this.v.mark();
  }

  groupAllowed(p, e) {
    if (!p.whole) return this.v.refuse("Not all of them have been on the screen.");
    if (this.v.accept(e)) this.v.send({ ids: p.ids, decision: "allow" });
  }

  // entered is Enter in a text field, or the button beside it.
  entered(e) {
    const p = this.v.panel;
    if (p && p.kind === "text") this.v.answer(p.choice, e, this.v.answers.querySelector("#feedback").value);
    else if (p && p.kind === "remember") this.editPattern(p, this.v.answers.querySelector("#pattern").value);
  }
}
