// The view of configurations: a table of keys and of their values in the runs shown.
import { el, later, notice, checkbox, plural } from './dom.js';
import { patch } from './route.js';

export class Config {
  constructor(main, page) {
    this.main = main;
    this.page = page;
  }

  title() { return 'Configuration'; }

  async show(params) {
    this.params = params;
    const runs = this.page.shown();
    this.keys = runs.length ? await this.page.source.config(runs.map((r) => r.id)) : [];
    // One run differs from nothing, so all of its keys are shown.
    this.only = runs.length > 1 && params.only !== '0';
    const search = el('input', {
      type: 'search', id: 'search', value: params.q ?? '', placeholder: 'for example gamma', 'aria-label': 'search of keys and values',
      oninput: later(() => { this.params.q = search.value; patch({ q: search.value }); this.draw(); }, 120),
    });
    this.search = search;
    this.count = el('span', { class: 'muted', role: 'status' });
    this.body = el('div', { class: 'wide', tabindex: 0, role: 'region', 'aria-label': 'table of keys' });
    this.main.replaceChildren(
      el('div', { class: 'bar', role: 'search' },
        el('label', { class: 'field' }, el('span', {}, 'Search'), search),
        runs.length > 1 && checkbox('Only differences', this.only, (on) => { this.only = on; patch({ only: on ? null : 0 }); this.draw(); }, { id: 'only' }),
        this.count),
      this.body);
    this.draw();
  }

  key(e) {
    if (e.key !== '/') return false;
    this.search.focus();
    return true;
  }

  draw() {
    const runs = this.page.shown();
    // The report has the keys of all runs; the server sends those of the runs asked for.
    const columns = this.page.source.fixed ? runs.map((r) => this.page.runs.indexOf(r)) : runs.map((_, i) => i);
    const words = (this.params.q ?? '').toLowerCase().split(/\s+/).filter(Boolean);
    const rows = this.keys.map((k) => ({ key: k.key, values: columns.map((c) => k.values[c] ?? null) }))
      .map((k) => ({ ...k, differs: k.values.some((v) => v !== k.values[0]) }))
      .filter((k) => (!this.only || k.differs) && words.every((w) => (k.key + ' ' + k.values.join(' ')).toLowerCase().includes(w)));
    this.count.textContent = `${plural(rows.length, 'key')} of ${this.keys.length}`;
    if (rows.length === 0) {
      this.body.replaceChildren(notice(runs.length === 0 ? 'No run is selected.' : this.keys.length === 0 ? 'The runs shown have no config.yaml.'
        : words.length ? 'No key or value has these words.' : 'The configurations of the runs shown are equal.'));
      return;
    }
    // The roles are written out, because a narrow page lays the table out in another way.
    this.body.replaceChildren(el('table', { class: 'keys', role: 'table' },
      el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, el('th', { role: 'columnheader' }, 'Key'), runs.map((r) => el('th', { role: 'columnheader' }, r.name)))),
      el('tbody', { role: 'rowgroup' }, rows.map((k) => el('tr', { role: 'row', class: k.differs ? 'differs' : null },
        el('th', { role: 'rowheader' }, k.key),
        k.values.map((v) => el('td', { role: 'cell' }, v !== k.values[0] ? el('mark', {}, v === null ? '(not set)' : v === '' ? '(empty)' : v) : v ?? '(not set)')))))));
  }
}
