// One element made like another, changing only what differs: focus, selection and scrolled places stay.
//
// What has a key stays the same element wherever it stands. Were the elements of a list filled anew by their places,
// somebody who presses a row while the list changes would release the pointer on another one.

/** Make `old` like `newer`. What a person has opened stays open. */
export function morph(old, newer) {
  copyAttributes(old, newer);
  const known = dropUnwantedKeyed(old, new Set([...newer.childNodes].map(nodeKey)));
  let next = old.firstChild;
  for (const node of [...newer.childNodes]) next = placeNode(old, node, next, known);
  while (next) next = removeNode(next);
}

/** What tells an element from its neighbours: a key, what its button does, or its id. Nothing: only its place does. */
function nodeKey({ dataset, id }) {
  if (dataset?.act) return `${dataset.act} ${dataset.body}`;
  return dataset?.key || id || "";
}

/** Remove the children with a key that is not wanted any more; return the others with a key. */
function dropUnwantedKeyed(parent, wanted) {
  const known = new Map();
  for (const child of [...parent.childNodes].filter(nodeKey)) {
    if (wanted.has(nodeKey(child))) known.set(nodeKey(child), child);
    else child.remove();
  }
  return known;
}

/** Put a node before `next`, as the element that it was before if there is one; return what comes behind it. */
function placeNode(parent, node, next, known) {
  const same = known.get(nodeKey(node));
  if (same && same.nodeName === node.nodeName) {
    known.delete(nodeKey(node));
    return moveBefore(parent, same, node, next);
  }
  if (nodeKey(node) || !next || nodeKey(next)) {
    parent.insertBefore(document.importNode(node, true), next);
    return next;
  }
  const behind = next.nextSibling;
  if (isSameKind(next, node)) updateNode(next, node);
  else next.replaceWith(document.importNode(node, true));
  return behind;
}

/** Bring an element before `next`. It is moved only if another one with a key stands in its way: a move loses focus. */
function moveBefore(parent, element, node, next) {
  while (next && next !== element && !nodeKey(next)) next = removeNode(next);
  const behind = next === element ? element.nextSibling : next;
  if (next !== element) parent.insertBefore(element, next);
  updateNode(element, node);
  return behind;
}

function updateNode(current, node) {
  if (node.nodeType === Node.ELEMENT_NODE) morph(current, node);
  else if (current.data !== node.data) current.data = node.data;
}

function removeNode(node) {
  const behind = node.nextSibling;
  node.remove();
  return behind;
}

const isSameKind = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName;

function copyAttributes(old, newer) {
  for (const { name, value } of newer.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!newer.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
}
