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

// button is one with its key.
export function button(name, words, key, click, more) {
  return el(`button.${name}`, { type: "button", "aria-keyshortcuts": key === "Esc" ? "Escape" : key, click, ...more },
    el("span", null, words), key && el("kbd", { "aria-hidden": "true" }, key));
}

// span is a time as a person counts it: 4:05, or 1h02m. What is over is 0:00.
export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  if (s >= 3600) return `${Math.floor(s / 3600)}h${two(Math.floor(s / 60) % 60)}m`;
  return `${Math.floor(s / 60)}:${two(s % 60)}`;
}

// clock is a time of day.
export function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

// countdown is an element that tick keeps right. A brief one says nothing before the last
// minute.
export function countdown(expires, brief) {
  const e = el("span.countdown", { "data-expires": expires, "data-brief": brief });
  tickOne(e);
  return e;
}

function tickOne(e) {
  const left = Number(e.dataset.expires) - Date.now();
  const text = e.dataset.brief !== undefined && left > 60000 ? "" : `${span(left)} left`;
  if (e.textContent !== text) e.textContent = text;
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

export function fold(title, ...children) {
  return el("details.fold", null, el("summary", null, title), ...children);
}

// sight is from where to where of the window what these scroll can be seen.
export function sight(...scrolls) {
  let top = 0, bottom = window.innerHeight;
  for (const s of scrolls) {
    if (getComputedStyle(s).overflowY === "visible") continue;
    const r = s.getBoundingClientRect();
    top = Math.max(top, r.top);
    bottom = Math.min(bottom, r.bottom);
  }
  return [top, bottom];
}

// cover is how far down from its top an element has been on the screen, without a gap.
export function cover(r, top, bottom, upto) {
  return r.top + upto >= top - 1 ? Math.max(upto, Math.min(bottom, r.bottom) - r.top) : upto;
}

// stands reports whether all that says what an answer means is on the screen, of what root
// shows. What is too tall for that has been on it line by line.
export function stands(root, ...around) {
  let all = true;
  for (const e of root.querySelectorAll("[data-must]")) {
    const [top, bottom] = sight(root, ...around);
    const r = e.getBoundingClientRect();
    e.upto = cover(r, top, bottom, e.upto || 0);
    if (r.height > bottom - top ? e.upto < r.height - 1 : r.top < top - 1 || r.bottom > bottom + 1) all = false;
  }
  return all;
}
