// The page: navigation, selection of runs, keys, theme and live changes. Each view is a
// module of its own.
import { el, notice, number } from './dom.js';
import { parse, link } from './route.js';
import { open } from './source.js';
import { swatch } from './chart.js';
import { Metrics } from './metrics.js';
import { Config } from './config.js';
import { Episodes } from './episodes.js';
import { Episode } from './episode.js';

const views = { metrics: Metrics, episodes: Episodes, config: Config, episode: Episode };
const at = (id) => document.getElementById(id);

const keys = [
  ['1, 2, 3', 'metrics, episodes, configuration'],
  ['/', 'search'],
  ['j, k or ↓, ↑', 'next and previous episode of the list'],
  ['Enter', 'open the episode'],
  ['→, ← or j, k', 'next and previous turn of an episode; next and previous token where a token has the focus'],
  [']  and  [', 'next and previous episode'],
  ['c', 'turns or credit of an episode'],
  ['Esc', 'back to the list'],
  ['t', 'theme: of the system, dark, light'],
  ['?', 'this help'],
];

// page is what views know of their surroundings.
const page = {
  source: open(),
  runs: [],
  selected: null, // ids, null for all

  // shown are the runs that are selected.
  shown() {
    return this.runs.filter((r) => !this.selected || this.selected.has(r.id));
  },
  // runsParam is the parameter of the address that selects them.
  runsParam() {
    return this.selected ? this.shown().map((r) => r.id).join(',') || 'none' : null;
  },
  select(text) {
    const ids = (text ?? '').split(',').filter((id) => this.run(id));
    this.selected = !text || ids.length === this.runs.length ? null : new Set(ids);
  },
  run(id) {
    return this.runs.find((r) => r.id === id);
  },
  // listAddress is where the list of episodes was left.
  listAddress: null,
  refresh: route,
};

let view = null;
let name = '';
let turn = 0; // counts navigations: a view that loaded too late is not shown

async function route() {
  const { view: wanted, params } = parse(location.hash);
  const mine = ++turn;
  at('tip').hidden = true;
  if (wanted === 'metrics' || wanted === 'config') page.select(params.runs);
  drawNav(wanted);
  drawRuns(wanted);
  if (name === wanted && view?.update && view.update(params)) return;
  view?.stop?.();
  const main = at('main');
  const fresh = document.createElement('div');
  fresh.className = 'view ' + (views[wanted] ? wanted : '');
  main.replaceChildren(fresh);
  view = null;
  name = wanted;
  if (!views[wanted]) {
    fresh.append(notice('There is no such view. ', el('a', { href: '#/metrics' }, 'Metrics')));
    return;
  }
  const made = new views[wanted](fresh, page);
  view = made;
  document.title = made.title(params) + ' · vagen view';
  try {
    await made.show(params);
  } catch (e) {
    if (mine === turn) fail(fresh, e);
  }
}

// fail explains why a view has nothing to show.
function fail(main, e) {
  main.replaceChildren(notice('This view cannot be shown. ', String(e.message ?? e)));
}

function drawNav(wanted) {
  const runs = page.runsParam();
  const links = [['metrics', 'Metrics'], ['episodes', 'Episodes'], ['config', 'Configuration']];
  at('nav').replaceChildren(...links.map(([v, text]) => el('a', {
    href: v === 'episodes' && page.listAddress ? page.listAddress : link(v, { runs: v === 'episodes' ? null : runs }),
    'aria-current': v === wanted || v === 'episodes' && wanted === 'episode' ? 'page' : null,
  }, text)));
}

// drawRuns shows the runs with their colours as switches, and what is wrong with them.
function drawRuns(wanted) {
  const choose = wanted === 'metrics' || wanted === 'config';
  at('runs').hidden = !choose;
  at('runs').replaceChildren(...page.runs.map((r) => {
    const box = el('input', {
      type: 'checkbox', checked: page.shown().includes(r), onchange: () => {
        const ids = new Set(page.shown().map((s) => s.id));
        if (box.checked) ids.add(r.id); else ids.delete(r.id);
        page.selected = ids;
        const { view: v, params } = parse(location.hash);
        history.replaceState(null, '', link(v, { ...params, runs: ids.size === page.runs.length ? null : page.runsParam() }));
        route();
      },
    });
    const about = [`${number(r.steps)} steps`, r.estimator, r.seed !== undefined && `seed ${r.seed}`, r.live && 'running'].filter(Boolean).join(', ');
    return el('label', { class: 'run' }, box, swatch(r.slot), el('span', { class: 'run-name' }, r.name), el('span', { class: 'muted' }, about));
  }));
  const lines = (wanted === 'episode' ? [] : page.runs).flatMap((r) => (r.problems ?? []).map((p) => el('li', {}, el('strong', {}, r.name), ': ', p)));
  at('problems').replaceChildren(...lines.length ? [el('details', { class: 'problems' },
    el('summary', {}, `${lines.length} ${lines.length === 1 ? 'note' : 'notes'} about the files of the runs`), el('ul', {}, lines))] : []);
}

async function loadRuns() {
  page.runs = (await page.source.runs()).map((r, i) => ({ ...r, slot: i }));
}

const themes = ['', 'dark', 'light'];
const themeNames = { '': 'system', dark: 'dark', light: 'light' };

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  at('theme').textContent = 'theme: ' + themeNames[theme];
  at('theme').setAttribute('aria-label', `colours: ${themeNames[theme]}. Press for the next.`);
  try {
    localStorage.setItem('vagen-theme', theme);
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
  view?.themed?.();
}

function nextTheme() {
  setTheme(themes[(themes.indexOf(document.documentElement.dataset.theme ?? '') + 1) % themes.length]);
}

function storedTheme() {
  try {
    const theme = localStorage.getItem('vagen-theme');
    return themes.includes(theme) ? theme : '';
  } catch {
    return '';
  }
}

function help() {
  const d = at('keys');
  if (d.open) {
    d.close();
    return;
  }
  d.replaceChildren(el('h2', { id: 'keys-title' }, 'Keys'),
    el('dl', {}, keys.map(([k, what]) => [el('dt', {}, el('kbd', {}, k)), el('dd', {}, what)])),
    el('p', { class: 'muted' }, 'The address of the page restores what it shows: copy it to share a view.'),
    el('button', { type: 'button', onclick: () => d.close() }, 'Close'));
  d.showModal();
}

function press(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || at('keys').open && e.key !== '?') return;
  const typing = e.target.closest?.('input, select, textarea');
  if (typing) {
    if (e.key === 'Escape') typing.blur();
    return;
  }
  const go = { 1: 'metrics', 2: 'episodes', 3: 'config' }[e.key];
  if (e.key === '?') help();
  else if (e.key === 't') nextTheme();
  else if (go) location.hash = [...at('nav').children][{ metrics: 0, episodes: 1, config: 2 }[go]].getAttribute('href');
  else if (!view?.key?.(e)) return;
  e.preventDefault();
}

const words = { events: 'live', polling: 'live, by polling', off: 'server not reached', report: 'report' };

async function start() {
  setTheme(storedTheme());
  at('theme').addEventListener('click', nextTheme);
  at('help').addEventListener('click', help);
  at('skip').addEventListener('click', (e) => { e.preventDefault(); at('main').focus(); });
  addEventListener('keydown', press);
  addEventListener('hashchange', route);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => view?.themed?.());
  try {
    await loadRuns();
  } catch (e) {
    fail(at('main'), e);
    return;
  }
  if (page.runs.length === 0) {
    at('main').replaceChildren(notice('There is no run. Start the viewer with the folder of one: vagen view RUN'));
    return;
  }
  await route();
  page.source.listen(async (change) => {
    view?.live?.(change);
    if (change.kind !== 'metrics') return;
    await loadRuns().catch(() => {});
    if (!at('runs').contains(document.activeElement)) drawRuns(name);
  }, (state) => {
    at('live').textContent = words[state];
    at('live').dataset.state = state;
  });
}

start();
