// Makes one element like another by changing only what differs: focus, selection and scroll positions stay.
//
// An element with a key stays the same element wherever it moves. If the elements of a list were filled anew by
// position, a person who presses a row while the list changes would release the pointer on another row.

/** @typedef {Map<string, ChildNode>} KeyedNodes */

/**
 * Make `old` like `newer`. What a person has opened stays open.
 *
 * @param {Element} old
 * @param {Element} newer
 */
export function morph(old, newer) {
  copyAttributes(old, newer);
  const keyed = dropUnwantedKeyed(old, new Set([...newer.childNodes].map(nodeKey)));
  let next = old.firstChild;
  // eslint-disable-next-line unicorn/no-useless-spread -- the list is live
  for (const node of [...newer.childNodes]) next = placeNode(old, node, next, keyed);
  while (next) next = removeNode(next);
}

/**
 * What tells an element from its siblings: a key, what its button does, or its id. Empty: only its position does.
 *
 * @param {Node} node
 */
export function nodeKey(node) {
  const { dataset, id } = /** @type {Partial<HTMLElement>} */ (node);
  if (dataset?.act) return `${dataset.act} ${dataset.body}`;
  return dataset?.key || id || "";
}

/**
 * Remove the keyed children that are not wanted any more; return the other keyed children.
 *
 * @param {Element} parent
 * @param {Set<string>} wanted
 * @returns {KeyedNodes}
 */
function dropUnwantedKeyed(parent, wanted) {
  const keyed = new Map();
  for (const child of [...parent.childNodes].filter(nodeKey)) {
    if (wanted.has(nodeKey(child))) keyed.set(nodeKey(child), child);
    else child.remove();
  }
  return keyed;
}

/**
 * Put a node before `next`, reusing the element with its key if there is one; return the node behind it.
 *
 * @param {Element} parent
 * @param {ChildNode} node
 * @param {ChildNode | null} next
 * @param {KeyedNodes} keyed
 */
function placeNode(parent, node, next, keyed) {
  const same = keyed.get(nodeKey(node));
  if (same && same.nodeName === node.nodeName) {
    keyed.delete(nodeKey(node));
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

/**
 * Bring an element before `next`. The element is moved only if another keyed one is in its way: a move loses focus.
 *
 * @param {Element} parent
 * @param {ChildNode} element
 * @param {ChildNode} node
 * @param {ChildNode | null} next
 */
function moveBefore(parent, element, node, next) {
  while (next && next !== element && !nodeKey(next)) next = removeNode(next);
  const behind = next === element ? element.nextSibling : next;
  if (next !== element) parent.insertBefore(element, next);
  updateNode(element, node);
  return behind;
}

/**
 * @param {ChildNode} current
 * @param {ChildNode} node
 */
function updateNode(current, node) {
  if (node.nodeType === Node.ELEMENT_NODE) morph(/** @type {Element} */ (current), /** @type {Element} */ (node));
  else if (current.nodeValue !== node.nodeValue) current.nodeValue = node.nodeValue;
}

/** @param {ChildNode} node */
function removeNode(node) {
  const behind = node.nextSibling;
  node.remove();
  return behind;
}

/**
 * @param {Node} one
 * @param {Node} other
 */
const isSameKind = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName;

/**
 * @param {Element} old
 * @param {Element} newer
 */
function copyAttributes(old, newer) {
  for (const { name, value } of newer.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  // eslint-disable-next-line unicorn/no-useless-spread -- the list is live, and the loop removes from it
  for (const { name } of [...old.attributes]) {
    if (!newer.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
}
