// A copy button behind everything that is worth copying (`data-copy`, with a value if it is not the text shown).

import { all, button, make, say, serve } from "./page.js";

const DONE_MS = 1500;

/** Puts a text into the clipboard; whether it went. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Over plain HTTP from another machine there is only the old way.
    const field = make("textarea", { class: "unseen", "aria-hidden": "true" });
    field.value = text;
    const focus = document.activeElement;
    (focus?.closest("dialog") ?? document.body).append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    focus?.focus({ preventScroll: true });
    return done;
  }
}

/** Copies, and shows on a button that it did. */
export async function copyWith(shown, text) {
  const done = await copy(text);
  shown.classList.toggle("done", done);
  say(done ? "Copied." : "Copy failed.");
  setTimeout(() => shown.classList.remove("done"), DONE_MS);
}

serve((root) => {
  for (const element of all("[data-copy]", root)) {
    if (element.nextElementSibling?.matches(".copy[data-added]")) continue;
    const made = button("", "copy", () => copyWith(made, element.dataset.copy || element.textContent.trim()));
    made.title = "Copy";
    made.setAttribute("aria-label", `Copy ${element.dataset.copyName ?? (element.dataset.copy || element.textContent).trim().slice(0, 40)}`);
    element.after(made);
  }
});
