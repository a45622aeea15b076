// The channel to the server: questions and their answers, and events. It comes back
// by itself when it is lost, and only to the server that it was of.

const STORE = "sandgate";

function stored() {
  try { return JSON.parse(localStorage.getItem(STORE)) || {}; } catch { return {}; }
}

function store(login) {
  try { localStorage.setItem(STORE, JSON.stringify(login)); } catch { /* then it is for this page's life */ }
}

// signIn trades the ticket of a link, if the address has one, for a cookie, a key, and the
// proof by which the server is known again. Without a key it says what went wrong.
export async function signIn() {
  const found = /^#ticket=([0-9a-z]+)$/.exec(location.hash);
  if (location.hash) history.replaceState(null, "", location.pathname);
  if (!found) return { ...stored(), problem: "" };
  try {
    const r = await fetch("/v1/login", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ticket: found[1] }),
    });
    const body = await r.json();
    if (r.ok) {
      store(body);
      return { ...body, problem: "" };
    }
    // A link that was opened before, in this browser: the first time still holds.
    return { ...stored(), problem: body.error.message };
  } catch {
    return { problem: "The server does not answer." };
  }
}

// signOut ends the login, here and on the server.
export async function signOut(key) {
  store({});
  try { await fetch("/v1/login", { method: "DELETE", headers: { "Sandgate-Key": key } }); } catch { /* it has ended then */ }
}

// refused asks whether a key opens the channel no more. No answer says nothing of that.
async function refused(key) {
  const r = await fetch("/v1/login", { headers: { "Sandgate-Key": key } }).catch(() => ({}));
  return r.status === 401 || r.status === 421;
}

export class Channel {
  // on has: state("open" | "lost" | "out", why), hello(message), events(list).
  constructor(login, on) { Object.assign(this, { login, on, last: 0, waiting: new Map(), delay: 0, over: false }); }

  open() {
    if (this.over) return;
    const socket = new WebSocket(`ws://${location.host}/v1/live`, ["sandgate.page", `sandgate.key.${this.login.key}`]);
    Object.assign(this, { socket, proven: false });
    socket.addEventListener("message", (m) => this.message(JSON.parse(m.data)));
    socket.addEventListener("close", () => this.lost());
  }

  message(m) {
    if (!this.proven) {
      // Another program may have the port by now. It does not know the proof, and
      // nothing that it sends is shown.
      if (!m.hello || m.hello.proof !== this.login.proof) return this.end("Another program answers on the port of sandgate.");
      Object.assign(this, { proven: true, delay: 0 });
      this.on.hello(m.hello);
      return this.on.state("open");
    }
    if (m.events) return this.on.events(m.events);
    const waiting = this.waiting.get(m.answer);
    this.waiting.delete(m.answer);
    if (!waiting) return;
    if (m.problem) waiting.reject(Object.assign(new Error(m.problem), { code: m.code }));
    else waiting.resolve(m.result);
  }

  close() { this.over = true; this.socket?.close(); }

  // end is for good: nothing is loaded from this port again.
  end(why) {
    if (this.over) return;
    this.close();
    this.on.state("out", why);
  }

  async lost() {
    if (this.over) return;
    this.socket = null;
    for (const w of this.waiting.values()) w.reject(new Error("The connection was lost; nothing is known of an answer."));
    this.waiting.clear();
    this.on.state("lost");
    if (await refused(this.login.key)) {
      const again = stored(); // another tab may have signed in since
      if (again.key === this.login.key || !again.key) {
        return this.end("This browser is signed out: another link was opened, the login has ended, or sandgate was started again.");
      }
      this.login = again;
    }
    this.delay = Math.min(5000, this.delay * 2 || 250);
    setTimeout(() => this.open(), this.delay);
  }

  // ask sends one question, and promises the result.
  ask(what, params) {
    return new Promise((resolve, reject) => {
      if (!this.proven || !this.socket || this.socket.readyState !== WebSocket.OPEN) return reject(new Error("There is no connection."));
      this.last++;
      this.waiting.set(this.last, { resolve, reject });
      this.socket.send(JSON.stringify({ ask: this.last, do: what, params }));
    });
  }
}
