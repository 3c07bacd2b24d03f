// Where the data come from: the server, or a report file.

// open returns the report in this file if there is one, else the server.
export function open() {
  return window.VAGEN_REPORT ? new Report(window.VAGEN_REPORT) : new Server();
}

// query encodes parameters; empty ones are left out.
function query(params) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== '') q.append(name, value);
  }
  return q.toString();
}

class Server {
  fixed = false; // estimators can be computed with other parameters

  async get(path, params, signal) {
    const q = query(params ?? {});
    const answer = await fetch(path + (q ? '?' + q : ''), { cache: 'no-store', credentials: 'same-origin', signal });
    const body = await answer.json().catch(() => ({}));
    if (answer.ok) return body;
    const e = new Error(body.error || `The server answered with status ${answer.status}.`);
    e.status = answer.status;
    throw e;
  }

  of(run, what, params, signal) {
    return this.get(`/api/runs/${encodeURIComponent(run)}/${what}`, params, signal);
  }

  async runs() { return (await this.get('/api/runs')).runs ?? []; }
  metrics(run, after, generation) { return this.of(run, 'metrics', { after, generation }); }
  async config(runs) { return (await this.get('/api/config', { runs: runs.join(',') })).keys ?? []; }
  episodes(run, params, signal) { return this.of(run, 'episodes', params, signal); }
  episode(run, key) { return this.of(run, 'episode', { key }); }
  async estimators() { return (await this.get('/api/estimators')).estimators ?? []; }
  credit(run, key, estimator, params, signal) { return this.of(run, 'credit', { key, estimator, ...params }, signal); }

  // measured returns null if the episode was not measured.
  async measured(run, key) {
    try {
      return await this.of(run, 'measured', { key });
    } catch (e) {
      if (e.status === 404) return null;
      throw e;
    }
  }

  // listen calls change({kind, run}) when a run was written, and state with how changes
  // arrive: by events, by polling while there are none, or not at all.
  listen(change, state) {
    let timer = 0;
    let last = null;
    const poll = async () => {
      try {
        const runs = await this.runs();
        const now = new Map(runs.map((r) => [r.id, r]));
        for (const [id, r] of now) {
          const before = last?.get(id);
          if (before && before.updated === r.updated && before.episodes === r.episodes && before.steps === r.steps) continue;
          if (last) change({ kind: 'metrics', run: id });
          if (last && before?.episodes !== r.episodes) change({ kind: 'episodes', run: id });
        }
        last = now;
        state('polling');
      } catch {
        state('off');
      }
      timer = setTimeout(poll, 3000);
    };
    let events = null;
    const connect = () => {
      if (events) return;
      events = new EventSource('/api/events');
      events.onopen = () => {
        clearTimeout(timer);
        timer = 0;
        state('events');
      };
      events.onerror = () => { if (!timer) timer = setTimeout(poll, 500); };
      for (const kind of ['metrics', 'episodes']) {
        events.addEventListener(kind, (e) => {
          try {
            change({ kind, run: JSON.parse(e.data).run });
          } catch {
            // An event that cannot be read changes nothing; the next one does.
          }
        });
      }
    };
    const disconnect = () => {
      events?.close();
      events = null;
      clearTimeout(timer);
      timer = 0;
    };
    // A browser has six connections to a server: pages that are not seen keep none.
    addEventListener('pagehide', disconnect);
    addEventListener('pageshow', () => connect());
    document.addEventListener('visibilitychange', async () => {
      if (document.hidden) {
        disconnect();
        return;
      }
      connect();
      const runs = await this.runs().catch(() => []);
      for (const r of runs) for (const kind of ['metrics', 'episodes']) change({ kind, run: r.id });
    });
    if (!document.hidden) connect();
  }
}

// Report answers from the data in a report file, which holds a sample of the episodes, and
// estimators with the parameters of the run.
class Report {
  fixed = true;

  constructor(data) { this.data = data; }

  async runs() { return this.data.runs; }
  async metrics(run) { return this.data.metrics[run] ?? { lines: 0, series: {} }; }
  async config() { return this.data.config; }

  // estimators are those that the report holds for any episode.
  async estimators() {
    const held = new Set(Object.values(this.data.credit).flatMap((run) => Object.values(run).flatMap((e) => Object.keys(e))));
    return this.data.estimators.filter((e) => held.has(e.name));
  }

  async episodes(run, p) {
    const all = this.data.episodes[run] ?? { episodes: [], facets: {} };
    const text = (p.text ?? '').toLowerCase();
    const rows = all.episodes.filter((e) =>
      (!p.kind || e.kind === p.kind) && (!p.env || e.env === p.env) && (!p.end || e.end === p.end) &&
      (!p.step || String(e.step) === p.step) && (!p.success || String(e.success) === p.success) &&
      (!p.min || e.reward >= Number(p.min)) && (!p.max || e.reward <= Number(p.max)) &&
      (!text || this.words(run, e.key).includes(text)));
    const down = (p.order ?? '').startsWith('-') ? -1 : 1;
    const by = (p.order ?? '').replace('-', '');
    if (by === 'step' || by === 'reward') rows.sort((a, b) => down * (a[by] - b[by]));
    const from = Number(p.offset ?? 0);
    return { total: rows.length, of: all.total, facets: all.facets, episodes: rows.slice(from, from + Number(p.limit ?? 100)) };
  }

  // words are the texts of an episode, in lower case.
  words(run, key) {
    const turns = this.data.episode[run]?.[key]?.turns ?? [];
    return turns.map((t) => t.observation + ' ' + t.response).join(' ').toLowerCase();
  }

  async episode(run, key) {
    const e = this.data.episode[run]?.[key];
    if (!e) throw new Error(`The episode ${key} is not in this report, which holds a sample.`);
    return e;
  }

  async credit(run, key, estimator) {
    return this.data.credit[run]?.[key]?.[estimator] ??
      { rows: [], turns: [], problem: 'This report does not hold this estimator for this episode; vagen view computes it.' };
  }

  async measured(run, key) { return this.data.measured[run]?.[key] ?? null; }

  listen(change, state) { state('report'); }
}
