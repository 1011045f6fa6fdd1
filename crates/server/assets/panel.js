// The letter beside the list: on a wide page a letter opens there, and the list never leaves. The address remembers it.

import { all, arrived, button, isTyping, load, make, parse, say, serve } from "./page.js";

const WIDE = matchMedia("(min-width: 1100px)");
const REST_MS = 150;
const HASH = /^#letter-([0-9a-f-]{36})$/;
const LINKS = 'table.letters tr[data-letter] a[href^="/letters/"]';
const panel = document.getElementById("panel");
let open = null;
let opener = null;
let timer = null;

const idOf = (link) => link.closest("[data-letter]").dataset.letter;

/** Shows in the panel what the page of a letter holds. */
function fill(page, address) {
  const letter = page.getElementById("letter");
  if (!letter) throw new Error("no letter there");
  const close = button("Close", "", () => shut(true));
  close.title = "Close (Escape)";
  const bar = make("div", { class: "row panel-bar" }, make("a", { href: address }, "Open page"), close);
  const told = all("main > .notice, main > .trouble", page);
  panel.replaceChildren(bar, ...[...told, letter].map((part) => document.importNode(part, true)));
  panel.dataset.source = address;
  panel.hidden = false;
  panel.parentElement.classList.add("split");
  arrived(panel);
}

async function show(id, address = `/letters/${id}`) {
  open = id;
  try {
    const page = await load(address);
    if (open !== id) return;
    fill(page, address);
    say(`${panel.querySelector("h1")?.textContent.trim() ?? "The letter"}opened beside the list.`);
  } catch {
    // What cannot be shown here can be shown, or said, there.
    if (open === id) location.assign(address);
  }
}

/** The row of the open letter says so. */
function mark() {
  for (const row of all("table.letters tr[data-letter]")) {
    if (row.dataset.letter === open) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }
}

/** Closes the panel; the address forgets the letter unless it did already. */
function shut(forget) {
  const isInside = panel.contains(document.activeElement);
  open = null;
  panel.hidden = true;
  panel.replaceChildren();
  delete panel.dataset.source;
  panel.parentElement.classList.remove("split");
  mark();
  if (forget) history.pushState(null, "", location.pathname + location.search);
  if (isInside) opener?.focus();
}

/** Shows what the address says. */
function follow() {
  const id = location.hash.match(HASH)?.[1];
  if (id && WIDE.matches) {
    if (open !== id) show(id);
  } else if (open) shut(false);
}

/** Sends a form of the panel, and shows the answer there if it is about the letter too. */
async function send(form, submitter) {
  const id = open;
  const action = submitter?.getAttribute("formaction") ?? form.getAttribute("action");
  const body = new URLSearchParams(new FormData(form, submitter));
  const answer = await fetch(action, { method: "POST", body, headers: { accept: "text/html" } });
  const { pathname } = new URL(answer.url);
  const text = await answer.text();
  // Another letter is open by now: the answer is not about that one.
  if (open !== id) return;
  if (answer.redirected && pathname !== `/letters/${id}`) return location.assign(answer.url);
  fill(parse(text), `/letters/${id}`);
  const told = panel.querySelector(".notice, .trouble");
  told?.scrollIntoView({ block: "nearest" });
  say(told?.textContent ?? "");
}

const isPlain = (event) => event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);

function press(event) {
  const link = event.target.closest?.("a[href]");
  if (!link || !isPlain(event) || !WIDE.matches || event.defaultPrevented) return;
  if (link.matches(LINKS)) {
    event.preventDefault();
    opener = link;
    if (open === idOf(link)) return;
    history.pushState(null, "", `#letter-${idOf(link)}`);
    show(idOf(link));
  } else if (panel.contains(link) && link.pathname === `/letters/${open}` && !link.closest(".panel-bar") && !link.download) {
    // Another view of the same letter.
    event.preventDefault();
    show(open, link.pathname + link.search);
  }
}

if (panel) {
  document.addEventListener("click", press);
  // Whoever walks down the list by keys with the panel open sees each letter in it.
  document.addEventListener("focusin", ({ target }) => {
    clearTimeout(timer);
    if (open === null || !target.matches(LINKS) || !target.matches(":focus-visible") || idOf(target) === open) return;
    timer = setTimeout(() => {
      opener = target;
      history.replaceState(null, "", `#letter-${idOf(target)}`);
      show(idOf(target));
    }, REST_MS);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !open || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    // Who types leaves the field by it, and keeps what was typed.
    if (!isTyping(event.target)) shut(true);
  });
  panel.addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.target.method !== "post") return;
    event.preventDefault();
    const id = open;
    // An answer that cannot be shown here is shown by the letter's own page, as it stands after it.
    send(event.target, event.submitter).catch(() => open === id && location.assign(`/letters/${id}`));
  });
  addEventListener("popstate", follow);
  WIDE.addEventListener("change", follow);
  serve(mark);
  follow();
}
