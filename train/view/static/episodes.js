// The view of episodes: filters, and a list that makes elements for the visible rows only.
import { el, later, notice, number, signed, select, plural } from './dom.js';
import { link, patch } from './route.js';

const names = ['kind', 'success', 'env', 'end', 'step', 'min', 'max', 'text', 'order'];
const pageSize = 100; // episodes of a request

export class Episodes {
  constructor(main, page) {
    this.main = main;
    this.page = page;
  }

  title() { return 'Episodes'; }

  async show(params) {
    this.run = this.page.run(params.run) ?? this.page.runs[0];
    this.filter = Object.fromEntries(names.map((n) => [n, params[n] ?? '']));
    this.at = Number(params.at ?? 0) || 0;
    this.form = el('form', { class: 'bar', role: 'search', 'aria-label': 'filters', onsubmit: (e) => e.preventDefault() });
    this.count = el('span', { class: 'muted', id: 'count', role: 'status' });
    this.space = el('div', { class: 'space', role: 'rowgroup' });
    this.body = el('div', { class: 'rows', tabindex: 0, onscroll: () => this.paint() }, this.space);
    this.table = el('div', { class: 'list', role: 'table', 'aria-label': 'episodes' }, heading(), this.body);
    this.empty = el('div', {});
    this.main.replaceChildren(this.form, this.count, this.table, this.empty);
    this.resized = () => this.paint();
    addEventListener('resize', this.resized);
    await this.reload();
    this.drawForm();
    this.select(Math.min(this.at, Math.max(0, this.total - 1)), true);
  }

  stop() {
    this.stopped = true;
    removeEventListener('resize', this.resized);
    this.request?.abort();
  }

  remember() {
    if (this.stopped) return; // the address belongs to another view
    patch({ run: this.run.id, ...this.filter, at: this.at || null });
    this.page.listAddress = location.hash;
  }

  drawForm() {
    const f = this.facets ?? {};
    const choice = (label, name, values) => select(label, values, this.filter[name], (v) => this.change(name, v), { id: 'f-' + name });
    const any = (values, text) => [['', text], ...(values ?? []).map((v) => [String(v), String(v)])];
    const input = (label, name, props) => {
      const i = el('input', { id: 'f-' + name, value: this.filter[name], 'aria-label': label, ...props, oninput: later(() => this.change(name, i.value), 200) });
      return el('label', { class: 'field' }, el('span', {}, label), i);
    };
    this.form.replaceChildren(
      this.page.runs.length > 1 && select('Run', this.page.runs.map((r) => [r.id, r.name]), this.run.id, (v) => { location.hash = link('episodes', { run: v }); }, { id: 'f-run' }) || '',
      choice('Kind', 'kind', [['', 'all'], ['train', 'training'], ['val', 'validation'], ['measured', 'measurement']]),
      choice('Outcome', 'success', [['', 'all'], ['true', 'success'], ['false', 'failure']]),
      choice('Environment', 'env', any(f.env, 'all')),
      choice('End', 'end', any(f.end, 'all')),
      choice('Step', 'step', any(f.step, 'all')),
      input('Reward from', 'min', { type: 'number', step: 'any', class: 'short' }),
      input('to', 'max', { type: 'number', step: 'any', class: 'short' }),
      choice('Order', 'order', [['', 'as stored'], ['-step', 'newest first'], ['step', 'oldest first'], ['-reward', 'best first'], ['reward', 'worst first']]),
      input('Text', 'text', { type: 'search', placeholder: 'in observations and responses' }),
      el('button', { type: 'button', class: 'quiet', onclick: () => { location.hash = link('episodes', { run: this.run.id }); } }, 'clear'));
  }

  async change(name, value) {
    if (this.filter[name] === value) return;
    this.filter[name] = value;
    this.at = 0;
    await this.reload();
    this.select(0, true);
  }

  // reload asks for the first episodes of the filter again.
  async reload() {
    this.pages = new Map();
    this.asked = new Set();
    this.request?.abort();
    this.request = new AbortController();
    try {
      this.keep(0, await this.page.source.episodes(this.run.id, { ...this.filter, offset: 0, limit: pageSize }, this.request.signal));
      this.failed = null;
    } catch (e) {
      if (e.name === 'AbortError') return;
      this.total = 0;
      this.failed = e;
    }
    this.asked.add(0);
    this.remember();
    this.layout();
  }

  keep(offset, answer) {
    this.total = answer.total;
    this.of = answer.of;
    if (answer.facets) this.facets = answer.facets;
    this.pages.set(offset, answer.episodes ?? []);
  }

  layout() {
    this.rowHeight = parseFloat(getComputedStyle(this.main).getPropertyValue('--row')) || 40;
    this.space.style.height = this.total * this.rowHeight + 'px';
    this.table.setAttribute('aria-rowcount', this.total + 1);
    this.count.textContent = plural(this.total, 'episode') + (this.page.source.fixed ? ` in this report, which holds a sample of ${number(this.of)}` : '');
    this.table.hidden = this.total === 0;
    const filtered = names.some((n) => n !== 'order' && this.filter[n]);
    this.empty.replaceChildren(this.total > 0 ? '' : notice(this.failed ? 'The episodes cannot be read. ' + this.failed.message
      : filtered ? 'No episode matches the filters.'
        : 'This run has no stored episodes. Set trainer.rollout_data_dir to store them; trainer.log_image.enable stores their images.'));
    this.paint();
  }

  // paint makes the elements of the visible rows.
  paint() {
    if (!this.rowHeight || !this.total) return this.space.replaceChildren();
    const height = this.body.clientHeight || 600;
    const from = Math.max(0, Math.floor(this.body.scrollTop / this.rowHeight) - 8);
    const to = Math.min(this.total, Math.ceil((this.body.scrollTop + height) / this.rowHeight) + 8);
    const rows = [];
    for (let i = from; i < to; i++) rows.push(this.row(i));
    const focused = this.space.contains(document.activeElement);
    this.space.replaceChildren(...rows);
    if (focused) this.space.querySelector('[data-at="' + this.at + '"] a')?.focus({ preventScroll: true });
  }

  episode(i) {
    const offset = i - i % pageSize;
    const page = this.pages.get(offset);
    if (!page) this.fetch(offset);
    return page?.[i - offset];
  }

  async fetch(offset) {
    if (this.asked.has(offset)) return;
    this.asked.add(offset);
    const mine = this.pages; // a reload begins a new map
    try {
      const answer = await this.page.source.episodes(this.run.id, { ...this.filter, offset, limit: pageSize }, this.request.signal);
      if (mine !== this.pages) return;
      this.keep(offset, answer);
      this.paint();
    } catch (e) {
      if (e.name !== 'AbortError') this.count.textContent = 'These episodes cannot be read. ' + e.message;
    }
  }

  address(i) {
    const e = this.episode(i);
    const from = link('', { ...this.filter }).replace(/^#\/\??/, '');
    return e && link('episode', { run: this.run.id, key: e.key, list: from, at: i });
  }

  row(i) {
    const e = this.episode(i);
    const r = el('div', { class: 'row' + (i === this.at ? ' at' : ''), role: 'row', 'aria-rowindex': i + 2, 'data-at': i });
    r.style.transform = `translateY(${i * this.rowHeight}px)`;
    if (!e) {
      r.append(el('span', { class: 'muted', role: 'cell' }, 'loading'));
      return r;
    }
    const cell = (cls, ...children) => el('span', { role: 'cell', class: cls }, ...children);
    r.append(
      cell('key', el('a', { href: this.address(i), onclick: () => this.leave(i) }, e.key)),
      cell('outcome ' + outcome(e), outcomeText(e)),
      cell('reward numeric', signed(e.reward, 3)),
      cell('env', e.env),
      cell('end', e.end),
      cell('turns numeric', plural(e.turns, 'turn')),
      cell('marks', e.scores && el('span', { class: 'chip', title: 'values and advantages were recorded' }, 'scores'),
        e.measured && el('span', { class: 'chip strong', title: 'advantages of the turns were measured' }, 'measured')),
      cell('excerpt muted', e.excerpt));
    return r;
  }

  leave(i) {
    this.at = i;
    this.remember();
  }

  select(i, top) {
    if (!this.total) return;
    this.at = Math.max(0, Math.min(this.total - 1, i));
    const y = this.at * this.rowHeight;
    if (y < this.body.scrollTop || top && y + this.rowHeight > this.body.scrollTop + this.body.clientHeight) this.body.scrollTop = y;
    else if (y + this.rowHeight > this.body.scrollTop + this.body.clientHeight) this.body.scrollTop = y + this.rowHeight - this.body.clientHeight;
    this.paint();
    this.remember();
  }

  key(e) {
    const move = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: 12, PageUp: -12 }[e.key];
    if (move) this.select(this.at + move);
    else if (e.key === 'Enter' && this.total && e.target.tagName !== 'A' && e.target.tagName !== 'BUTTON') {
      const address = this.address(this.at);
      if (address) location.hash = address;
    } else if (e.key === '/') document.getElementById('f-text').focus();
    else return false;
    return true;
  }

  // live shows that episodes were added. The list keeps its position.
  async live(change) {
    if (change.kind !== 'episodes' || change.run !== this.run.id) return;
    const top = this.body.scrollTop;
    const before = this.total;
    await this.reload();
    this.body.scrollTop = top;
    this.paint();
    if (this.total > before) this.count.textContent = plural(this.total, 'episode') + `, ${number(this.total - before)} new`;
  }
}

function heading() {
  const names = { key: 'Episode', outcome: 'Outcome', reward: 'Reward', env: 'Environment', end: 'End', turns: 'Turns', marks: 'Recorded', excerpt: 'First response' };
  return el('div', { role: 'rowgroup' }, el('div', { class: 'row head', role: 'row', 'aria-rowindex': 1 },
    Object.entries(names).map(([cls, text]) => el('span', { class: cls, role: 'columnheader' }, text))));
}

// outcome is the class of how an episode ended.
export function outcome(e) {
  return e.error ? 'bad' : e.success ? 'good' : 'bad';
}

export function outcomeText(e) {
  return e.error ? '! unusable' : e.success ? '✓ success' : '✗ failure';
}
