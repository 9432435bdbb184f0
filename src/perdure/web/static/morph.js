// One element made like another, changing only what differs: focus, selection and scrolled places stay.
//
// What has a key stays the same element wherever it stands. Were the elements of a list filled anew by their places,
// somebody who presses a row while the list changes would release the pointer on another one.

/** Make `old` like `newer`. What a person has opened stays open. */
export function morph(old, newer) {
  attributes(old, newer);
  const known = keep(old, new Set([...newer.childNodes].map(key)));
  let next = old.firstChild;
  for (const node of [...newer.childNodes]) next = place(old, node, next, known);
  while (next) next = remove(next);
}

/** What tells an element from its neighbours: a key, what its button does, or its id. Nothing: only its place does. */
function key({ dataset, id }) {
  if (dataset?.act) return `${dataset.act} ${dataset.body}`;
  return dataset?.key || id || "";
}

/** Remove the children with a key that is not wanted any more; return the others with a key. */
function keep(parent, wanted) {
  const known = new Map();
  for (const child of [...parent.childNodes].filter(key)) {
    if (wanted.has(key(child))) known.set(key(child), child);
    else child.remove();
  }
  return known;
}

/** Put a node before `next`, as the element that it was before if there is one; return what comes behind it. */
function place(parent, node, next, known) {
  const same = known.get(key(node));
  if (same && same.nodeName === node.nodeName) {
    known.delete(key(node));
    return bring(parent, same, node, next);
  }
  if (key(node) || !next || key(next)) {
    parent.insertBefore(document.importNode(node, true), next);
    return next;
  }
  const behind = next.nextSibling;
  if (alike(next, node)) update(next, node);
  else next.replaceWith(document.importNode(node, true));
  return behind;
}

/** Bring an element before `next`. It is moved only if another one with a key stands in its way: a move loses focus. */
function bring(parent, element, node, next) {
  while (next && next !== element && !key(next)) next = remove(next);
  const behind = next === element ? element.nextSibling : next;
  if (next !== element) parent.insertBefore(element, next);
  update(element, node);
  return behind;
}

function update(current, node) {
  if (node.nodeType === Node.ELEMENT_NODE) morph(current, node);
  else if (current.data !== node.data) current.data = node.data;
}

function remove(node) {
  const behind = node.nextSibling;
  node.remove();
  return behind;
}

const alike = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName;

function attributes(old, newer) {
  for (const { name, value } of newer.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!newer.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
}
