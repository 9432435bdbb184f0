// One element made like another, changing only what differs: focus, selection and scrolled places stay.

/** Make `old` like `newer`. What a person has opened stays open. */
export function morph(old, newer) {
  attributes(old, newer);
  const fresh = [...newer.childNodes];
  const there = [...old.childNodes];
  fresh.forEach((node, place) => {
    const current = there[place];
    if (!current) old.append(document.importNode(node, true));
    else if (!alike(current, node)) current.replaceWith(document.importNode(node, true));
    else if (node.nodeType === Node.ELEMENT_NODE) morph(current, node);
    else if (current.data !== node.data) current.data = node.data;
  });
  for (const node of there.slice(fresh.length)) node.remove();
}

const alike = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName && one.id === other.id;

function attributes(old, newer) {
  for (const { name, value } of newer.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!newer.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
}
