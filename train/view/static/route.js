// The address after # restores everything that the page shows.

// parse splits #/view?name=value&… into the view and its parameters.
export function parse(hash) {
  const text = hash.replace(/^#\/?/, '');
  const cut = text.indexOf('?');
  const params = Object.create(null);
  for (const [name, value] of new URLSearchParams(cut < 0 ? '' : text.slice(cut + 1))) params[name] = value;
  return { view: (cut < 0 ? text : text.slice(0, cut)) || 'metrics', params };
}

// link is the address of a view. Empty parameters are left out.
export function link(view, params) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(params ?? {})) {
    if (value !== undefined && value !== null && value !== '') q.append(name, value);
  }
  const text = q.toString().replaceAll('%2F', '/').replaceAll('%2C', ',');
  return '#/' + view + (text ? '?' + text : '');
}

// patch changes parameters of the address in place: no entry of the history is added and
// no view is drawn anew.
export function patch(changes) {
  const { view, params } = parse(location.hash);
  history.replaceState(null, '', link(view, { ...params, ...changes }));
}
