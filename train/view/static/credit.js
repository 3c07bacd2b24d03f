// The credit of an episode: every token coloured by a number, two estimators side by side,
// and for every turn what the estimators claim and what was measured.
import { el, later, notice, number, signed, select, checkbox } from './dom.js';
import { scale } from './colors.js';
import { parse, patch } from './route.js';
import { Tokens, visible } from './tokens.js';
import { turnTable, claimsOf } from './claims.js';

// columns are the numbers that tokens can be coloured by.
const columns = [
  ['advantage', 'advantage'], ['return', 'return'], ['loss', 'loss mask'], ['reward', 'reward'], ['value', 'value'],
  ['log_ratio', 'log-ratio'], ['entropy', 'entropy'], ['sampled', 'log-prob, sampling'], ['old', 'log-prob, before the update'],
  ['reference', 'log-prob, reference'],
];
const estimated = ['advantage', 'return'];

// truth makes a number of a switch in a configuration.
function truth(text) {
  return { true: '1', false: '0' }[text] ?? text;
}

export class Credit {
  constructor(main, page, run, episode) {
    Object.assign(this, { main, page, run, episode, fixed: page.source.fixed });
  }

  async show(params) {
    if (!(this.episode.rows ?? []).length) {
      this.main.replaceChildren(notice('The tokens of this episode were not stored. They are in the files of trainer.rollout_data_dir.'));
      return;
    }
    const none = (e) => { this.measuredProblem = e.message; return null; };
    [this.estimators, this.measured, this.settings] = await Promise.all([
      this.page.source.estimators(), this.episode.measured ? this.page.source.measured(this.run.id, this.episode.key).catch(none) : null, this.configuration()]);
    this.color = columns.some(([id]) => id === params.color) ? params.color : 'advantage';
    this.common = params.scale !== 'own';
    const has = (name) => this.estimators.some((e) => e.name === name);
    const own = has(this.run.estimator) ? this.run.estimator : this.estimators[0]?.name ?? 'recorded';
    const other = ['masked_gae', 'gae', 'grpo', 'bi_level_gae'].find((n) => n !== own && has(n)) ?? own;
    this.sides = [['a', own], ['b', other]].map(([id, fallback]) => {
      const s = { id, name: params[id] === 'recorded' || has(params[id]) ? params[id] : fallback, params: {}, rows: [], claims: [], problem: '' };
      this.fillParams(s, params);
      return s;
    });
    this.layout();
    await Promise.all(this.sides.map((s) => this.compute(s)));
  }

  async configuration() {
    try {
      const column = this.fixed ? this.page.runs.indexOf(this.run) : 0;
      return new Map((await this.page.source.config([this.run.id])).map((k) => [k.key, k.values[column]]));
    } catch {
      return new Map(); // without a configuration the estimators' own defaults are used
    }
  }

  about(s) { return this.estimators.find((e) => e.name === s.name); }

  // fillParams sets the parameters: from the address, else from the configuration of the
  // run, else the estimator's defaults. A report has only those of the run.
  fillParams(s, given) {
    s.params = {};
    for (const p of this.about(s)?.params ?? []) {
      const asked = this.fixed ? [] : [given[`${s.id}_${p.name}`], given[p.name]];
      const found = [...asked, truth(this.settings.get('algorithm.' + p.name))]
        .find((v) => v !== undefined && v !== null && v !== '' && Number.isFinite(Number(v)));
      s.params[p.name] = found === undefined ? p.default : Number(found);
    }
  }

  // move sets a parameter of a side.
  move(s, name, x) {
    s.params[name] = x;
    this.remember();
    s.send();
  }

  // compute asks for the advantages and returns of one side.
  async compute(s) {
    s.request?.abort();
    const mine = s.request = new AbortController();
    let got;
    if (s.name === 'recorded') {
      const rows = this.episode.rows.map((r) => r.columns ?? {});
      got = { rows, problem: rows.some((r) => r.advantage) ? '' : 'No advantage was recorded in training.' };
    } else {
      try {
        got = await this.page.source.credit(this.run.id, this.episode.key, s.name, s.params, mine.signal);
      } catch (e) {
        got = { problem: String(e.message) };
      }
      if (mine.signal.aborted) return;
    }
    s.rows = got.rows ?? [];
    s.problem = got.problem ?? '';
    s.claims = s.rows.length ? claimsOf(this.episode, s.rows, got.turns) : [];
    this.paint();
  }

  stop() {
    this.stopped = true;
    for (const s of this.sides ?? []) s.request?.abort();
    document.getElementById('tip').hidden = true;
  }

  themed() { if (this.sides) this.paint(); }
  key() { return false; }

  // turnKey moves the focus to the response of the next or previous turn.
  turnKey(move) {
    if (!this.sides) return;
    const last = (this.episode.turns ?? []).length - 1;
    this.turn = Math.max(0, Math.min(last, (this.turn ?? -1) + move));
    const e = this.sides[0].panel.response(this.turn);
    e?.focus();
    e?.scrollIntoView({ block: 'center' });
  }

  remember() {
    if (this.stopped) return;
    const changes = { color: this.color === 'advantage' ? null : this.color, scale: this.common ? null : 'own' };
    const mine = new Set(this.estimators.flatMap((e) => (e.params ?? []).flatMap((p) => [p.name, 'a_' + p.name, 'b_' + p.name])));
    for (const name of Object.keys(parse(location.hash).params)) if (mine.has(name)) changes[name] = null;
    for (const s of this.sides) {
      changes[s.id] = s.name;
      for (const [name, v] of Object.entries(s.params)) changes[`${s.id}_${name}`] = v;
    }
    patch(changes);
  }

  layout() {
    const recorded = new Set(this.episode.rows.flatMap((r) => Object.keys(r.columns ?? {})));
    const choices = columns.filter(([id]) => estimated.includes(id) || recorded.has(id));
    this.legend = el('div', { class: 'scale', role: 'img' });
    this.turns = el('div', { class: 'claims-by-turn' });
    for (const s of this.sides) {
      s.panel = new Tokens(`tokens by estimator ${s.id.toUpperCase()}`, this.episode.rows, (...at) => this.enter(...at), () => this.leave());
      s.controls = el('div', { class: 'side-controls' });
      s.figures = el('p', { class: 'figures', role: 'status' });
      s.root = el('section', { class: 'side', 'data-side': s.id, 'aria-label': 'estimator ' + s.id.toUpperCase() }, s.controls, s.figures, s.panel.root);
      this.controls(s);
    }
    this.main.replaceChildren(
      el('div', { class: 'bar' },
        select('Colour tokens by', choices, this.color, (v) => { this.color = v; this.remember(); this.paint(); }, { id: 'color' }),
        this.commonBox = checkbox('Same scale for A and B', this.common, (on) => { this.common = on; this.remember(); this.paint(); }, { id: 'common' }),
        this.legend),
      this.turns,
      el('div', { class: 'sides' }, this.sides.map((s) => s.root)));
  }

  // controls are the estimator of a side and its parameters.
  controls(s) {
    const names = [['recorded', 'as recorded in training'], ...this.estimators.map((e) => [e.name, e.name])];
    s.send = later(() => this.compute(s), 60);
    const sliders = (this.about(s)?.params ?? []).map((p) => p.kind === 'flag' ? this.flag(s, p) : this.slider(s, p));
    const about = this.about(s);
    s.controls.replaceChildren(
      el('div', { class: 'side-head' }, el('span', { class: 'side-mark ' + s.id, 'aria-hidden': 'true' }, s.id.toUpperCase()),
        select('Estimator ' + s.id.toUpperCase(), names, s.name, (v) => {
          s.name = v;
          this.fillParams(s, {});
          this.controls(s);
          this.remember();
          this.compute(s);
          s.controls.querySelector('select').focus();
        }, { 'data-estimator': s.id })),
      about ? el('p', { class: 'muted about' }, about.about) : '',
      el('div', { class: 'sliders' }, sliders),
      this.fixed && sliders.length ? el('p', { class: 'muted about' }, 'A report has estimators with the parameters of the run. vagen view computes others.') : '');
  }

  // flag is the control of a parameter that is 0 or 1.
  flag(s, p) {
    return checkbox(greek(p.name), s.params[p.name] > 0, (on) => this.move(s, p.name, on ? 1 : 0),
      { disabled: this.fixed, 'data-param': p.name });
  }

  // slider is the control of a number.
  slider(s, p) {
    const max = p.max ?? Math.max(1, s.params[p.name]);
    const shown = el('output', { class: 'numeric' }, number(s.params[p.name]));
    const slider = el('input', {
      type: 'range', min: 0, max, step: p.kind === 'whole' ? 1 : max / 200,
      disabled: this.fixed, 'data-param': p.name, 'aria-label': `${greek(p.name)} of estimator ${s.id.toUpperCase()}`,
      oninput: () => {
        shown.value = number(Number(slider.value));
        this.move(s, p.name, Number(slider.value));
      },
    });
    slider.value = s.params[p.name];
    return el('label', { class: 'field' }, el('span', {}, greek(p.name)), el('span', { class: 'slider' }, slider, shown));
  }

  // numbers are what a side's tokens are coloured by.
  numbers(s, r) {
    return estimated.includes(this.color) ? s.rows[r]?.[this.color] : this.episode.rows[r].columns?.[this.color];
  }

  paint() {
    if (this.stopped) return;
    const pair = estimated.includes(this.color);
    this.sides[1].root.hidden = !pair;
    this.commonBox.hidden = !pair;
    const sides = pair ? this.sides : this.sides.slice(0, 1);
    const limits = sides.map((s) => largest(this.episode.rows.map((_, r) => this.numbers(s, r))));
    const label = columns.find(([id]) => id === this.color)[1];
    sides.forEach((s, i) => {
      const limit = this.common ? Math.max(...limits) : limits[i];
      const fill = scale(limit);
      s.panel.color((r, at) => {
        const x = this.numbers(s, r)?.[at];
        const off = pair && !counted(this.episode.rows[r], at); // no loss: the number is not used
        return { fill: off ? '' : fill(x), text: off ? 'no loss' : `${label} ${signed(x)}` };
      });
      s.figures.replaceChildren(...(pair && s.problem ? [el('span', { class: 'problem' }, s.problem.replace(/^credit: /, ''))] : figures(label, this.collect(s))));
    });
    this.drawLegend(label, this.common || !pair ? [Math.max(...limits)] : limits);
    this.turns.replaceChildren(turnTable(this.episode, this.sides, this.measured, this.measuredProblem));
  }

  // collect are the numbers of the tokens that the loss counts.
  collect(s) {
    const all = [];
    this.episode.rows.forEach((row, r) => (this.numbers(s, r) ?? []).forEach((x, i) => {
      if (x !== null && x !== undefined && counted(row, i)) all.push(x);
    }));
    return all;
  }

  drawLegend(label, limits) {
    const bar = (limit, name) => {
      const fill = scale(limit);
      const low = this.minus(limit);
      return [name, el('span', { class: 'numeric' }, number(low)),
        el('span', { class: 'ramp' }, Array.from({ length: 21 }, (_, i) => {
          const s = el('span', {});
          s.style.backgroundColor = fill(low + (limit - low) * i / 20);
          return s;
        })), el('span', { class: 'numeric' }, number(limit))];
    };
    this.legend.setAttribute('aria-label', `colours: orange is negative, blue positive, up to ${limits.map((l) => number(l)).join(' and ')}`);
    this.legend.replaceChildren(...limits.flatMap((l, i) => bar(l, limits.length > 1 ? ' AB'[i + 1] + ' ' : label + ' ')));
  }

  // minus is the lower end of the legend: 0 for numbers that are never negative.
  minus(limit) {
    return this.color === 'loss' || this.color === 'entropy' ? 0 : -limit;
  }

  // enter shows the numbers of a token beside it, and the same token in the other panel.
  enter(r, from, to, e) {
    const row = this.episode.rows[r];
    for (const s of this.sides) s.panel.mark(r, from);
    const lines = [['position', to - from > 1 ? `${number(from)} to ${number(to - 1)}` : number(from)], ['token id', row.tokens ? String(row.tokens[from]) : '–']];
    if (row.turn?.[from] >= 0) lines.push(['turn', number(row.turn[from] + 1)]);
    for (const [id, label] of columns) {
      const x = row.columns?.[id]?.[from];
      if (x !== undefined) lines.push([label + (estimated.includes(id) ? ', recorded' : ''), x === null ? 'none for this token' : number(x)]);
    }
    for (const s of this.sides) {
      for (const id of s.name === 'recorded' ? [] : estimated) {
        const x = s.rows[r]?.[id]?.[from];
        if (x !== undefined && x !== null) lines.push([`${s.id.toUpperCase()}: ${id}, ${s.name}`, number(x)]);
      }
    }
    const tip = document.getElementById('tip');
    tip.replaceChildren(el('strong', {}, visible(row.texts[from] ?? '')), el('dl', {}, lines.map(([k, v]) => el('div', {}, el('dt', {}, k), el('dd', { class: 'numeric' }, v)))));
    tip.hidden = false;
    place(tip, e.getBoundingClientRect());
    e.setAttribute('aria-describedby', 'tip');
  }

  leave() {
    for (const s of this.sides) s.panel.mark(null);
    document.getElementById('tip').hidden = true;
  }
}

// counted says whether the loss counts a token.
function counted(row, i) {
  const loss = row.columns?.loss;
  return !loss || loss[i] > 0;
}

function largest(rows) {
  let m = 0;
  for (const row of rows) for (const x of row ?? []) if (x !== null && Math.abs(x) > m) m = Math.abs(x);
  return m;
}

function figures(label, all) {
  if (all.length === 0) return ['No number for the tokens that the loss counts.'];
  const mean = all.reduce((a, b) => a + b, 0) / all.length;
  const sd = Math.sqrt(all.reduce((a, b) => a + (b - mean) ** 2, 0) / all.length);
  const part = (name, x) => el('span', {}, name + ' ', el('b', { class: 'numeric' }, number(x)));
  const ends = all.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity]);
  return [label + ': ', part('mean', mean), part('deviation', sd), part('lowest', ends[0]), part('highest', ends[1])];
}

// greek writes the names of parameters as the papers do, or in words.
function greek(name) {
  return { gamma: 'γ', lam: 'λ', high_level_gamma: 'γ of turns', lambda_turn: 'λ of turns', lambda_token: 'λ of tokens', bi_level_mix: 'mix of levels', step_advantage_w: 'weight of steps', pass_k: 'k of pass@k', epsilon: 'ε', norm_adv_by_std_in_grpo: 'divide by the deviation of the group' }[name] ?? name;
}

// place puts the tip below the token, or above it where there is no room.
function place(tip, at) {
  const { width, height } = tip.getBoundingClientRect();
  const below = at.bottom + 8 + height < innerHeight;
  tip.style.left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - width - 8)) + 'px';
  tip.style.top = Math.max(8, below ? at.bottom + 8 : at.top - height - 8) + 'px';
}
