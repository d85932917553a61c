// Makes elements. Whatever comes from elsewhere becomes text, never markup.

// An element with these properties and children; texts among them are text.
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "class") made.className = value;
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null));
  return made;
}

// What would change how a text around it is read: control characters, and marks that turn its direction.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

// A text that others wrote, with what cannot be seen written out.
export function visible(text) {
  return String(text ?? "").replace(UNSEEN, (unseen) => "\\u{" + unseen.codePointAt(0).toString(16) + "}");
}

// The same in an element of its own, whose direction is not that of the page.
export function foreign(text, properties = {}) {
  return element("bdi", properties, visible(text));
}

// Texts of others and, between them, those of the page: each that others wrote in an element of its own, so that none changes how its neighbours are read. A table's cell
// is written again only when its mark is another. `parts` alternate: theirs, ours, theirs…; none is nothing.
export function mark(...parts) {
  const texts = parts.flat().filter((part) => part !== undefined && part !== null && part !== "");
  if (!texts.length) return "";
  if (texts.length === 1) return foreign(texts[0], { "data-mark": texts[0] });
  return element("span", { "data-mark": JSON.stringify(texts) }, texts.map((text, nth) => (nth % 2 === 0 ? foreign(text) : text)));
}

// Puts these children in the place of those that are there.
export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter((child) => child !== undefined && child !== null));
}

// A field with its label.
export function field(label, input) {
  return element("label", {}, label, input);
}
