// The view of an episode: its turns, or the credit that its tokens and turns get.
import { el, notice, number, signed, picture } from './dom.js';
import { link, parse, patch } from './route.js';
import { outcome, outcomeText } from './episodes.js';
import { Credit } from './credit.js';
import { turnCard, total, tone } from './turns.js';

export class Episode {
  constructor(main, page) {
    this.main = main;
    this.page = page;
  }

  title(params) { return 'Episode ' + (params.key ?? ''); }

  async show(params) {
    this.params = params;
    this.run = this.page.run(params.run) ?? this.page.runs[0];
    this.episode = await this.page.source.episode(this.run.id, params.key ?? '');
    this.turn = Math.max(0, Math.min((this.episode.turns ?? []).length - 1, Number(params.turn ?? 0) || 0));
    this.body = el('div', { class: 'episode-body' });
    this.steps = el('span', { class: 'steps' });
    this.tabs = el('div', { class: 'tabs', role: 'group', 'aria-label': 'what is shown of the episode' });
    const e = this.episode;
    this.main.replaceChildren(
      el('div', { class: 'episode-head' },
        el('div', { class: 'episode-title' },
          el('a', { href: this.back(), class: 'quiet', title: 'Esc' }, '← list'),
          el('h2', {}, e.key), el('span', { class: 'outcome ' + outcome(e) }, outcomeText(e)), this.steps),
        el('dl', { class: 'facts' }, facts(e, this.run).map(([k, v]) => el('div', {}, el('dt', {}, k), el('dd', {}, v)))),
        (e.error || e.problems?.length > 0) && el('ul', { class: 'problems' }, [e.error && 'The episode is unusable: ' + e.error, ...e.problems ?? []].filter(Boolean).map((p) => el('li', {}, p)))),
      this.tabs, this.body);
    this.neighbours();
    await this.draw(params.view === 'credit' ? 'credit' : 'turns');
  }

  // update serves another turn or another view of the same episode.
  update(params) {
    if (params.key !== this.params.key || (params.run ?? '') !== (this.params.run ?? '')) return false;
    const view = params.view === 'credit' ? 'credit' : 'turns';
    if (view === this.view && (params.turn ?? '') === (this.params.turn ?? '')) return false;
    this.params = params;
    this.turn = Number(params.turn ?? 0) || 0;
    if (view !== this.view) this.draw(view);
    else this.go(this.turn);
    return true;
  }

  back() {
    const from = parse('#/episodes?' + (this.params.list ?? '')).params;
    return link('episodes', { run: this.run.id, ...from, at: this.params.at });
  }

  // neighbours links the episodes before and after this one in the list it came from.
  async neighbours() {
    const { params: filter } = parse('#/x?' + (this.params.list ?? ''));
    let at = Number(this.params.at ?? -1);
    const ask = (offset, limit) => this.page.source.episodes(this.run.id, { ...filter, offset, limit }).catch(() => ({ total: 0, episodes: [] }));
    let got = null, from = 0;
    if (at >= 0) {
      from = Math.max(0, at - 1);
      got = await ask(from, 3);
    }
    const has = () => (got?.episodes ?? []).some((e) => e.key === this.episode.key);
    if (!has()) {
      from = 0;
      got = await ask(0, 500);
    }
    if (!has()) { // far down the list: among those of its step
      Object.assign(filter, { kind: this.episode.kind, step: String(this.episode.step) });
      got = await ask(0, 500);
    }
    const i = got.episodes.findIndex((e) => e.key === this.episode.key);
    at = from + i;
    const address = (d) => i >= 0 && got.episodes[i + d] ? link('episode', { ...this.kept(), list: link('', filter).replace(/^#\/\??/, ''), key: got.episodes[i + d].key, at: at + d }) : null;
    this.before = address(-1);
    this.after = address(1);
    const button = (href, text, label) => el('a', { class: 'quiet', href, 'aria-label': label, 'aria-disabled': href ? null : 'true', title: label }, text);
    this.steps.replaceChildren(button(this.before, '‹ previous', 'previous episode, key ['),
      el('span', { class: 'muted' }, i >= 0 ? `${number(at + 1)} of ${number(got.total)}` : ''), button(this.after, 'next ›', 'next episode, key ]'));
  }

  // kept are the parameters that hold for other episodes as well.
  kept() {
    const { params } = parse(location.hash);
    return { ...params, turn: null };
  }

  async draw(view) {
    this.view = view;
    this.credit?.stop();
    this.credit = null;
    this.params = parse(location.hash).params;
    const tab = (v, text) => el('a', { href: link('episode', { ...this.params, view: v === 'turns' ? null : v }), 'aria-current': v === view ? 'true' : null }, text);
    this.tabs.replaceChildren(tab('turns', 'Turns'), tab('credit', 'Credit'));
    if (view === 'credit') {
      this.credit = new Credit(this.body, this.page, this.run, this.episode);
      await this.credit.show(this.params);
      return;
    }
    this.drawTurns();
  }

  stop() { this.credit?.stop(); }
  themed() { this.credit?.themed(); }

  key(e) {
    if (this.credit?.key(e)) return true;
    const move = { ArrowRight: 1, j: 1, ArrowLeft: -1, k: -1 }[e.key];
    if (move && this.view === 'turns') this.go(this.turn + move, true);
    else if (move && this.credit) this.credit.turnKey(move);
    else if (e.key === ']' && this.after) location.hash = this.after;
    else if (e.key === '[' && this.before) location.hash = this.before;
    else if (e.key === 'Escape') location.hash = this.back();
    else if (e.key === 'c') location.hash = link('episode', { ...parse(location.hash).params, view: this.view === 'credit' ? null : 'credit' });
    else return false;
    return true;
  }

  drawTurns() {
    const turns = this.episode.turns ?? [];
    if (turns.length === 0) {
      this.body.replaceChildren(notice('No turn was recorded for this episode.'));
      return;
    }
    this.film = el('nav', { class: 'film', 'aria-label': 'turns' }, turns.map((t, i) => {
      const image = picture(t.images?.[0]);
      return el('button', { type: 'button', class: 'frame', 'aria-label': `turn ${i + 1}, reward ${number(total(t))}`, onclick: () => this.go(i, true) },
        image ? el('img', { src: image, alt: '', class: 'pixelated' }) : el('span', { class: 'frame-text', 'aria-hidden': 'true' }, 'text'),
        el('span', { class: 'frame-label' }, `${i + 1} `, el('span', { class: 'numeric ' + tone(total(t)) }, signed(total(t), 2))));
    }));
    this.cards = turns.map((t, i) => turnCard(t, i));
    this.body.replaceChildren(turns.length > 1 ? this.film : '', ...this.cards);
    this.go(this.turn);
  }

  go(i, move) {
    if (!this.cards || this.view !== 'turns') return;
    this.turn = Math.max(0, Math.min(this.cards.length - 1, i));
    this.cards.forEach((c, n) => c.classList.toggle('at', n === this.turn));
    [...this.film.children].forEach((f, n) => f.setAttribute('aria-current', n === this.turn ? 'true' : 'false'));
    if (!move) {
      if (this.turn > 0) this.cards[this.turn].scrollIntoView({ block: 'start' });
      return;
    }
    patch({ turn: this.turn || null });
    this.params.turn = this.turn ? String(this.turn) : undefined;
    this.cards[this.turn].focus({ preventScroll: true });
    this.cards[this.turn].scrollIntoView({ block: 'start', behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth' });
  }
}

const kinds = { train: 'training', val: 'validation', measured: 'measurement (vagen credit)' };

function facts(e, run) {
  return [['run', run.name], ['kind', kinds[e.kind]], ['environment', e.env], ['seed', String(e.seed)], ['step', number(e.step)], ['reward', signed(e.reward)],
    ['end', e.end], ['turns', number((e.turns ?? []).length)], ['tokens', number(e.tokens)]].filter(([, v]) => v !== undefined && v !== 'undefined');
}
