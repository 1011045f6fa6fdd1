// Choosing letters: ranges with Shift, the whole page, everything that matches, and buttons that name the number.

import { all, button, make, say, serve } from "./page.js";

const table = () => document.querySelector("table.letters");
const boxes = () => all("table.letters input[type=checkbox][name=letter]");
const bulk = document.getElementById("bulk");
const matching = document.getElementById("all");
let last = null;
/** Whether everything that matches is meant, not only what can be seen. */
let everything = false;

const letters = (count) => `${count.toLocaleString("en")} ${count === 1 ? "letter" : "letters"}`;

/** "Discard…" becomes "Discard 3 letters…". */
function label(action, count) {
  action.dataset.label ??= action.textContent.trim();
  const words = action.dataset.label.replace(/…$/, "");
  const link = action.value === "redrive" ? " of " : " ";
  return count === 0 ? action.dataset.label : `${words}${link}${letters(count)}${words === action.dataset.label ? "" : "…"}`;
}

/** "all 70 letters that match", as they are now. */
const meant = () => matching?.querySelector("h2").textContent.trim().replace(/^All/, "all") ?? "";

const choose = button("", "", () => mean(true));
const offer = make("p", { class: "row offer" }, make("span", {}, "All letters on this page are selected."), choose);
const only = button("Select this page only", "", () => mean(false));
const back = make("p", { class: "row offer" }, make("span", {}, "All matching letters are selected."), only);

function mean(all) {
  everything = all;
  tell();
  const shown = all ? matching : bulk.closest("section");
  shown.scrollIntoView({ block: "nearest" });
  say(all ? `${matching.querySelector("h2").textContent.trim()} selected.` : "This page selected.");
}

/** Shows what is chosen, wherever it shows. */
function tell() {
  const here = boxes();
  const chosen = here.filter((box) => box.checked).length;
  const whole = here.length > 0 && chosen === here.length;
  for (const box of here) box.closest("tr").classList.toggle("chosen", box.checked);
  const head = document.querySelector("[data-check-all]");
  if (head) {
    head.checked = whole;
    head.indeterminate = chosen > 0 && !whole;
  }
  if (!bulk) return;
  everything &&= whole;
  for (const action of all("button[name=action]", bulk)) {
    // One that the server has barred stays barred, and keeps its reason.
    action.dataset.barred ??= String(action.disabled);
    action.disabled = action.dataset.barred === "true" || chosen === 0;
    action.textContent = label(action, chosen);
  }
  const section = bulk.closest("section");
  section.classList.toggle("chosen", chosen > 0);
  section.hidden = everything || here.length === 0;
  // Only one of the two cards is there at a time, once something is chosen: nobody acts on more than they mean.
  if (matching) matching.hidden = here.length === 0 || (chosen > 0 && !everything);
  choose.textContent = `Select ${meant()}`;
  offer.hidden = !whole || everything || !document.querySelector(".pages a");
  back.hidden = !everything;
}

function equip() {
  const head = table()?.querySelector("thead th");
  if (!head || head.querySelector("[data-check-all]")) return;
  head.append(make("input", { type: "checkbox", "data-check-all": "", "aria-label": "Select all letters on this page" }));
}

document.addEventListener("click", (event) => {
  const box = event.target.closest?.("table.letters input[type=checkbox]");
  if (!box) return;
  const here = boxes();
  if (box.matches("[data-check-all]")) {
    for (const one of here) one.checked = box.checked;
  } else {
    if (event.shiftKey && here.includes(last)) {
      const [from, to] = [here.indexOf(last), here.indexOf(box)].sort((a, b) => a - b);
      for (const one of here.slice(from, to + 1)) one.checked = box.checked;
    }
    last = box;
  }
  tell();
});
// A click with Shift would mark the text in between.
document.addEventListener("mousedown", (event) => {
  if (event.shiftKey && event.target.closest?.("table.letters input[type=checkbox]")) event.preventDefault();
});

if (bulk && matching) {
  bulk.before(offer);
  matching.querySelector("h2").after(back);
}
if (bulk) {
  serve(() => {
    equip();
    tell();
  });
  // A browser that comes back fills in check boxes after the page is there.
  addEventListener("pageshow", tell);
}
