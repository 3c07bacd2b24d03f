// A panel with the tokens of an episode, each coloured by a number. Conversations are
// split into pieces by who wrote them; a piece of the context is closed at first.
import { el, plural } from './dom.js';

// Tokens shows the rows of an episode.
export class Tokens {
  // enter is called with (row, from, to) of the token under the pointer or with the
  // focus, leave when there is none.
  constructor(title, rows, enter, leave) {
    this.rows = rows;
    this.spans = rows.map(() => []); // row -> position -> element
    this.enter = enter;
    this.leave = leave;
    this.root = el('div', {
      class: 'tokens', role: 'group', 'aria-label': title,
      onpointerover: (e) => this.over(e.target, e), onpointerleave: () => leave(),
      onfocusin: (e) => this.over(e.target, null), onfocusout: () => leave(),
      onkeydown: (e) => this.key(e),
    }, rows.map((row, r) => this.row(row, r)));
    this.entry(this.first());
  }

  row(row, r) {
    this.blind = !row.texts?.some(Boolean); // without a tokenizer tokens have numbers only
    const pieces = row.pieces?.length ? row.pieces : [{ kind: 'tokens', start: 0, end: row.texts.length }];
    return el('div', { class: 'conversation' },
      this.rows.length > 1 && el('h5', {}, `Conversation ${r + 1} of ${this.rows.length}`),
      pieces.map((p) => this.piece(row, r, p)));
  }

  piece(row, r, p) {
    const turn = row.turn?.[p.start];
    const name = (turn >= 0 && turn !== null && turn !== undefined ? `turn ${turn + 1} · ` : '') + p.kind;
    const written = p.kind === 'response' || p.kind === 'summary';
    const body = el('div', { class: 'piece-tokens' });
    const fill = () => {
      if (body.childNodes.length) return;
      for (let i = p.start; i < p.end;) {
        let to = i + 1;
        // A picture is hundreds of equal tokens: they are one element.
        while (!written && to < p.end && row.texts[to] === row.texts[i] && row.tokens?.[to] === row.tokens?.[i]) to++;
        if (to - i < 4) to = i + 1;
        body.append(this.token(row, r, i, to));
        i = to;
      }
      this.paint?.(r, p.start, p.end);
    };
    const d = el('details', { class: 'piece ' + (written ? 'written' : 'context'), open: written || p.end - p.start <= 12, ontoggle: () => { if (d.open) fill(); } },
      el('summary', {}, name, el('span', { class: 'muted' }, ' ' + plural(p.end - p.start, 'token'))), body);
    if (d.open) fill();
    return d;
  }

  token(row, r, from, to) {
    const text = row.texts[from] ?? '';
    const e = el('span', { class: 'token', tabindex: -1, role: 'button', 'data-row': r, 'data-from': from, 'data-to': to },
      (this.blind ? `${row.tokens?.[from] ?? '?'} ` : visible(text)) + (to - from > 1 ? ` ×${to - from}` : ''));
    for (let i = from; i < to; i++) this.spans[r][i] = e;
    return text.includes('\n') ? [e, el('br', {})] : e;
  }

  // color paints tokens by a function of (row, position), which returns {fill, text}.
  color(of) {
    this.paint = (r, start, end) => {
      for (let i = start; i < end; i++) {
        const e = this.spans[r][i];
        if (!e || Number(e.dataset.from) !== i) continue;
        const { fill, text } = of(r, i);
        e.style.backgroundColor = fill;
        e.classList.toggle('filled', fill !== '');
        e.setAttribute('aria-label', `${e.textContent}: ${text}`);
      }
    };
    this.rows.forEach((row, r) => this.paint(r, 0, row.texts.length));
  }

  first() {
    return this.root.querySelector('.written .token') ?? this.root.querySelector('.token');
  }

  // entry makes a token the one that the tabulator key reaches.
  entry(e) {
    this.reached?.setAttribute('tabindex', -1);
    this.reached = e;
    e?.setAttribute('tabindex', 0);
  }

  over(target, pointer) {
    const e = target.closest?.('.token');
    if (!e) return this.leave();
    if (!pointer) this.entry(e);
    this.enter(Number(e.dataset.row), Number(e.dataset.from), Number(e.dataset.to), e);
  }

  // mark outlines a token, so that two panels show the same one.
  mark(r, i) {
    this.marked?.classList.remove('marked');
    this.marked = r === null ? null : this.spans[r]?.[i];
    this.marked?.classList.add('marked');
  }

  key(e) {
    const move = { ArrowRight: 1, j: 1, ArrowLeft: -1, k: -1 }[e.key];
    const here = e.target.closest('.token');
    if (!here) return;
    if (e.key === 'Escape') {
      here.blur();
      e.stopPropagation();
      return;
    }
    if (!move) return;
    const all = [...this.root.querySelectorAll('details[open] .token')];
    const next = all[all.indexOf(here) + move];
    next?.focus();
    e.preventDefault();
    e.stopPropagation();
  }

  // response is the first token of the response of a turn, null without one.
  response(turn) {
    for (const [r, row] of this.rows.entries()) {
      const i = (row.pieces ?? []).find((p) => p.kind === 'response' && row.turn?.[p.start] === turn)?.start;
      if (i !== undefined) return this.spans[r][i];
    }
    return null;
  }
}

// visible shows line breaks and tabs. A token that is part of a character has no text.
export function visible(text) {
  return text.replaceAll('\n', '↵').replaceAll('\t', '⇥') || '·';
}
