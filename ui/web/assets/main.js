import { Channel, signIn } from "./channel.js";
import { el, fill, tick } from "./dom.js";
import { Activity } from "./activity.js";
import { Requests } from "./requests.js";

const main = document.getElementById("main");
const link = document.getElementById("link");
const notice = document.getElementById("notice");

// say puts one line below everything. It never takes more room: what is above must
// not move under a pointer.
function say(text) {
  notice.textContent = text;
  notice.title = text;
}

// signedOut shows how to get in.
function signedOut(problem) {
  document.body.classList.add("out");
  link.textContent = "not signed in";
  fill(main, el("section.plain", null,
    el("h2", null, "This page opens by a link"),
    problem && el("p.careful", null, problem),
    el("p", null, "In a terminal of this machine, run"),
    el("pre", null, "sandgate approve --web"),
    el("p", null, "and open the link that it prints. A link works once, within five minutes."),
    el("p", null, el("button", { type: "button", click: () => location.reload() }, "Try again"))));
}

async function start() {
  const { key, problem } = await signIn();
  if (!key) {
    signedOut(problem);
    return;
  }
  let view, activity;
  const channel = new Channel(key, {
    state(state) {
      document.body.dataset.link = state;
      link.textContent = { open: "connected", lost: "connection lost, trying again", out: "" }[state];
      if (state === "out") {
        view.stop();
        activity.stop();
        fill(document.getElementById("tabs"));
        signedOut(problem || "This browser is not known any more.");
        return;
      }
      view.linked(state === "open");
    },
    event(e) { view.event(e); },
  });
  const tab = (words, show) => el("button", { type: "button", click: () => show(), "aria-pressed": "false" }, words);
  const tabs = [tab("Requests", () => turn(0)), tab("Activity", () => turn(1))];
  view = new Requests(main, channel, say, (n) => fill(tabs[0], n ? `Requests (${n})` : "Requests"));
  const page = el("section.activity", { hidden: true, tabindex: "-1", "aria-label": "Activity" });
  main.append(page);
  activity = new Activity(page, channel, say);
  function turn(to) {
    view.turn(to === 0);
    page.hidden = to !== 1;
    tabs.forEach((t, i) => t.setAttribute("aria-pressed", String(i === to)));
    if (to === 1) activity.start();
    else activity.stop();
  }
  fill(document.getElementById("tabs"), tabs);
  turn(0);
  setInterval(tick, 1000);
  channel.open();
}

// A link that is opened in a page that is there already loads nothing by itself.
window.addEventListener("hashchange", () => location.reload());

start();
