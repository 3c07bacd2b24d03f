// A turn of an episode: what the agent saw, its response with coloured tags, actions,
// reward, and its statements about the state beside the truth.
import { el, number, signed, picture } from './dom.js';

// total is the sum of the reward parts of a turn.
export function total(turn) {
  return Object.values(turn.reward ?? {}).reduce((a, b) => a + (b ?? 0), 0);
}

export function tone(x) {
  return x > 0 ? 'plus' : x < 0 ? 'minus' : 'muted';
}

// turnCard shows what the agent saw, said and got in a turn.
export function turnCard(t, i) {
  const images = (t.images ?? []).map((address, n) => pictureOf(address, `what the agent saw in turn ${i + 1}` + (n ? `, image ${n + 1}` : '')));
  const part = (title, ...children) => el('section', { class: 'part' }, el('h4', {}, title), ...children);
  return el('section', { class: 'turn', 'aria-label': `turn ${i + 1}`, tabindex: -1, 'data-turn': i },
    el('h3', {}, `Turn ${i + 1}`,
      !t.format && el('span', { class: 'chip bad' }, 'format not correct'),
      t.stop && t.stop !== 'end' && t.stop !== 'string' && el('span', { class: 'chip' }, 'stopped: ' + t.stop),
      t.cut && el('span', { class: 'chip' }, 'observation cut')),
    el('div', { class: 'turn-grid' },
      images.length > 0 && el('div', { class: 'pictures' }, images),
      el('div', { class: 'turn-text' },
        part('Observation', el('pre', { class: 'text observation' }, t.observation || '(no text)')),
        part('Response', el('pre', { class: 'text response' }, t.response ? tagged(t.response) : '(empty)')),
        el('div', { class: 'turn-facts' },
          part('Actions', t.actions?.length ? el('p', { class: 'actions' }, t.actions.map((a) => el('span', { class: 'chip strong' }, a))) : el('p', { class: 'muted' }, 'none was parsed')),
          part('Reward', rewardTable(t))),
        t.claims?.length > 0 && part('What the agent said about the state', claimTable(t.claims)))));
}

// pictureOf shows small images at a whole multiple of their size, with sharp pixels.
function pictureOf(address, alt) {
  const src = picture(address);
  if (!src) return el('p', { class: 'muted missing' }, 'The image was not stored.');
  const img = el('img', { src, alt, loading: 'lazy', onload: () => {
    const n = img.naturalWidth;
    if (n === 0 || n > 400) return;
    img.classList.add('pixelated');
    img.style.width = n * Math.max(1, Math.floor(384 / n)) + 'px';
  }, onerror: () => img.replaceWith(el('p', { class: 'muted missing' }, 'The image cannot be read.')) });
  return img;
}

const hues = { think: 'tag-a', reasoning: 'tag-a', observation: 'tag-b', observe: 'tag-b', grounding: 'tag-b', prediction: 'tag-c', predict: 'tag-c', worldmodeling: 'tag-c', answer: 'tag-d', action: 'tag-d' };

// tagged colours the tagged parts of a response. Everything is text.
export function tagged(text) {
  const parts = [];
  const open = [];
  let last = 0;
  const hue = () => 'tagged ' + (open.length ? hues[open.at(-1).toLowerCase()] ?? 'tag-e' : '');
  for (const m of text.matchAll(/<(\/?)([A-Za-z][\w-]*)>/g)) {
    if (m.index > last) parts.push(el('span', { class: hue() }, text.slice(last, m.index)));
    if (!m[1]) open.push(m[2]);
    parts.push(el('span', { class: hue() + ' tag' }, m[0]));
    if (m[1]) {
      const i = open.lastIndexOf(m[2]);
      if (i >= 0) open.length = i;
    }
    last = m.index + m[0].length;
  }
  if (last < text.length) parts.push(el('span', { class: hue() }, text.slice(last)));
  return parts;
}

function rewardTable(t) {
  const parts = Object.entries(t.reward ?? {});
  if (parts.length === 0) return el('p', { class: 'muted' }, 'none');
  const row = (name, x, cls) => el('tr', { class: cls }, el('th', { scope: 'row' }, name), el('td', { class: 'numeric ' + tone(x) }, signed(x)));
  return el('table', { class: 'rewards' }, el('tbody', {}, parts.map(([name, x]) => row(name, x)), parts.length > 1 && row('sum', total(t), 'sum')));
}

const claimNames = { grounding: 'what is there', worldmodeling: 'what comes next' };

function claimTable(claims) {
  return el('div', { class: 'wide' }, el('table', { class: 'claims' },
    el('thead', {}, el('tr', {}, ['', 'said', 'truth', 'score'].map((h) => el('th', { scope: 'col' }, h)))),
    el('tbody', {}, claims.map((c) => el('tr', {},
      el('th', { scope: 'row' }, claimNames[c.kind] ?? c.kind),
      el('td', {}, c.said || '(nothing)'), el('td', {}, c.truth || '(not recorded)'),
      el('td', { class: 'numeric' }, c.score === null || c.score === undefined ? 'no score' : number(c.score)))))));
}
