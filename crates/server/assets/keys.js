// The keyboard. Single keys act only where nothing is typed, together with no other key, and can be switched off in the
// settings: who speaks to the machine would set them off by talking.

import { all, button, isShown, isTyping, make, say, serve, tell } from "./page.js";
import { toggle } from "./live.js";
import { open as openPalette } from "./palette.js";

const SWITCH = "lazaret.keys";
const WAIT_MS = 1500;
const isOn = () => localStorage.getItem(SWITCH) !== "off";

const HELP = [
  ["?", "keyboard shortcuts"],
  ["/", "focus filter"],
  ["Ctrl K", "command palette"],
  ["j / k", "next / previous row"],
  ["o / Enter", "open row"],
  ["x", "select row"],
  ["r", "redrive"],
  ["p", "pause / resume live updates"],
  ["Escape", "close panel or dialog"],
];

const places = () => all(".rail nav a[data-key]");
let waitsForPlace = false;
let timer = null;
let here = null;

/** Rows and cards in their order, without those of the panel. */
const rows = () => all("main [data-row], main tr[data-letter]").filter((row) => !row.closest("#panel") && isShown(row));
const link = (row) => row.querySelector("[data-open]") ?? row.querySelector("a[href]") ?? row;

/** The row that has the focus or had it last. */
function current(list) {
  const focused = document.activeElement?.closest("[data-row], tr[data-letter]");
  return list.indexOf(list.includes(focused) ? focused : here);
}

function move(step) {
  const list = rows();
  if (list.length === 0) return;
  const at = current(list);
  here = list[at < 0 ? (step > 0 ? 0 : list.length - 1) : Math.min(Math.max(at + step, 0), list.length - 1)];
  const target = link(here);
  if (target === here) here.tabIndex = -1;
  target.focus();
  here.scrollIntoView({ block: "nearest" });
}

function inRow(act) {
  const list = rows();
  const row = list[current(list)];
  if (row) act(row);
}

function search() {
  const field = document.querySelector("main #q, main input[type=search], main input[name=q]");
  if (!field) return openPalette();
  field.focus();
  field.select();
}

/** Why a button cannot be pressed, as the page says beside it. */
const why = (action) => action.title || action.closest("form, .row, section")?.querySelector(".why")?.textContent;

function redrive() {
  const actions = all('main [data-action="redrive"]').filter(isShown);
  // Letters that were chosen are meant, rather than the one that is open beside them.
  const chosen = actions.find((one) => !one.disabled && one.closest("section.chosen"));
  const action = chosen ?? actions.find((one) => !one.disabled) ?? actions[0];
  if (!action) tell("No redrive action on this page.");
  else if (action.disabled) tell(why(action) ?? "Redrive not available.");
  else if (action.matches("a")) action.click();
  else {
    // What sends letters is never done by one key.
    action.focus();
    action.scrollIntoView({ block: "nearest" });
    say(`${action.textContent.trim()}: press Enter.`);
  }
}

const ACTIONS = {
  "?": help,
  "/": search,
  j: () => move(1),
  k: () => move(-1),
  o: () => inRow((row) => link(row).click()),
  x: () => inRow((row) => row.querySelector("input[type=checkbox]")?.click()),
  r: redrive,
  p: toggle,
  g: () => {
    waitsForPlace = true;
    clearTimeout(timer);
    timer = setTimeout(() => (waitsForPlace = false), WAIT_MS);
  },
};

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing) return;
  if (event.key === "Escape" && isTyping(event.target)) return event.target.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat && event.key !== "j" && event.key !== "k") return;
  if (!isOn() || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (waitsForPlace) {
    waitsForPlace = false;
    const place = places().find((one) => one.dataset.key === event.key);
    if (place) event.preventDefault();
    return place?.click();
  }
  if (!Object.hasOwn(ACTIONS, event.key)) return;
  event.preventDefault();
  ACTIONS[event.key]();
});

let dialog = null;

/** Shows what every key does. */
export function help() {
  if (!dialog) {
    const line = ([key, what]) => [make("dt", {}, ...key.split(" ").map((part) => (part === "/" && key !== "/" ? " / " : make("kbd", {}, part)))), make("dd", {}, what)];
    const lines = [...HELP, ...places().map((place) => [`g ${place.dataset.key}`, place.querySelector("span").textContent])];
    const close = button("Close", "primary", () => dialog.close());
    dialog = make("dialog", { class: "help", "aria-labelledby": "help-title" });
    dialog.append(make("h2", { id: "help-title" }, "Keyboard shortcuts"), make("dl", {}, ...lines.flatMap(line)));
    dialog.append(make("div", { class: "row" }, close, make("a", { href: "/settings" }, "Disable shortcuts")));
    // A press beside the dialog closes it.
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    document.body.append(dialog);
  }
  dialog.showModal();
}

/** The switch, in the settings. */
function addSwitch(holder) {
  const box = make("input", { type: "checkbox", id: "keys-on" });
  box.checked = isOn();
  box.addEventListener("change", () => {
    if (box.checked) localStorage.removeItem(SWITCH);
    else localStorage.setItem(SWITCH, "off");
    say(box.checked ? "Keyboard shortcuts on." : "Keyboard shortcuts off.");
  });
  const label = make("label", { class: "check" }, box, "Keyboard shortcuts (j, k, x, …) in this browser");
  holder.replaceChildren(label, button("Show shortcuts", "", help));
  holder.hidden = false;
}

serve((root) => {
  all("[data-keyboard]", root).forEach(addSwitch);
  for (const [selector, key] of [["main #q", "/"], ['main [data-action="redrive"]', "r"]]) {
    all(selector, root).forEach((element) => element.setAttribute("aria-keyshortcuts", key));
  }
});
document.querySelector(".rail .who")?.append(button("Keyboard", "link keys", help));
