// Ctrl-K: every place, everything this page can do, any letter, incident or redrive by its id, and a search.

import { all, isShown, make } from "./page.js";
import { combobox } from "./options.js";

const ID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/i;
const ACTIONS_MAX = 30;

/** What an id may be, where the API knows it, and where its page is. */
const KINDS = [
  ["letter", "/api/v1/dead-letters/", "/letters/"],
  ["incident", "/api/v1/incidents/", "/incidents/"],
  ["redrive", "/api/v1/redrives/", "/redrives/"],
];

let dialog = null;
let input = null;
let box = null;
let asked = 0;

const goTo = (address) => () => location.assign(address);
const text = (element) => element.textContent.replace(/\s+/g, " ").trim();

function places() {
  return all(".rail nav a").map((place) => ({ label: text(place.querySelector("span")), hint: `g ${place.dataset.key}`, run: goTo(place.href) }));
}

function actions() {
  const found = all("main [data-action], main .primary, main .head a.button").filter((one) => !one.disabled && isShown(one));
  return found.slice(0, ACTIONS_MAX).map((one) => ({ label: text(one), hint: "on this page", run: () => one.click() }));
}

/** All of the words are somewhere in the label. */
const fits = (words) => (item) => words.every((word) => item.label.toLowerCase().includes(word));

async function byId(id) {
  const asks = KINDS.map(async ([kind, api, page]) => {
    const answer = await fetch(api + id, { method: "HEAD" }).catch(() => null);
    return answer?.ok ? { label: `Open ${kind} ${id}`, hint: kind, run: goTo(page + id) } : null;
  });
  return (await Promise.all(asks)).filter(Boolean);
}

/** Shows what fits at once: whoever types fast and presses Enter must not get what stood there before. */
function look() {
  const mine = ++asked;
  const typed = input.value.trim();
  const id = typed.match(ID)?.[0].toLowerCase();
  if (id) {
    box.show([{ label: `Searching for ${id}` }], 0);
    byId(id).then((found) => {
      const none = [{ label: `No match for id ${id}` }];
      if (mine === asked) box.show(found.length > 0 ? found : none, 0);
    });
    return;
  }
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const items = [...actions(), ...places()].filter(fits(words));
  if (typed) items.push({ label: `Search letters for ${typed}`, hint: "letters", run: goTo(`/letters?${new URLSearchParams({ q: typed })}`) });
  // Nothing is done by Enter alone.
  box.show(items, typed ? 0 : -1);
}

function build() {
  input = make("input", { type: "text", "aria-label": "Command palette", placeholder: "Go to page, run action, paste an id, or search letters", spellcheck: "false" });
  const list = make("ul", { id: "palette-options", class: "options", "aria-label": "Commands" });
  dialog = make("dialog", { class: "palette", "aria-label": "Command palette" }, input, list);
  document.body.append(dialog);
  box = combobox(input, list, (item) => {
    if (!item.run) return;
    dialog.close();
    item.run();
  });
  input.addEventListener("input", look);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}

/** Opens the palette, empty. */
export function open() {
  if (!dialog) build();
  if (dialog.open) return dialog.close();
  if (document.querySelector("dialog[open]")) return;
  input.value = "";
  dialog.showModal();
  input.focus();
  look();
}

document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  if (!document.querySelector(".rail nav")) return;
  event.preventDefault();
  open();
});
