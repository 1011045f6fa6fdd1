// Keeps the page true: when something happens that a part of it shows (`data-live`), the page is loaded again and that
// part changed. Nothing changes under the hands of somebody who reads, selects, types or has asked for quiet.

import { all, arrived, button, corner, load, make, say } from "./page.js";
import { morph } from "./morph.js";
import { listen, onEvent, onState } from "./stream.js";

// A burst of events is one update; a tab that nobody sees needs only its title.
const REST_MS = 1000;
const HIDDEN_REST_MS = 15000;
// A number that is read aloud must not change faster than it can be heard.
const NEWS_REST_MS = 4000;
// Some things go wrong without a word: what shows them (`data-watched`) is looked at again by the clock.
const WATCH_MS = 30000;

// What was asked for once and costs much is not asked again with every event.
const ONCE = ["check", "verify", "preview", "count"];

const parts = () => all("[data-live][id]");

/** Where this page comes from. */
function here() {
  const asked = new URLSearchParams(location.search);
  ONCE.forEach((name) => asked.delete(name));
  return location.pathname + (asked.size > 0 ? `?${asked}` : "");
}

/** Where a part comes from: the panel shows another page than the one it stands in. */
const source = (part) => part.closest("[data-source]")?.dataset.source ?? here();

/** How many events each part, by its id, has not shown yet. */
const news = new Map();
let paused = false;
let pressed = null;
let ended = false;
let timer = null;
let loading = false;
let heard = true;
let lastAt = 0;

function cares(part, kind) {
  const prefixes = part.dataset.live.split(/\s+/).filter(Boolean);
  return kind === null || prefixes.length === 0 || prefixes.some((prefix) => kind.startsWith(prefix));
}

function hear(kind) {
  const caring = parts().filter((part) => cares(part, kind));
  // That something may have been missed is no news by itself.
  for (const part of caring) news.set(part.id, (news.get(part.id) ?? 0) + (kind === null ? 0 : 1));
  if (caring.length > 0) plan();
}

/** Looks again at what may change without an event, or at all of it if no events come. */
function look() {
  const watched = parts().filter((part) => !heard || "watched" in part.dataset);
  for (const part of watched) news.set(part.id, news.get(part.id) ?? 0);
  if (watched.length > 0) plan();
}

function plan(rest = document.hidden ? HIDDEN_REST_MS : REST_MS) {
  if (ended || loading) return;
  timer ??= setTimeout(update, Math.max(0, lastAt + rest - Date.now()));
}

/** Whether somebody is at work in a part, who would lose their place. */
function isBusy(part) {
  const selection = getSelection();
  if (!selection.isCollapsed && selection.rangeCount > 0 && selection.getRangeAt(0).intersectsNode(part)) return true;
  if (pressed && part.contains(pressed)) return true;
  if (part.querySelector("[data-counting]")) return true;
  // A list whose beginning is out of sight would move what is read in it.
  if ("reading" in part.dataset && part.getBoundingClientRect().top < 0) return true;
  return all("input, textarea, select", part).some((field) => {
    if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
    if (field.matches("select")) return field === document.activeElement;
    return field === document.activeElement || field.value !== field.defaultValue;
  });
}

async function update(forced = false) {
  clearTimeout(timer);
  timer = null;
  if (loading) return;
  loading = true;
  lastAt = Date.now();
  const due = parts().filter((part) => news.has(part.id));
  const isFree = (part) => forced || (!paused && !isBusy(part));
  const free = due.filter(isFree);
  for (const address of new Set(free.map(source))) {
    await refresh(address, free.filter((part) => source(part) === address), isFree);
  }
  loading = false;
  const held = parts().filter((part) => news.has(part.id));
  tellNews(held.filter((part) => !isFree(part)));
  // Whoever lets go of what held a part is not kept waiting for the next event.
  if (held.length > 0 && !paused) plan();
}

async function refresh(address, free, isFree) {
  // Counted from here: what happens while the page is on its way may not be in it.
  const told = new Map(free.map((part) => [part.id, news.get(part.id)]));
  told.forEach((_, id) => news.delete(id));
  const putBack = (id) => news.set(id, (news.get(id) ?? 0) + told.get(id));
  let page;
  try {
    page = await load(address);
  } catch (error) {
    // A form that was refused leads back to its page; who is sent to sign in has lost the session.
    if (error.answer?.redirected && new URL(error.answer.url).pathname === "/sign-in") signedOut();
    // The answer to a form has no page of its own to load again, and a letter may be gone; the rest is tried again.
    if (!error.answer || error.answer.status >= 500) told.forEach((_, id) => putBack(id));
    return;
  }
  const focus = document.activeElement;
  for (const part of free) {
    const newer = page.getElementById(part.id);
    if (!part.isConnected) continue;
    if (!newer) {
      // The page has become another one: a plan that somebody launched is a run.
      if ("whole" in part.dataset && isFree(part) && address === here()) location.reload();
      continue;
    }
    if (!isFree(part)) {
      // Somebody began to work here in the meantime.
      putBack(part.id);
      continue;
    }
    morph(part, newer);
    arrived(part);
  }
  if (focus?.isConnected && focus !== document.activeElement) focus.focus({ preventScroll: true });
  if (address === here()) head(page);
}

/** The session is over. Whoever is typing is not sent away, but told. */
function signedOut() {
  ended = true;
  const here = encodeURIComponent(location.pathname + location.search);
  away.replaceChildren("Signed out. ", make("a", { href: `/sign-in?next=${here}` }, "Sign in"));
  away.hidden = false;
}

/** The title and the icon of the tab show the state. */
function head(page) {
  document.title = page.title;
  const [icon, newer] = [document, page].map((one) => one.querySelector("link[rel=icon]"));
  if (icon && newer && icon.getAttribute("href") !== newer.getAttribute("href")) icon.replaceWith(document.importNode(newer, true));
  document.body.dataset.mood = page.body.dataset.mood ?? "";
}

const count = make("span");
const bar = make("p", { class: "news", "aria-live": "polite" }, count, " · ", button("show", "link", () => update(true)));
const away = make("p", { class: "news bad", role: "status" }, "Connection lost, reconnecting");
bar.hidden = away.hidden = true;
corner.append(bar, away);
let newsAt = 0;

function tellNews(held) {
  const most = Math.max(0, ...held.map((part) => news.get(part.id)));
  const before = bar.hidden;
  bar.hidden = most === 0;
  if (bar.hidden || (!before && Date.now() - newsAt < NEWS_REST_MS)) return;
  newsAt = Date.now();
  count.textContent = `${most.toLocaleString("en")} new`;
}

// Not "Pause": on the page of a redrive that would be another thing to pause.
const pause = button("Live", "live", toggle);

/** Stops the updates, or lets them go on. */
export function toggle() {
  if (!pause.isConnected) return;
  paused = !paused;
  pause.textContent = paused ? "Live: paused" : "Live";
  pause.classList.toggle("paused", paused);
  say(paused ? "Live updates paused." : "Live updates resumed.");
  if (!paused) plan(0);
}

/** The button stands where every page has its title. */
function addPause() {
  if (!document.querySelector("main [data-live][id]")) return;
  const title = document.querySelector("main h1");
  if (!title) return;
  let place = title.closest(".head");
  if (!place) {
    place = make("div", { class: "head" });
    title.replaceWith(place);
    place.append(title);
  }
  pause.title = "Pause or resume live updates (p)";
  pause.setAttribute("aria-keyshortcuts", "p");
  place.append(pause);
}

if (parts().length > 0) {
  addPause();
  addEventListener("pointerdown", (event) => (pressed = event.target), true);
  for (const kind of ["pointerup", "pointercancel", "dragend"]) addEventListener(kind, () => (pressed = null), true);
  addEventListener("pagehide", () => (ended = true));
  addEventListener("pageshow", () => (ended = false));
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || news.size === 0) return;
    clearTimeout(timer);
    timer = null;
    plan(0);
  });
  setInterval(() => !document.hidden && look(), WATCH_MS);
  onEvent(hear);
  onState((state) => {
    if (ended) return;
    if (state === "signed out") return signedOut();
    away.textContent = state === "full" ? "Too many live connections; refreshing every 30 seconds" : "Connection lost, reconnecting";
    away.hidden = state === "there";
    heard = state !== "full";
  });
  listen();
}
