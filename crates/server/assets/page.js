// What the other modules share: finding and making elements, telling those who listen, and serving what comes later.

export const all = (selector, root = document) => [...root.querySelectorAll(selector)];

/** Makes an element. What scripts add is marked, so that a live update leaves it where it is. */
export function make(name, attributes = {}, ...content) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.dataset.added = "";
  element.append(...content);
  return element;
}

/** A button that does something here and sends nothing. */
export function button(label, kind, press) {
  const made = make("button", { type: "button", class: kind }, label);
  made.addEventListener("click", press);
  return made;
}

const FIELDS = "input:not([type=checkbox], [type=radio], [type=button], [type=submit]), textarea, select, [contenteditable]";

/** Whether what is pressed there is meant as text. */
export const isTyping = (target) => target instanceof Element && target.closest(FIELDS) !== null;

/** Whether a person can see an element. */
export const isShown = (element) => element.getClientRects().length > 0;

const voice = make("p", { class: "unseen", role: "status", "aria-live": "polite" });
document.body.append(voice);

/** Tells it to those who listen instead of looking. */
export function say(text) {
  voice.textContent = "";
  // The same words twice are read twice only if they were gone in between.
  setTimeout(() => (voice.textContent = text), 50);
}

/** The corner where short messages stand, above the page and in nobody's way. */
export const corner = make("div", { class: "corner" });
document.body.append(corner);

const TOLD_MS = 6000;
const told = make("p", { class: "news" });
told.hidden = true;
corner.append(told);
let tellTimer = null;

/** Tells it to everyone, for a while. */
export function tell(text) {
  say(text);
  told.textContent = text;
  told.hidden = false;
  clearTimeout(tellTimer);
  tellTimer = setTimeout(() => (told.hidden = true), TOLD_MS);
}

const servants = [];

/** Calls `serve` with the document now, and with every part that comes into it later. */
export function serve(servant) {
  servants.push(servant);
  servant(document);
}

/** Says that something came into the page. */
export const arrived = (part) => servants.forEach((servant) => servant(part));

/** Loads a page of ours without showing it; what was done last is left to be told by the page that is shown. */
export async function load(address) {
  const answer = await fetch(address, { headers: { accept: "text/html", "x-lazaret-live": "1" } });
  const moved = new URL(answer.url).pathname !== new URL(address, location.href).pathname;
  if (!answer.ok || moved) throw Object.assign(new Error(`${answer.status} at ${answer.url}`), { answer });
  return parse(await answer.text());
}

export const parse = (html) => new DOMParser().parseFromString(html, "text/html");
