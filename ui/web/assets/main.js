import { Board } from "./board.js";
import { Channel, signIn, signOut } from "./channel.js";
import { button, el, fill, put, tick } from "./dom.js";
import { Requests } from "./requests.js";

const main = document.getElementById("main");
const tabs = document.getElementById("tabs");
const link = document.getElementById("link");
const own = document.getElementById("own");
const notice = document.getElementById("notice");
let page = null; // what is signed in: { channel, view, board, gone }

// say puts one line below everything. It never takes more room: what is above must
// not move under a pointer.
function say(text, ms) { notice.textContent = notice.title = text; clearTimeout(say.timer); if (ms) say.timer = setTimeout(say, ms, ""); }

// signedOut shows how to get in. It loads nothing: the port may be another program's.
function signedOut(problem) {
  document.body.dataset.link = "out";
  link.textContent = "not signed in";
  fill(tabs);
  fill(own);
  fill(main, el("section.plain", null,
    el("h2", null, "This page opens by a link"),
    problem && el("p.careful", { role: "alert" }, problem),
    el("p", null, "In a terminal of this machine, run"),
    el("pre", null, "sandgate approve --web"),
    el("p", null, "and open the link that it prints. A link works once, within five minutes, and signs out every other browser."),
    el("p.none", null, "Do not load this page again: after sandgate has ended, another program may answer here.")));
}

function end(why) {
  if (page) {
    page.gone.abort();
    page.view.stop();
    page.board.stop();
    page.channel.close();
  }
  page = null;
  document.title = "sandgate";
  signedOut(why);
}

// callOut tells a person who looks elsewhere how many wait, and nothing that an agent
// wrote.
function callOut(n) {
  if (document.visibilityState !== "hidden" || !("Notification" in window) || Notification.permission !== "granted") return;
  new Notification("sandgate", { body: `${n} waiting`, tag: "sandgate" });
}

function drawOwn(login) {
  const ask = "Notification" in window && Notification.permission === "default";
  fill(own,
    ask && button("plain", "Notify me", "", async () => { await Notification.requestPermission(); drawOwn(login); }, { title: "say so when a request comes and this page is not in sight" }),
    button("plain", "Sign out", "", async () => { await signOut(login.key); end("You have signed out."); }));
}

async function start() {
  const login = await signIn();
  if (!login.key) return end(login.problem);
  const channel = new Channel(login, {
    state(state, why) {
      if (state === "out") return end(why);
      document.body.dataset.link = state;
      link.textContent = { open: "connected", lost: "connection lost, trying again" }[state];
      view.linked(state === "open");
    },
    hello(words) {
      view.hello(words);
      if (tabs.children.length) return;
      fill(tabs, ["requests", ...words.boards].map((name) => el("button", { type: "button", "data-tab": name, click: () => turn(name) }, name[0].toUpperCase() + name.slice(1))));
      turn("requests");
    },
    events(list) { view.events(list); },
  });
  const gone = new AbortController();
  const view = new Requests(main, channel, gone.signal, {
    say,
    counted(n) {
      const tab = tabs.querySelector("[data-tab=requests]");
      if (tab) put(tab, "textContent", n ? `Requests (${n})` : "Requests");
      put(document, "title", n ? `(${n}) sandgate` : "sandgate");
    },
    fresh: callOut,
    rule(text) { turn("rules", { do: "rule.add", text }); },
  });
  const area = el("section.board", { hidden: true, tabindex: "-1", "aria-label": "Board" });
  main.append(area);
  const board = new Board(area, channel, gone.signal, say);
  page = { channel, view, board, gone };
  function turn(to, asked) {
    view.turn(to === "requests");
    area.hidden = to === "requests";
    for (const t of tabs.children) t.setAttribute("aria-pressed", String(t.dataset.tab === to));
    if (to === "requests") board.stop();
    else board.start(to, asked);
  }
  drawOwn(login);
  channel.open();
}

// A link that is opened in a page that is there already loads nothing: it signs in.
window.addEventListener("hashchange", () => {
  if (!location.hash) return;
  end("");
  start();
});

setInterval(() => {
  tick();
  if (page) { // a time that is told anew may take another line
    page.view.look();
    page.board.look();
  }
}, 1000);
start();
