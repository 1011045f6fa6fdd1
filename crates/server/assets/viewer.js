// Inside a payload: fold and unfold, search, and the path of what is looked at. The payload itself is never changed:
// what is found is painted over it, and paths are read off the tree.

import { all, button, make, serve } from "./page.js";
import { copyWith } from "./copy.js";

const FOUND_MAX = 1000;
const REST_MS = 150;
const paint = (name, ranges) => globalThis.Highlight && CSS.highlights.set(name, new Highlight(...ranges));

/** Every place where a text stands, in upper or lower case. */
function find(root, text) {
  const ranges = [];
  const nodes = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const wanted = text.toLowerCase();
  for (let node = nodes.nextNode(); node && ranges.length < FOUND_MAX; node = nodes.nextNode()) {
    const inside = node.data.toLowerCase();
    // A sign whose small form is longer would move everything behind it.
    if (inside.length !== node.data.length) continue;
    for (let at = inside.indexOf(wanted); at >= 0 && ranges.length < FOUND_MAX; at = inside.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      ranges.push(range);
    }
  }
  return ranges;
}

const lines = (text) => text.split("\n").length - 1;

/** How to get from an object or a list to one of its values: `item` stands in it, the value at `offset` of that. */
function step(fold, item, offset) {
  const head = fold.querySelector(":scope > summary");
  const isList = [...head.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).some((node) => node.data.includes("["));
  if (isList) {
    let index = item.nodeType === Node.TEXT_NODE ? lines(item.data.slice(0, offset)) : 0;
    // Every value ends a line or is a fold of its own.
    for (let node = item.previousSibling; node; node = node.previousSibling) {
      index += node.nodeName === "DETAILS" ? 1 : node.nodeType === Node.TEXT_NODE ? lines(node.data) : 0;
    }
    return `[${index}]`;
  }
  let name = item.nodeName === "DETAILS" ? item.querySelector(":scope > summary > b") : item;
  while (name && name.nodeName !== "B") name = name.previousSibling;
  const text = (name?.textContent ?? "?").replace(/^"|"$/g, "");
  return /^[A-Za-z_$][\w$]*$/.test(text) ? `.${text}` : `["${text}"]`;
}

/** The JSON path of what stands at an offset of a node. */
export function path(viewer, node, offset = 0) {
  let text = "";
  for (let item = node; item && item !== viewer; item = item.parentNode) {
    const fold = item.parentNode;
    if (fold === viewer || fold.parentNode?.nodeName !== "DETAILS" || fold.nodeName === "SUMMARY") continue;
    text = step(fold.parentNode, item, offset) + text;
    offset = 0;
  }
  return `$${text}`;
}

function equip(viewer) {
  const bar = viewer.previousElementSibling;
  if (!bar?.matches("[data-viewer]:empty")) return;
  const folds = () => all("details", viewer);
  const foldAll = (open) => folds().forEach((fold) => (fold.open = open || fold.parentElement === viewer));
  bar.role = "group";
  bar.ariaLabel = "Body tools";
  const shown = make("code", { class: "path" });
  const copyPath = button("Copy path", "small", () => copyWith(copyPath, shown.textContent));
  copyPath.hidden = true;

  function look(node, offset) {
    shown.textContent = path(viewer, node, offset);
    copyPath.hidden = false;
  }

  if (folds().length > 1) bar.append(button("Fold all", "small", () => foldAll(false)), button("Unfold all", "small", () => foldAll(true)));

  const whole = bar.closest("section")?.querySelector("a[download]");
  if (whole) {
    const copyBody = button("Copy body", "small", async () => copyWith(copyBody, await (await fetch(whole.href)).text()));
    bar.append(copyBody);
  }

  const search = make("input", { type: "search", "aria-label": "Search body", placeholder: "Search body" });
  const told = make("span", { class: "quiet", role: "status" });
  let found = [];
  let at = -1;
  let timer = null;

  function go(by) {
    if (found.length === 0) return;
    at = (at + by + found.length) % found.length;
    const range = found[at];
    const parent = range.startContainer.parentElement;
    for (let fold = parent.closest("details"); fold && viewer.contains(fold); fold = fold.parentElement.closest("details")) fold.open = true;
    paint("found-here", [range]);
    parent.scrollIntoView({ block: "nearest" });
    look(range.startContainer, range.startOffset);
    told.textContent = `${at + 1} of ${found.length}${found.length === FOUND_MAX ? "+" : ""}`;
  }

  function run() {
    found = search.value ? find(viewer, search.value) : [];
    at = -1;
    paint("found", found);
    paint("found-here", []);
    told.textContent = search.value && found.length === 0 ? "not found" : "";
    go(1);
  }

  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(run, REST_MS);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    go(event.shiftKey ? -1 : 1);
  });
  const [before, after] = [button("‹", "small", () => go(-1)), button("›", "small", () => go(1))];
  before.setAttribute("aria-label", "Previous");
  after.setAttribute("aria-label", "Next");
  bar.append(search, before, after, told, shown, copyPath);
  viewer.addEventListener("click", (event) => {
    const caret = document.caretPositionFromPoint?.(event.clientX, event.clientY);
    if (caret && viewer.contains(caret.offsetNode)) look(caret.offsetNode, caret.offset);
    else if (event.target !== viewer) look(event.target, 0);
  });
  viewer.addEventListener("focusin", (event) => event.target !== viewer && look(event.target, 0));
}

serve((root) => all(".json", root).forEach(equip));
