// A form or a button with `data-countdown` waits that many seconds, in which it can be taken back, before it is sent. A
// form whose number was typed wrong is sent at once: it will be refused.

import { button, make, say } from "./page.js";

const sure = new WeakSet();
const waiting = new Map();

function isMistyped(form) {
  const typed = form.querySelector("[data-typed]");
  return typed !== null && Number(typed.value.replace(/\D/g, "")) !== Number(typed.dataset.typed);
}

const wait = (form, submitter) => submitter?.dataset.countdown ?? form.dataset.countdown;

function begin(form, submitter) {
  const seconds = Number(wait(form, submitter)) || 5;
  const what = (submitter?.textContent || "Sending").trim();
  const left = make("span", {}, `${what} in ${seconds} s`);
  const cancel = button("Undo", "", () => end(form));
  const now = button("Confirm now", "", () => send(form, submitter));
  const note = make("p", { class: "countdown" }, left, " ", cancel, " ", now);
  const endAt = Date.now() + seconds * 1000;
  const tick = setInterval(() => {
    const rest = Math.ceil((endAt - Date.now()) / 1000);
    if (rest > 0) left.textContent = `${what} in ${rest} s`;
    else send(form, submitter);
  }, 250);
  form.dataset.counting = "";
  waiting.set(form, () => {
    clearInterval(tick);
    note.remove();
    delete form.dataset.counting;
    return submitter;
  });
  (submitter ?? form.lastElementChild).after(note);
  cancel.focus();
  say(`${what} in ${seconds} seconds. Undo to cancel.`);
}

function end(form) {
  const submitter = waiting.get(form)();
  waiting.delete(form);
  submitter?.focus();
  say("Undone: nothing was sent.");
}

function send(form, submitter) {
  waiting.get(form)();
  waiting.delete(form);
  sure.add(form);
  form.requestSubmit(submitter);
}

// Before everyone else who listens for forms.
document.addEventListener(
  "submit",
  (event) => {
    const form = event.target;
    if (wait(form, event.submitter) === undefined || sure.delete(form) || (!waiting.has(form) && isMistyped(form))) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (!waiting.has(form)) begin(form, event.submitter);
  },
  true,
);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") [...waiting.keys()].forEach(end);
  // A key that is held down would press the button that the focus came to, and so on.
  if (event.key === "Enter" && event.repeat && event.target.closest?.("[data-countdown], .countdown")) event.preventDefault();
});
// A second press while the first is on its way is none.
const SENT_MS = 3000;
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method !== "post") return;
  if ("sent" in form.dataset) return event.preventDefault();
  form.dataset.sent = "";
  setTimeout(() => delete form.dataset.sent, SENT_MS);
});

// Who leaves in between is asked: the form was not sent yet.
addEventListener("beforeunload", (event) => waiting.size > 0 && event.preventDefault());
