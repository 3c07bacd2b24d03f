// The view of metrics: a chart of every metric over the steps.
import { el, later, notice, checkbox, plural } from './dom.js';
import { Chart } from './chart.js';
import { link, patch } from './route.js';

// Metrics that are shown first, where a run has them.
const first = ['train/success', 'train/unusable', 'val/success', 'val/unusable', 'train/score', 'val/score', 'critic/score/mean',
  'train/format_correct', 'actor/entropy', 'actor/ppo_kl', 'actor/pg_loss', 'critic/vf_loss', 'critic/vf_explained_var', 'response_length/mean'];

// Metrics draws the runs of the page in the same charts.
export class Metrics {
  constructor(main, page) {
    this.main = main;
    this.page = page;
    this.data = new Map(); // run -> {lines, series}
    this.charts = new Map();
    this.seen = new IntersectionObserver((entries) => {
      for (const e of entries) e.target.chart?.show(e.isIntersecting);
    }, { rootMargin: '200px' });
    this.sized = new ResizeObserver(later(() => {
      for (const c of this.charts.values()) { c.stale = true; c.show(c.visible); }
    }, 100));
    this.redraw = later(() => this.draw(), 30);
  }

  title() { return 'Metrics'; }

  async show(params) {
    this.params = params;
    this.options = { smooth: clamp(Number(params.smooth ?? 0)), log: params.log === '1' };
    const search = el('input', {
      type: 'search', id: 'search', value: params.q ?? '', placeholder: 'for example entropy', 'aria-label': 'search of metric names',
      oninput: later(() => { this.params.q = search.value; patch({ q: search.value }); this.draw(); }, 120),
    });
    this.search = search;
    const shown = el('output', { class: 'numeric' }, this.options.smooth.toFixed(2));
    const smooth = el('input', {
      type: 'range', id: 'smooth', min: 0, max: 0.99, step: 0.01, value: this.options.smooth, 'aria-label': 'smoothing',
      oninput: () => {
        this.options.smooth = Number(smooth.value);
        shown.value = this.options.smooth.toFixed(2);
        patch({ smooth: this.options.smooth || null });
        this.redraw();
      },
    });
    this.body = el('div', { class: 'sections' });
    this.main.replaceChildren(
      el('div', { class: 'bar', role: 'search' },
        el('label', { class: 'field' }, el('span', {}, 'Search'), search),
        el('label', { class: 'field' }, el('span', {}, 'Smoothing'), el('span', { class: 'slider' }, smooth, shown)),
        checkbox('Log scale', this.options.log, (on) => { this.options.log = on; patch({ log: on ? 1 : null }); this.draw(); }, { id: 'log' }),
        el('span', { class: 'muted', id: 'metric-count', role: 'status' })),
      this.body);
    this.layout = null;
    await this.load();
  }

  // load reads the lines that were added to the runs since the last time.
  async load() {
    const runs = this.page.shown();
    await Promise.all(runs.map((r) => this.more(r.id)));
    this.draw();
  }

  async more(run) {
    for (;;) {
      const had = this.data.get(run);
      const got = await this.page.source.metrics(run, had?.lines ?? 0, had?.generation);
      if (!had || got.reset || this.page.source.fixed) {
        // After a reset the answer has the file from its start.
        this.data.set(run, { lines: got.lines, generation: got.generation, series: new Map(Object.entries(got.series ?? {})) });
      } else {
        had.lines = got.lines;
        for (const [name, points] of Object.entries(got.series ?? {})) had.series.set(name, [...had.series.get(name) ?? [], ...points]);
      }
      if (!got.more) return;
    }
  }

  live(change) {
    if (change.kind !== 'metrics' || !this.page.shown().some((r) => r.id === change.run)) return;
    // One request at a time: two answers from the same line would add it twice.
    this.queue = (this.queue ?? Promise.resolve()).then(() => this.more(change.run)).then(() => this.redraw(), () => {});
  }

  stop() {
    this.seen.disconnect();
    this.sized.disconnect();
  }

  key(e) {
    if (e.key !== '/') return false;
    this.search.focus();
    return true;
  }

  // draw updates the charts, and lays them out anew if other metrics are to be shown.
  draw() {
    const runs = this.page.shown();
    const names = new Set();
    for (const r of runs) for (const name of this.data.get(r.id)?.series.keys() ?? []) names.add(name);
    if (names.size === 0) {
      this.layout = null;
      this.charts.clear();
      this.body.replaceChildren(notice(runs.length ? 'The runs shown have no metrics yet. They appear here as soon as metrics.jsonl has a line.' : 'No run is selected.'));
      return;
    }
    const pinned = (this.params.names ?? '').split(',').filter(Boolean);
    const words = (this.params.q ?? '').toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = [...names].filter((n) => words.every((w) => n.toLowerCase().includes(w))).sort();
    const sections = pinned.length && !words.length ? [['Selected', pinned]] : groups(wanted, words.length > 0);
    const layout = JSON.stringify(sections);
    if (layout !== this.layout) this.build(sections, pinned);
    this.layout = layout;
    document.getElementById('metric-count').textContent = words.length ? `${plural(wanted.length, 'metric')} of ${names.size}` : plural(names.size, 'metric');
    for (const chart of this.charts.values()) {
      chart.set(runs.map((r) => ({ label: r.name, slot: r.slot, points: this.data.get(r.id)?.series.get(chart.name) ?? [] })).filter((l) => l.points.length), this.options);
    }
  }

  build(sections, pinned) {
    this.charts.clear();
    this.seen.disconnect();
    this.sized.disconnect();
    const parts = sections.map(([title, names, closed]) => {
      const grid = el('div', { class: 'charts' }, names.map((name) => {
        const cursor = (step) => { for (const c of this.charts.values()) c.at(step); };
        const chart = new Chart(name, cursor);
        // A metric may be in two sections; both charts are updated.
        this.charts.set(title + ' ' + name, chart);
        chart.root.chart = chart;
        const on = pinned.includes(name);
        chart.buttons.append(el('a', {
          class: 'quiet', href: this.address({ names: (on ? pinned.filter((n) => n !== name) : [...pinned, name]).join(',') }),
          'aria-label': (on ? 'remove from the selection: ' : 'add to the selection: ') + name,
        }, on ? 'remove' : 'select'));
        this.seen.observe(chart.root);
        this.sized.observe(chart.root);
        return chart.root;
      }));
      const back = title === 'Selected' && el('a', { href: this.address({ names: '' }) }, 'Show all metrics');
      return el('details', { class: 'section', open: !closed }, el('summary', {}, `${title} `, el('span', { class: 'muted' }, String(names.length))), back, grid);
    });
    if (parts.length === 0) parts.push(notice('No metric has a name with these words.'));
    this.body.replaceChildren(...parts);
  }

  // address is the link to the charts with other parameters.
  address(changes) {
    return link('metrics', { runs: this.page.runsParam(), smooth: this.options.smooth || null, log: this.options.log ? 1 : null, q: null, ...changes });
  }
}

// groups are sections by the first word of the names, the most read metrics before them.
function groups(names, all) {
  const by = new Map();
  for (const n of names) {
    const word = n.includes('/') ? n.slice(0, n.indexOf('/')) : 'other';
    by.set(word, [...by.get(word) ?? [], n]);
  }
  const main = first.filter((n) => names.includes(n));
  const rest = [...by].map(([word, list]) => [word, list, !all && main.length > 0]);
  return main.length && !all ? [['Overview', main], ...rest] : rest;
}

function clamp(x) {
  return x >= 0 && x <= 0.99 ? x : 0;
}
