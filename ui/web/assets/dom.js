// How elements are made here. Text goes into text nodes and nowhere else: there is
// no function in this program that takes markup.

// el makes an element: el("p.note", {title: "x"}, "text", child). A function among the
// attributes is a listener.
export function el(name, attributes, ...children) {
  const [tag, ...classes] = name.split(".");
  const e = document.createElement(tag);
  if (classes.length) e.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") e.addEventListener(key, value);
    else if (value === true) e.setAttribute(key, "");
    else if (value !== undefined && value !== null && value !== false) e.setAttribute(key, String(value));
  }
  return fill(e, ...children);
}

// fill puts children in the place of those that an element has. What is null or false
// is none.
export function fill(e, ...children) {
  e.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false && c !== ""));
  return e;
}

// texts are what the screen of `sandgate approve` says too, as the server has them.
export const texts = {};

// said is one of them with its number or name.
export function said(name, part) { return (texts[name] || "").replace("{}", () => part); }

// put sets a property to what it should be. What is so already is left alone: a browser
// takes each write for a change.
export function put(e, property, value) {
  if (e[property] !== value) e[property] = value;
}

// button is one with its key. What it does, act, its key does as well.
export function button(name, words, key, act, more) {
  return Object.assign(el(`button.${name}`, { type: "button", "aria-keyshortcuts": key === "Esc" ? "Escape" : key, click: act, ...more },
    el("span", null, words), key && el("kbd", { "aria-hidden": "true" }, key)), { act });
}

// composing: a key goes to an input method, which makes letters of it. That it ends a word is no Enter;
// one browser sends that key only after the word, with this number.
export function composing(e) { return e.isComposing || e.keyCode === 229; }

// span is a time as a person counts it: 4:05, or 1h02m. What is over is 0:00.
export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  if (s >= 3600) return `${Math.floor(s / 3600)}h${two(Math.floor(s / 60) % 60)}m`;
  return `${Math.floor(s / 60)}:${two(s % 60)}`;
}

// clock is a time of day. To make the format takes longer than all else of a request.
const CLOCK = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
export function clock(ms) { return CLOCK.format(ms); }

// countdown is an element that tick keeps right. A brief one says nothing before the last
// minute.
export function countdown(expires, brief) {
  const e = el("span.countdown", { "data-expires": expires, "data-brief": brief });
  tickOne(e);
  return e;
}

function tickOne(e) {
  const left = Number(e.dataset.expires) - Date.now();
  put(e, "textContent", e.dataset.brief !== undefined && left > 60000 ? "" : `${span(left)} left`);
  e.classList.toggle("soon", left < 60000);
}

export function tick() { document.querySelectorAll("[data-expires]").forEach(tickOne); }

// CHUNK is how many lines of a content are one block: what has been on the screen is
// counted by blocks.
const CHUNK = 8;

// content is lines of a presentation.
export function content(lines, type) {
  const chunks = [];
  for (let i = 0; i < lines.length; i += CHUNK) {
    chunks.push(el("span.chunk", { "data-block": true }, lines.slice(i, i + CHUNK).map((l) => el(l.how ? `span.line.${l.how.replaceAll(" ", ".")}` : "span.line", null,
      l.parts.map((p) => (p.k || p.r ? el([`span`, p.k, p.r && "risk"].filter(Boolean).join("."), null, p.t) : p.t)), "\n"))));
  }
  return el(`pre.content.${type}${lines.length > 400 ? ".long" : ""}`, { tabindex: "0", role: "region", "aria-label": "What would happen" }, chunks);
}

export function facts(list) {
  return list.length > 0 && el("dl.facts", null, list.map((f) => [el("dt", null, f.label), el("dd", null, f.text)]));
}

export function fold(title, ...children) { return el("details.fold", null, el("summary", null, title), ...children); }

// watch calls seen when what is on the screen may have moved, and moved when the window was
// resized or came back, until the signal ends it.
export function watch(seen, moved, signal) {
  // Of what elements do the document alone hears: the focus of a button is not the window's.
  const on = (target, events, f) => events.forEach((e) => target.addEventListener(e, f, { capture: target === document, signal }));
  on(document, ["pointerdown", "scroll"], seen);
  on(window.visualViewport, ["resize", "scroll"], seen);
  on(window, ["resize", "focus"], moved);
  on(document, ["visibilitychange"], moved);
}

// sight is the part of the window in which what these scroll can be seen: what a person has
// zoomed in on, and not what lies around it.
export function sight(...scrolls) {
  const v = window.visualViewport;
  let [top, left, bottom, right] = [v.offsetTop, v.offsetLeft, v.offsetTop + v.height, v.offsetLeft + v.width];
  for (const s of scrolls) {
    if (getComputedStyle(s).overflowY === "visible") continue;
    const r = s.getBoundingClientRect();
    [top, left, bottom, right] = [Math.max(top, r.top), Math.max(left, r.left), Math.min(bottom, r.bottom), Math.min(right, r.right)];
  }
  return { top, left, bottom, right };
}

// where is the place of an element on the screen: what is pressed there is that element.
export function where(e) {
  const r = e.getBoundingClientRect(), v = window.visualViewport;
  return [...[r.left, r.top, r.right, r.bottom, v.offsetLeft, v.offsetTop].map(Math.round), v.scale.toFixed(2)].join(" ");
}

function across(r, s) { return r.left >= s.left - 1 && r.right <= s.right + 1; }

// cover is how far down from its top an element has been on the screen, without a gap.
export function cover(r, s, upto) {
  return r.top + upto >= s.top - 1 && across(r, s) ? Math.max(upto, Math.min(s.bottom, r.bottom) - r.top) : upto;
}

// stands reports whether all that says what an answer means is on the screen, of what root
// shows. What is too tall for that has been on it line by line.
export function stands(root, ...around) {
  let all = true;
  for (const e of root.querySelectorAll("[data-must]")) {
    const s = sight(root, ...around);
    const r = e.getBoundingClientRect();
    e.upto = cover(r, s, e.upto || 0);
    if (r.height > s.bottom - s.top ? e.upto < r.height - 1 : r.top < s.top - 1 || r.bottom > s.bottom + 1 || !across(r, s)) all = false;
  }
  return all;
}
