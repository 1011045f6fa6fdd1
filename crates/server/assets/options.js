// A list of options under a text field: arrows move, Enter takes, the field keeps the focus.

import { make } from "./page.js";

/** Makes `input` a combobox over `list`; `take` gets the option that was chosen, which has a `label` and maybe a `hint`. */
export function combobox(input, list, take) {
  let options = [];
  let at = -1;
  for (const [name, value] of [
    ["role", "combobox"],
    ["aria-autocomplete", "list"],
    ["aria-controls", list.id],
    ["aria-expanded", "false"],
    ["autocomplete", "off"],
  ]) {
    input.setAttribute(name, value);
  }
  list.setAttribute("role", "listbox");
  list.hidden = true;

  function mark(next) {
    list.children[at]?.setAttribute("aria-selected", "false");
    at = next;
    const marked = list.children[at];
    marked?.setAttribute("aria-selected", "true");
    marked?.scrollIntoView({ block: "nearest" });
    if (marked) input.setAttribute("aria-activedescendant", marked.id);
    else input.removeAttribute("aria-activedescendant");
  }

  function show(items, marked = -1) {
    options = items;
    list.replaceChildren(
      ...items.map((item, index) => {
        const option = make("li", { role: "option", id: `${list.id}-${index}`, "aria-selected": "false" }, item.label);
        if (item.hint) option.append(make("span", { class: "quiet" }, item.hint));
        return option;
      }),
    );
    list.hidden = items.length === 0;
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark(items.length > 0 ? marked : -1);
  }

  const close = () => show([]);

  input.addEventListener("keydown", (event) => {
    if (list.hidden || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowDown") mark(at + 1 < options.length ? at + 1 : 0);
    else if (event.key === "ArrowUp") mark(at > 0 ? at - 1 : options.length - 1);
    else if (event.key === "Enter" && at >= 0) take(options[at]);
    else if (event.key === "Tab" && at >= 0 && !event.shiftKey) take(options[at]);
    else return;
    event.preventDefault();
  });
  // The field keeps the focus when an option is pressed.
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const index = [...list.children].indexOf(event.target.closest("[role=option]"));
    if (index >= 0) take(options[index]);
  });
  return { show, close, isOpen: () => !list.hidden };
}
