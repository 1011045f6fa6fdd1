// Finds the first visible element of a kind with a name, step by step from the outside in; null if there is none.
const KINDS = {
  button: "button, summary, input[type=submit], [role=button]",
  link: "a[href]",
  field: "input:not([type=hidden]), textarea, select",
  heading: "h1, h2, h3, h4",
  part: "tr, li, article, section, fieldset, form, details, dl > div, .card",
  text: "body *",
};
const clean = (text) => (text ?? "").replace(/\s+/g, " ").trim().toLowerCase();
const isSeen = (element) =>
  element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0;

// What a label says without what stands in the fields that it is around of.
const labelled = (label) => {
  const copy = label.cloneNode(true);
  for (const control of copy.querySelectorAll("input, select, textarea, button")) control.remove();
  return copy.textContent;
};

const names = (element) => {
  const by = (element.getAttribute("aria-labelledby") ?? "").split(" ").filter((id) => id !== "");
  const known = [
    element.getAttribute("aria-label"),
    by.map((id) => document.getElementById(id)?.textContent).join(" "),
    ...[...(element.labels ?? [])].map(labelled),
    element.matches("input, select, textarea") ? element.placeholder : element.innerText,
    element.matches("input[type=submit]") ? element.value : "",
    element.title,
  ];
  return known.map(clean).filter((name) => name !== "");
};

const find = (root, { kind, name }) => {
  if (kind === "css") return [...root.querySelectorAll(name)].find(isSeen) ?? null;
  const wanted = clean(name);
  const seen = [...root.querySelectorAll(KINDS[kind])].filter(isSeen);
  if (kind === "part" || kind === "text") {
    const holding = seen.filter((element) => clean(element.innerText).includes(wanted));
    return holding.find((element) => !holding.some((other) => other !== element && element.contains(other))) ?? null;
  }
  const exact = seen.find((element) => names(element).some((known) => known === wanted));
  return exact ?? seen.find((element) => names(element).some((known) => known.includes(wanted))) ?? null;
};

let found = document;
for (const step of arguments[0]) {
  found = find(found, step);
  if (found === null) break;
}
return found;
