// The channel to the server: questions and their answers, and events. It comes back
// by itself when it is lost.

const KEY = "sandgate-key";

function stored() {
  try { return localStorage.getItem(KEY) || ""; } catch { return ""; }
}

function store(key) {
  try { localStorage.setItem(KEY, key); } catch { /* then it is for this page's life */ }
}

// signIn trades the ticket of a link, if the address has one, for a cookie and a key.
// It returns the key, or "" with what went wrong.
export async function signIn() {
  const found = /^#ticket=([0-9a-f]+)$/.exec(location.hash);
  if (location.hash) history.replaceState(null, "", location.pathname); // it is not kept in the history
  if (!found) return { key: stored(), problem: "" };
  try {
    const r = await fetch("/v1/login", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ticket: found[1] }),
    });
    const body = await r.json();
    if (r.ok) {
      store(body.key);
      return { key: body.key, problem: "" };
    }
    // A link that was opened before, in this browser: the first time still holds.
    return { key: stored(), problem: body.error.message };
  } catch {
    return { key: "", problem: "the server does not answer" };
  }
}

// known asks whether a key still opens the channel: true, false, or null for no answer.
async function known(key) {
  try {
    const r = await fetch("/v1/login", { method: "GET", headers: { "Sandgate-Key": key } });
    return r.status === 401 ? false : r.ok ? true : null;
  } catch {
    return null;
  }
}

export class Channel {
  // on has: state("open" | "lost" | "out"), event(message).
  constructor(key, on) {
    this.key = key;
    this.on = on;
    this.last = 0;
    this.waiting = new Map();
    this.delay = 0;
  }

  open() {
    const socket = new WebSocket(`ws://${location.host}/v1/live`, ["sandgate.page", `sandgate.key.${this.key}`]);
    this.socket = socket;
    socket.addEventListener("open", () => {
      this.delay = 0;
      this.on.state("open");
    });
    socket.addEventListener("message", (m) => this.message(JSON.parse(m.data)));
    socket.addEventListener("close", () => this.lost());
  }

  message(m) {
    if (m.event) {
      this.on.event(m);
      return;
    }
    const waiting = this.waiting.get(m.answer);
    this.waiting.delete(m.answer);
    if (!waiting) return;
    if (m.problem) waiting.reject(Object.assign(new Error(m.problem), { code: m.code }));
    else waiting.resolve(m.result);
  }

  async lost() {
    this.socket = null;
    for (const w of this.waiting.values()) w.reject(new Error("the connection was lost; nothing is known of an answer"));
    this.waiting.clear();
    this.on.state("lost");
    const before = this.key;
    if (await known(before) === false) {
      this.key = stored(); // another tab may have signed in since
      if (this.key === before || !this.key) {
        this.on.state("out");
        return;
      }
    }
    this.delay = Math.min(5000, this.delay * 2 || 250);
    setTimeout(() => this.open(), this.delay);
  }

  // ask sends one question, and promises the result.
  ask(what, params) {
    return new Promise((resolve, reject) => {
      if (!this.socket || this.socket.readyState !== WebSocket.OPEN) {
        reject(new Error("there is no connection"));
        return;
      }
      this.last++;
      this.waiting.set(this.last, { resolve, reject });
      this.socket.send(JSON.stringify({ ask: this.last, do: what, params }));
    });
  }
}
