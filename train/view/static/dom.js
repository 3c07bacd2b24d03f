// Elements and numbers. Texts become text nodes only: nothing that a model or an
// environment wrote is ever parsed as HTML.

const svgNS = 'http://www.w3.org/2000/svg';

// el makes an element. Properties that begin with "on" are listeners, the others are
// attributes; null and false leave an attribute out. Children are elements or texts.
export function el(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

// svg makes an element of a picture.
export function svg(tag, props, ...children) {
  return fill(document.createElementNS(svgNS, tag), props, children);
}

function fill(e, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'style') throw new Error('the content security policy forbids style attributes');
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else if (name === 'value') e.value = value;
    else e.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) e.append(child);
  }
  return e;
}

// number writes a number with some significant digits; a missing one is a dash.
export function number(x, digits = 4) {
  if (x === null || x === undefined || Number.isNaN(x)) return '–';
  if (x === 0) return '0';
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1e7) return group(x);
  if (size < 1e-3 || size >= 1e7) return sign(x.toExponential(2));
  return sign(size >= 1000 ? group(Math.round(x * 10) / 10) : String(Number(x.toPrecision(digits))));
}

// signed writes a number with its sign.
export function signed(x, digits = 4) {
  const text = number(x, digits);
  return x > 0 ? '+' + text : text;
}

function sign(text) {
  return text.replace('-', '−');
}

function group(x) {
  return sign(x.toLocaleString('en-US', { maximumFractionDigits: 1 }));
}

// plural writes a count with its noun.
export function plural(n, noun) {
  return number(n) + ' ' + noun + (n === 1 ? '' : 's');
}

// later calls f once, ms after the last of many calls.
export function later(f, ms) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => f(...args), ms);
  };
}

// picture is the address of an image, or null if it is neither an image of the server
// nor one that a report contains.
export function picture(address) {
  return typeof address === 'string' && /^(\/api\/runs\/|data:image\/png;base64,)/.test(address) ? address : null;
}

// select makes a labelled list of choices, each [value, text] or a text.
export function select(label, choices, value, change, props) {
  const s = el('select', { onchange: () => change(s.value), 'aria-label': label, ...props },
    choices.map((c) => {
      const [v, text] = Array.isArray(c) ? c : [c, c];
      return el('option', { value: v, selected: String(v) === String(value ?? '') }, text);
    }));
  return el('label', { class: 'field' }, el('span', {}, label), s);
}

// checkbox makes a labelled switch.
export function checkbox(label, value, change, props) {
  const box = el('input', { type: 'checkbox', checked: value, onchange: () => change(box.checked), ...props });
  return el('label', { class: 'check' }, box, label);
}

// notice is a sentence in place of a view that has nothing to show.
export function notice(...children) {
  return el('p', { class: 'notice' }, ...children);
}
