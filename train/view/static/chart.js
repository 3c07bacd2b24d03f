// A line chart of one metric over the steps, drawn as SVG.
import { el, svg, number } from './dom.js';
import { dashes, slot } from './colors.js';

const left = 54, right = 10, top = 8, bottom = 24, height = 190;

// Chart is a figure with a title, a chart and a legend that shows numbers.
export class Chart {
  // cursor is called with the step under the pointer, or null when it leaves.
  constructor(name, cursor) {
    this.name = name;
    this.lines = [];
    this.options = { smooth: 0, log: false };
    this.cursorMoved = cursor;
    this.plot = svg('svg', {
      class: 'plot', tabindex: 0, role: 'img', height,
      onpointermove: (e) => cursor(this.stepAt(e.clientX - this.plot.getBoundingClientRect().left)),
      onpointerleave: () => cursor(null),
      onblur: () => cursor(null),
      onkeydown: (e) => this.key(e),
    });
    this.legend = el('div', { class: 'legend' });
    this.buttons = el('span', { class: 'chart-tools' });
    this.root = el('figure', { class: 'chart', 'data-metric': name },
      el('figcaption', {}, el('span', { class: 'chart-name' }, name), this.buttons), this.plot, this.legend);
  }

  // set replaces what is drawn: lines of {label, slot, points}, points of [step, value].
  set(lines, options) {
    this.lines = lines.map((l) => ({ ...l, smoothed: smoothed(l.points, options.smooth) }));
    this.options = options;
    this.stale = true;
    if (this.visible) this.draw();
  }

  show(visible) {
    this.visible = visible;
    if (visible && this.stale) this.draw();
  }

  draw() {
    this.stale = false;
    const width = Math.max(200, this.plot.clientWidth || this.root.clientWidth - 24);
    const keep = this.options.log ? (y) => y > 0 : () => true;
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    let points = 0, dropped = 0;
    for (const l of this.lines) {
      l.points.forEach(([x, y], i) => {
        if (y === null) return;
        if (!keep(y)) { dropped++; return; }
        points++;
        x0 = Math.min(x0, x); x1 = Math.max(x1, x);
        const s = this.options.smooth > 0 ? [l.smoothed[i][1], y] : [y];
        for (const v of s) if (keep(v)) { y0 = Math.min(y0, v); y1 = Math.max(y1, v); }
      });
    }
    this.plot.replaceChildren();
    this.plot.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.plot.setAttribute('width', width);
    this.plot.setAttribute('aria-label', `${this.name} over the steps, ${this.lines.length} lines. Arrow keys read the values.`);
    if (points === 0) {
      this.scale = null;
      this.plot.append(svg('text', { x: width / 2, y: height / 2, class: 'tick', 'text-anchor': 'middle' },
        dropped ? 'No value above 0: turn the log scale off.' : 'No value yet.'));
      this.values(null);
      return;
    }
    if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
    if (this.options.log) { y0 = Math.log10(y0); y1 = Math.log10(y1); }
    if (y1 - y0 <= 1e-9 * Math.max(Math.abs(y0), Math.abs(y1))) { const d = Math.abs(y0) * 0.1 || 1; y0 -= d; y1 += d; } else { const d = (y1 - y0) * 0.05; y0 -= d; y1 += d; }
    const sx = (x) => left + (x - x0) / (x1 - x0) * (width - left - right);
    const sy = (y) => height - bottom - ((this.options.log ? Math.log10(y) : y) - y0) / (y1 - y0) * (height - top - bottom);
    this.scale = { sx, sy, x0, x1, width };
    for (const y of ticks(y0, y1, 4)) {
      const at = height - bottom - (y - y0) / (y1 - y0) * (height - top - bottom);
      this.plot.append(svg('line', { x1: left, x2: width - right, y1: at, y2: at, class: 'grid' }),
        svg('text', { x: left - 6, y: at + 4, class: 'tick', 'text-anchor': 'end' }, number(Number((this.options.log ? 10 ** y : y).toPrecision(3)))));
    }
    for (const x of ticks(x0, x1, Math.max(2, Math.floor(width / 90))).filter(Number.isInteger)) {
      this.plot.append(svg('text', { x: sx(x), y: height - 6, class: 'tick', 'text-anchor': 'middle' }, number(x)));
    }
    for (const l of this.lines) {
      const c = slot(l.slot);
      if (this.options.smooth > 0) this.plot.append(svg('path', { d: path(l.points, sx, sy, keep, width), class: 'line faint ' + c }));
      this.plot.append(svg('path', { d: path(this.options.smooth > 0 ? l.smoothed : l.points, sx, sy, keep, width), class: 'line ' + c, 'stroke-dasharray': dashes[l.slot % 8] }));
      const only = l.points.filter(([, y]) => y !== null && keep(y));
      if (only.length === 1) this.plot.append(svg('circle', { cx: sx(only[0][0]), cy: sy(only[0][1]), r: 3, class: 'dot ' + c }));
    }
    this.mark = svg('g', {});
    this.plot.append(this.mark);
    this.values(null);
  }

  // at shows the values at a step, on the chart and in the legend; null shows the last.
  at(step) {
    if (!this.scale || !this.visible) return;
    this.mark.replaceChildren();
    if (step !== null && step >= this.scale.x0 && step <= this.scale.x1) {
      const x = this.scale.sx(step);
      this.mark.append(svg('line', { x1: x, x2: x, y1: top, y2: height - bottom, class: 'cursor' }));
      for (const l of this.lines) {
        const p = nearest(l.points, step);
        if (p < 0) continue;
        const [px, py] = (this.options.smooth > 0 ? l.smoothed : l.points)[p];
        if (py === null || this.options.log && py <= 0) continue;
        this.mark.append(svg('circle', { cx: this.scale.sx(px), cy: this.scale.sy(py), r: 3.5, class: 'dot ' + slot(l.slot) }));
      }
    }
    this.values(step);
  }

  values(step) {
    this.legend.replaceChildren(...this.lines.map((l) => {
      const p = step === null ? lastOf(l.points) : nearest(l.points, step);
      const [x, y] = p < 0 ? [null, null] : l.points[p];
      const text = p < 0 ? '–' : number(y) + (this.options.smooth > 0 ? ` (smoothed ${number(l.smoothed[p][1])})` : '');
      return el('div', { class: 'legend-line' }, swatch(l.slot), el('span', { class: 'legend-name' }, l.label),
        el('span', { class: 'legend-value' }, text), el('span', { class: 'muted' }, x === null ? '' : ' step ' + number(x)));
    }));
  }

  stepAt(px) {
    if (!this.scale) return null;
    const want = this.scale.x0 + (px - left) / (this.scale.width - left - right) * (this.scale.x1 - this.scale.x0);
    let best = null;
    for (const l of this.lines) {
      const p = nearest(l.points, want);
      if (p >= 0 && (best === null || Math.abs(l.points[p][0] - want) < Math.abs(best - want))) best = l.points[p][0];
    }
    return best;
  }

  key(e) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (!move || !this.scale) return;
    e.preventDefault();
    e.stopPropagation();
    const steps = [...new Set(this.lines.flatMap((l) => l.points.map((p) => p[0])))].sort((a, b) => a - b);
    const now = this.keyStep === undefined ? steps.length - 1 : Math.max(0, steps.indexOf(this.keyStep) + move);
    this.keyStep = steps[Math.min(now, steps.length - 1)];
    this.cursorMoved(this.keyStep);
  }
}

// swatch shows colour and dashes of the n-th run.
export function swatch(n) {
  return svg('svg', { class: 'swatch', width: 22, height: 8, 'aria-hidden': 'true' },
    svg('line', { x1: 0, x2: 22, y1: 4, y2: 4, class: 'line ' + slot(n), 'stroke-dasharray': dashes[n % 8] }));
}

// smoothed is the exponential moving average of the points, corrected for its start.
export function smoothed(points, a) {
  if (!(a > 0)) return points;
  let s = 0, w = 0;
  return points.map(([x, y]) => {
    if (y === null) return [x, null];
    s = a * s + (1 - a) * y;
    w = a * w + (1 - a);
    return [x, s / w];
  });
}

// path is the line through the points. Where there are more than two points a pixel, only
// the smallest and the largest of a pixel are drawn.
function path(points, sx, sy, keep, width) {
  let d = '', pen = 'M';
  const add = (x, y) => { d += `${pen}${sx(x).toFixed(1)} ${sy(y).toFixed(1)}`; pen = 'L'; };
  if (points.length <= 2 * width) {
    for (const [x, y] of points) {
      if (y === null || !keep(y)) pen = 'M'; else add(x, y);
    }
    return d;
  }
  let pixel = null, low = null, high = null;
  const flush = () => {
    if (!low) return;
    for (const p of low[0] <= high[0] ? [low, high] : [high, low]) add(...p);
    low = high = null;
  };
  for (const p of points) {
    if (p[1] === null || !keep(p[1])) continue;
    const at = Math.round(sx(p[0]));
    if (at !== pixel) { flush(); pixel = at; }
    if (!low || p[1] < low[1]) low = p;
    if (!high || p[1] > high[1]) high = p;
  }
  flush();
  return d;
}

// nearest is the index of the point nearest to a step, -1 without points.
function nearest(points, step) {
  let lo = 0, hi = points.length - 1;
  if (hi < 0) return -1;
  while (hi - lo > 1) {
    const mid = (lo + hi) >> 1;
    if (points[mid][0] <= step) lo = mid; else hi = mid;
  }
  return Math.abs(points[lo][0] - step) <= Math.abs(points[hi][0] - step) ? lo : hi;
}

function lastOf(points) {
  for (let i = points.length - 1; i >= 0; i--) if (points[i][1] !== null) return i;
  return -1;
}

// ticks are about n round numbers between a and b.
export function ticks(a, b, n) {
  const raw = (b - a) / n;
  const power = 10 ** Math.floor(Math.log10(raw));
  const size = [1, 2, 5, 10].find((m) => m * power >= raw) * power;
  const all = [];
  for (let i = Math.ceil(a / size); i * size <= b + size * 1e-9; i++) all.push(Number((i * size).toPrecision(12)));
  return all;
}
