// Nodes with the few properties and methods that static/morph.js uses, for tests without a browser.

class TestNode {
  /** @type {TestElement | null} */
  parent = null;

  get nextSibling() {
    const siblings = this.parent?.childNodes ?? [];
    return siblings[siblings.indexOf(this) + 1] ?? null;
  }

  remove() {
    if (!this.parent) return;
    this.parent.childNodes.splice(this.parent.childNodes.indexOf(this), 1);
    this.parent = null;
  }

  /** @param {TestNode} other */
  replaceWith(other) {
    this.parent?.insertBefore(other, this);
    this.remove();
  }

  /** @returns {TestNode} */
  clone() {
    throw new Error("a node has a kind");
  }
}

export class TestText extends TestNode {
  nodeType = 3;
  nodeName = "#text";

  /** @param {string} nodeValue */
  constructor(nodeValue) {
    super();
    this.nodeValue = nodeValue;
  }

  clone() {
    return new TestText(this.nodeValue);
  }

  toString() {
    return this.nodeValue;
  }
}

export class TestElement extends TestNode {
  nodeType = 1;
  insertions = 0;
  /** @type {TestNode[]} */
  childNodes = [];

  /**
   * @param {string} nodeName
   * @param {Record<string, string>} [attributes]
   * @param {...TestNode} children
   */
  constructor(nodeName, attributes = {}, ...children) {
    super();
    this.nodeName = nodeName;
    this.values = new Map(Object.entries(attributes));
    for (const child of children) this.insertBefore(child, null);
  }

  get attributes() {
    return [...this.values].map(([name, value]) => ({ name, value }));
  }

  get id() {
    return this.values.get("id") ?? "";
  }

  get dataset() {
    const named = [...this.values].filter(([name]) => name.startsWith("data-"));
    return Object.fromEntries(named.map(([name, value]) => [name.slice("data-".length), value]));
  }

  get firstChild() {
    return this.childNodes[0] ?? null;
  }

  /** @param {string} name */
  getAttribute(name) {
    return this.values.get(name) ?? null;
  }

  /**
   * @param {string} name
   * @param {string} value
   */
  setAttribute(name, value) {
    this.values.set(name, value);
  }

  /** @param {string} name */
  hasAttribute(name) {
    return this.values.has(name);
  }

  /** @param {string} name */
  removeAttribute(name) {
    this.values.delete(name);
  }

  /**
   * @param {TestNode} node
   * @param {TestNode | null} next
   */
  insertBefore(node, next) {
    node.remove();
    const at = next ? this.childNodes.indexOf(next) : this.childNodes.length;
    this.childNodes.splice(at, 0, node);
    node.parent = this;
    this.insertions += 1;
  }

  clone() {
    return new TestElement(this.nodeName, Object.fromEntries(this.values), ...this.childNodes.map((child) => child.clone()));
  }

  toString() {
    const attributes = [...this.values].sort().map(([name, value]) => ` ${name}="${value}"`);
    return `<${this.nodeName}${attributes.join("")}>${this.childNodes.join("")}</${this.nodeName}>`;
  }
}

/**
 * A test element in place of a real one.
 *
 * @param {TestElement} element
 */
export const asElement = (element) => /** @type {Element} */ (/** @type {unknown} */ (element));

/** Give the global names that morph.js takes from a browser. */
export function installTestDom() {
  const importNode = (/** @type {TestNode} */ node) => node.clone();
  Object.assign(globalThis, { document: { importNode }, Node: { ELEMENT_NODE: 1 } });
}
