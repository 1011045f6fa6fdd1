// Times grow older while a page is looked at; the exact one, in the reader's own zone, is told on hover.

import { all, serve } from "./page.js";

const EVERY_MS = 15000;
// A clock that is wrong by less than this does not show.
const APART_MS_MIN = 5000;

// Charts are drawn by the server, which knows the reader's clock from here on.
const zone = `lazaret_zone=${-new Date().getTimezoneOffset()}`;
if (!document.cookie.split("; ").includes(zone)) document.cookie = `${zone}; path=/; max-age=31536000; samesite=lax`;

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
// The server's clock counts: it has made the times.
const apart = Date.parse(document.body.dataset.now) - Date.now();
const offset = Math.abs(apart) > APART_MS_MIN ? apart : 0;

/** How long ago, in the words of the server. */
export function ago(ms) {
  const s = Math.floor(Math.abs(ms) / 1000);
  if (s < 10) return "just now";
  const text =
    s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min` : s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} d`;
  return ms >= 0 ? `${text} ago` : `in ${text}`;
}

const brief = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

const RELATIVE = /^(just now|in \d+ (s|min|h|d)|\d+ (s|min|h|d) ago)$/;

function refresh(root) {
  for (const time of all("time[datetime]", root)) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    const text = ago(Date.now() + offset - at);
    // A time that the server wrote out is left as it is.
    if (RELATIVE.test(time.textContent) && time.textContent !== text) time.textContent = text;
    const title = `${exact.format(at)}\n${time.dateTime}`;
    if (time.title !== title) time.title = title;
  }
}

// Nothing hovers over a telephone: a tap shows the exact time, and another one how long ago it was.
document.addEventListener("click", (event) => {
  const time = event.target.closest?.("time[datetime]");
  const at = time && Date.parse(time.dateTime);
  if (!time || Number.isNaN(at) || time.closest("a, button, summary, label")) return;
  time.textContent = RELATIVE.test(time.textContent) ? brief.format(at) : ago(Date.now() + offset - at);
});

serve(refresh);
setInterval(() => document.hidden || refresh(document), EVERY_MS);
document.addEventListener("visibilitychange", () => document.hidden || refresh(document));
