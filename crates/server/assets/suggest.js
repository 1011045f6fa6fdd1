// Suggestions while a filter is typed: its keys, and the values that letters really have.

import { make } from "./page.js";
import { combobox } from "./options.js";

const REST_MS = 150;

/** The keys of the filter; those that are true have values that the server knows, others a few of their own. */
const KEYS = [
  ["queue", true, "billing"],
  ["type", true, "invoice.*"],
  ["error", true, "*Timeout*"],
  ["class", true, "transient"],
  ["code", true, "503"],
  ["status", true, "pending"],
  ["source", true, "orders"],
  ["incident", false, "incident id"],
  ["subscriber", true, ""],
  ["aggregate", true, ""],
  ["tenant", true, ""],
  ["event", false, "event id"],
  ["held", false, "yes or no", ["yes", "no"]],
  ["since", false, "2h or 2026-11-15T03:00:00Z", ["1h", "24h", "7d"]],
  ["until", false, "30m or 2026-11-15T03:00:00Z", ["1h", "24h", "7d"]],
  ["age", false, "2h..1d", ["<1h", "<24h", "1d..7d", ">7d"]],
  ["retries", false, ">3"],
  ["body", false, "words"],
  ["contains", false, "substring"],
  ["path", false, "$.total>100"],
];

/** What is being typed: the last token before the caret, its key and the beginning of its value. */
export function token(text) {
  const typed = text.match(/(?:[^\s"]|"(?:\\.|[^"\\])*"?)*$/)[0];
  const [, sign, key, colon, values] = typed.match(/^(-?)([a-zA-Z]*)(:?)(.*)$/s);
  if (!colon) return { start: text.length - typed.length + sign.length, key: null, prefix: key, isWord: values === "" };
  const value = values.match(/(?:[^,"]|"(?:\\.|[^"\\])*"?)*$/)[0];
  return { start: text.length - value.length, key, prefix: value.replace(/^"|"$/g, "").replace(/\\(.)/g, "$1"), isWord: true };
}

/** A value as it is written in a filter. */
export const quoted = (value) => (/^[^\s,"]+$/.test(value) ? value : `"${value.replace(/[\\"]/g, "\\$&")}"`);

const input = document.querySelector("#q[data-suggest]");
if (input) {
  const list = make("ul", { id: "suggestions", class: "options", "aria-label": "Suggestions" });
  const holder = make("div", { class: "suggest" });
  input.replaceWith(holder);
  // What the browser would suggest by itself would cover ours.
  input.removeAttribute("list");
  holder.append(input, list);
  let timer = null;
  let asked = 0;

  const box = combobox(input, list, (option) => {
    const caret = input.selectionStart;
    const { start } = token(input.value.slice(0, caret));
    input.setRangeText(option.text, start, caret, "end");
    look();
  });

  async function look() {
    const mine = ++asked;
    const { key, prefix, isWord } = token(input.value.slice(0, input.selectionStart));
    if (key === null) return box.show(isWord && prefix ? keys(prefix) : []);
    const [, hasValues, , few] = KEYS.find(([name]) => name === key) ?? [];
    if (few) return box.show(few.filter((one) => one.startsWith(prefix) && one !== prefix).map((one) => ({ label: one, text: `${one} ` })));
    if (!hasValues) return box.close();
    try {
      const answer = await fetch(`/api/v1/suggest?${new URLSearchParams({ key, prefix })}`);
      const found = answer.ok ? (await answer.json()).items : [];
      if (mine === asked && document.activeElement === input) box.show(found.map(value));
    } catch {
      box.close();
    }
  }

  const keys = (prefix) =>
    KEYS.filter(([name]) => name.startsWith(prefix.toLowerCase())).map(([name, , hint]) => ({ label: `${name}:`, hint, text: `${name}:` }));
  const value = (item) => ({ label: item.value || "(empty)", hint: item.count?.toLocaleString("en"), text: `${quoted(item.value)} ` });

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, REST_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && box.isOpen()) {
      box.close();
      event.stopPropagation();
    } else if (event.key === "ArrowDown" && !box.isOpen()) {
      event.preventDefault();
      const { key, prefix } = token(input.value.slice(0, input.selectionStart));
      if (key === null && !prefix) box.show(keys(""));
      else look();
    }
  });
  input.addEventListener("blur", () => {
    asked += 1;
    clearTimeout(timer);
    box.close();
  });
}

// What was counted is planned: another filter has to be counted first.
const plan = document.querySelector("form[data-counted]");
const press = plan?.querySelector("button.primary:not([disabled])");
if (input && press) {
  const told = make("span", { class: "why" }, "Filter changed: count letters first.");
  told.hidden = true;
  press.after(told);
  input.addEventListener("input", () => {
    told.hidden = input.value.trim() === plan.elements.q.value.trim();
    press.disabled = !told.hidden;
  });
}
