// The list of what waits. Only the rows that can be seen are elements, so that ten thousand
// cost what ten do, and only the current one is a stop of the Tab key.

import { countdown, el, fill, put } from "./dom.js";

const ROW_REM = 4.25; // as page.css has it

export class List {
  constructor(choose) {
    this.choose = choose;
    this.rows = [];
    this.items = new Map(); // those on the screen, by id
    this.current = "";
    this.list = el("ol.list", { "aria-label": "Waiting requests" });
    this.root = el("div.scroll", { scroll: () => this.draw() }, this.list);
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  height() { return ROW_REM * parseFloat(getComputedStyle(document.documentElement).fontSize); }

  // show takes the rows, oldest first, and the id of the current one.
  show(rows, current) {
    const moved = current !== this.current;
    Object.assign(this, { rows, current });
    this.draw(moved ? rows.findIndex((r) => r.id === current) : -1);
  }

  // draw brings the row at an index into sight. The browser is asked where things are before
  // anything is changed: asked after, it would lay out the page for that alone.
  draw(reveal = -1) {
    const focused = this.list.contains(document.activeElement);
    const h = this.height(), room = this.root.clientHeight, was = this.root.scrollTop;
    let top = Math.max(0, Math.min(was, h * this.rows.length - room));
    if (reveal >= 0) top = Math.min(reveal * h, Math.max(top, (reveal + 1) * h - room));
    put(this.list.style, "height", `${h * this.rows.length}px`);
    if (reveal >= 0 && top !== was) this.root.scrollTop = top;
    const first = Math.max(0, Math.floor(top / h) - 3);
    const last = Math.min(this.rows.length, Math.ceil((top + room) / h) + 3);
    const items = new Map(); // those that stay are not made again: a flood draws a few rows, and not all
    const list = this.rows.slice(first, last).map((r, i) => {
      const shape = JSON.stringify([r, r.id === this.current]);
      let item = this.items.get(r.id);
      if (!item || item.shape !== shape) item = { shape, li: this.row(r) };
      items.set(r.id, item);
      put(item.li, "ariaSetSize", String(this.rows.length));
      put(item.li, "ariaPosInSet", String(first + i + 1));
      put(item.li.style, "top", `${(first + i) * h}px`);
      return item.li;
    });
    this.items = items;
    if (list.length === this.list.children.length && list.every((li, i) => li === this.list.children[i])) return;
    fill(this.list, list);
    if (focused) this.focus();
  }

  row(r) {
    return el("li", null, el("button.row", {
      type: "button", "data-id": r.id, tabindex: r.id === this.current ? "0" : "-1",
      "aria-current": r.id === this.current ? "true" : null, click: (e) => this.choose(r.id, e),
    }, el(`span.kind.${r.kind}`, { "aria-label": { run: "run", change: "change" }[r.kind] || "use" }, { run: "$", change: "±" }[r.kind] || "→"),
    el("span.title", null, r.title), el("span.under", null, el("span.agent", null, r.agent), countdown(r.expires, true))));
  }

  focus() {
    const b = this.list.querySelector("[aria-current]");
    if (b) b.focus({ preventScroll: true });
  }
}
