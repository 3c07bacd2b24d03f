// The table of turns: the reward, what each estimator claims, and the measured advantage
// with its interval.
import { el, svg, number, signed, picture } from './dom.js';
import { total, tone } from './turns.js';

// claimsOf are the claims of an estimator, one for each turn: the server's, else the mean
// of the advantages over the tokens of the turn that the loss counts.
export function claimsOf(episode, rows, given) {
  if (given?.length) return given.map((t) => t.claim);
  return (episode.turns ?? []).map((_, turn) => {
    let sum = 0, n = 0;
    episode.rows.forEach((row, r) => (rows[r]?.advantage ?? []).forEach((x, i) => {
      if (row.turn?.[i] !== turn || x === null || row.columns?.loss && !(row.columns.loss[i] > 0)) return;
      sum += x;
      n++;
    }));
    return n ? sum / n : null;
  });
}

// turnTable shows the turns of an episode.
export function turnTable(episode, sides, measured, problem) {
  const turns = episode.turns ?? [];
  const found = new Map((measured?.turns ?? []).map((t) => [t.turn, t]));
  const numbers = [...sides.flatMap((s) => s.claims), ...[...found.values()].flatMap((t) => [t.low, t.high, t.advantage])].filter((x) => Number.isFinite(x));
  const limit = Math.max(1e-9, ...numbers.map(Math.abs));
  const pictures = turns.some((t) => picture(t.images?.[0]));
  const head = ['Turn', ...pictures ? ['Seen'] : [], 'Actions', 'Reward', ...sides.map((s) => [el('span', { class: 'side-mark ' + s.id }, s.id.toUpperCase()), ' ' + s.name])];
  if (measured) head.push('Measured, with interval', 'Regret');
  head.push(keyOf(measured));
  const rows = turns.map((t, i) => {
    const m = found.get(i);
    const claims = sides.map((s) => s.claims[i]);
    return el('tr', { class: measured?.mistake === i ? 'mistake' : null },
      el('th', { scope: 'row' }, `${i + 1}`), pictures && el('td', {}, thumb(t, i)), el('td', {}, (t.actions ?? []).join(', ') || '–'),
      el('td', { class: 'numeric ' + tone(total(t)) }, signed(total(t), 3)),
      claims.map((c) => el('td', { class: 'numeric claim' }, signed(c, 3))),
      measured && el('td', { class: 'numeric' }, m ? `${signed(m.advantage, 3)} [${number(m.low, 3)}, ${number(m.high, 3)}]` : 'not measured', m && !m.decided && el('span', { class: 'muted' }, ' undecided')),
      measured && el('td', { class: 'numeric' }, m ? number(m.regret, 3) : '–'),
      el('td', { class: 'plot-cell' }, plot(claims, sides, m, limit)));
  });
  const table = el('div', { class: 'wide', tabindex: 0, role: 'region', 'aria-label': 'credit of the turns' },
    el('table', { class: 'credit-turns' }, el('thead', {}, el('tr', {}, head.map((h) => el('th', { scope: 'col' }, h)))), el('tbody', {}, rows)));
  const what = el('p', { class: 'muted about' }, 'A claim is the mean advantage of the tokens of a turn that the loss counts, before whitening.');
  return el('section', { class: 'credit-table', 'aria-label': 'turns' }, verdict(episode, measured, found, problem), table, what);
}

// verdict says in a sentence which turn was the mistake.
function verdict(episode, measured, found, problem) {
  if (problem) return el('p', { class: 'muted' }, 'The measured advantages cannot be read. ' + problem);
  if (!measured) return el('p', { class: 'muted' }, 'The advantages of this episode were not measured; vagen credit measures them.');
  const i = measured.mistake;
  if (i === null || i === undefined) return el('p', { class: 'verdict' }, 'No turn was a significant mistake.');
  const m = found.get(i);
  const best = (m?.alternatives ?? []).filter((a) => a.q !== null).sort((a, b) => b.q - a.q)[0];
  return el('p', { class: 'verdict bad-line' }, el('strong', {}, `Turn ${i + 1} was the mistake.`),
    ` Its action ${(episode.turns[i]?.actions ?? []).join(', ') || '(none)'} returns ${number(m?.q, 3)} on average`,
    best ? `; ${best.actions.join(', ') || 'no action'} returns ${number(best.q, 3)} [${number(best.low, 3)}, ${number(best.high, 3)}]` : '',
    m?.n ? ` (${number(m.n)} continuations each).` : '.');
}

function thumb(t, i) {
  const src = picture(t.images?.[0]);
  return src ? el('img', { class: 'thumb pixelated', src, alt: `what the agent saw in turn ${i + 1}`, loading: 'lazy' }) : '–';
}

// keyOf explains the marks of the plots.
function keyOf(measured) {
  const mark = (d, cls) => svg('svg', { width: 12, height: 10, 'aria-hidden': 'true' }, svg('path', { d, class: cls }));
  return el('span', { class: 'key-marks' },
    el('span', {}, mark('M6 9l5 -8h-10z', 'claim-mark a'), 'A'),
    el('span', {}, mark('M6 1l5 8h-10z', 'claim-mark b'), 'B'),
    measured && el('span', {}, mark('M2 5a4 4 0 1 0 8 0a4 4 0 1 0 -8 0', 'measured'), 'measured'));
}

// plot draws the claims as marks and the measurement as an interval, all to one scale
// with 0 in the middle.
function plot(claims, sides, m, limit) {
  const width = 320, height = 30;
  const x = (v) => width / 2 + Math.max(-1, Math.min(1, v / limit)) * (width / 2 - 8);
  const parts = [svg('line', { x1: width / 2, x2: width / 2, y1: 2, y2: height - 2, class: 'zero' })];
  const words = [];
  if (m && Number.isFinite(m.advantage)) {
    parts.push(svg('line', { x1: x(m.low), x2: x(m.high), y1: 15, y2: 15, class: 'interval' }), svg('circle', { cx: x(m.advantage), cy: 15, r: 4, class: 'measured' }));
    words.push(`measured ${number(m.advantage)}`);
  }
  claims.forEach((c, i) => {
    if (!Number.isFinite(c)) return;
    const at = x(c);
    parts.push(svg('path', { d: i === 0 ? `M${at} 10l5 -8h-10z` : `M${at} 20l5 8h-10z`, class: 'claim-mark ' + sides[i].id }));
    words.push(`${sides[i].id.toUpperCase()} ${number(c)}`);
  });
  return svg('svg', { viewBox: `0 0 ${width} ${height}`, height, preserveAspectRatio: 'xMidYMid', role: 'img', 'aria-label': words.join(', ') || 'no numbers' }, ...parts);
}
