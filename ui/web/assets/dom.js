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

// span is a time as a person counts it: 4:05, or 1h02m. What is over is 0:00.
export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  if (s >= 3600) return `${Math.floor(s / 3600)}h${two(Math.floor(s / 60) % 60)}m`;
  return `${Math.floor(s / 60)}:${two(s % 60)}`;
}

// clock is a time of day.
export function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

// countdown is an element that tick keeps right.
export function countdown(expires) {
  const e = el("span.countdown", { "data-expires": expires });
  tickOne(e);
  return e;
}

function tickOne(e) {
  const left = Number(e.dataset.expires) - Date.now();
  e.textContent = `${span(left)} left`;
  e.classList.toggle("soon", left < 30000);
}

export function tick() { document.querySelectorAll("[data-expires]").forEach(tickOne); }

// content is lines of a presentation.
export function content(lines, kind) {
  return el(`pre.content.${kind}`, { tabindex: "0", "aria-label": "what would happen" },
    lines.map((l) => el(l.how ? `span.line.${l.how}` : "span.line", null,
      l.parts.map((p) => (p.k ? el(`span.${p.k}`, null, p.t) : p.t)), "\n")));
}

export function facts(list) {
  return el("dl.facts", null, list.map((f) => [
    el(f.careful ? "dt.careful" : "dt", null, f.label), el(f.careful ? "dd.careful" : "dd", null, f.text)]));
}
