// Makes an element the same as another with as few changes as it takes, so that focus, scroll position, selection and
// what is folded stay. Elements with an id, and letters, are found again wherever they have moved to.

// How many neighbours are looked at for one that stayed while others went.
const REACH = 6;

/** Changes `from` until it is what `to` is, except for what the reader folded and what scripts added. */
export function morph(from, to) {
  for (const { name } of [...from.attributes]) {
    if (!isOurs(name) && !to.hasAttribute(name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (!isOurs(name) && from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  children(from, to);
}

const isOurs = (name) => name === "open" || name === "data-added";
const isElement = (node) => node.nodeType === Node.ELEMENT_NODE;
const isAdded = (node) => isElement(node) && "added" in node.dataset;
const key = (node) => (isElement(node) && (node.id || node.dataset.letter)) || null;
const alike = (a, b) => a.nodeName === b.nodeName && key(a) === key(b);

function children(from, to) {
  const known = new Map([...from.children].filter(key).map((child) => [key(child), child]));
  const wanted = new Set([...to.children].map(key));
  const isGone = (node) => key(node) !== null && !wanted.has(key(node));
  let at = next(from.firstChild);
  // Steps over what came from the server and is no longer wanted.
  const drop = () => {
    const gone = at;
    at = next(at.nextSibling);
    gone.remove();
  };
  for (const want of [...to.childNodes]) {
    while (at && isGone(at)) drop();
    let have = key(want) ? known.get(key(want)) : stayed(at, want);
    if (have && have.nodeName !== want.nodeName) have = null;
    if (!have) {
      from.insertBefore(document.importNode(want, true), at);
      continue;
    }
    if (!key(want)) while (at !== have) drop();
    if (at === have) at = next(at.nextSibling);
    else from.insertBefore(have, at);
    if (isElement(have)) morph(have, want);
    else if (have.data !== want.data) have.data = want.data;
  }
  while (at) drop();
}

/** The node from `at` on that `want` is a newer version of. */
function stayed(at, want) {
  let reach = isElement(want) ? REACH : 1;
  for (let node = at; node && reach > 0 && !(key(node) && node !== at); node = next(node.nextSibling), reach -= 1) {
    if (alike(node, want)) return node;
  }
  return null;
}

/** This node or the next one that came from the server. */
function next(node) {
  while (node && isAdded(node)) node = node.nextSibling;
  return node;
}
