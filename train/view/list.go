package view

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"vagen/internal/redact"
	"vagen/rollout/store"
	"vagen/train/credit"
)

const (
	defaultLimit = 100
	maxLimit     = 500
	maxSearch    = 200 // characters of a search text
	maxExcerpt   = 160 // characters
	// maxTexts limits the texts that a run keeps in memory in bytes.
	maxTexts = 64 << 20
)

// listed is an episode in the list.
type listed struct {
	store.Summary
	Key      string `json:"key"`
	Kind     string `json:"kind"`
	Reward   number `json:"reward"`
	Scores   bool   `json:"scores"`
	Measured bool   `json:"measured"`
	Excerpt  string `json:"excerpt"`
}

type facets struct {
	Env  []string `json:"env"`
	End  []string `json:"end"`
	Step []int    `json:"step"`
}

type listAnswer struct {
	Total    int      `json:"total"`
	Facets   facets   `json:"facets"`
	Episodes []listed `json:"episodes"`
}

// filter selects episodes.
type filter struct {
	kind, env, end string
	step           *int
	success        *bool
	min, max       *float64
	text           string
	order          string
	offset, limit  int
}

func parseFilter(q url.Values) (filter, error) {
	f := filter{kind: q.Get("kind"), env: q.Get("env"), end: q.Get("end"), text: strings.ToLower(q.Get("text")),
		order: q.Get("order"), limit: defaultLimit}
	if !slices.Contains([]string{"", kindTrain, kindVal, kindMeasured}, f.kind) {
		return f, badRequest("kind: %q is not train, val or measured", clip(f.kind, 20))
	}
	if !slices.Contains([]string{"", "step", "-step", "reward", "-reward"}, f.order) {
		return f, badRequest("order: %q is not step, -step, reward or -reward", clip(f.order, 20))
	}
	if len([]rune(f.text)) > maxSearch {
		return f, badRequest("text: it has more than %d characters", maxSearch)
	}
	if s := q.Get("step"); s != "" {
		n, err := count(s, "step")
		if err != nil {
			return f, err
		}
		f.step = &n
	}
	if s := q.Get("success"); s != "" {
		on := s == "true"
		if !on && s != "false" {
			return f, badRequest("success: %q is not true or false", clip(s, 20))
		}
		f.success = &on
	}
	for name, into := range map[string]**float64{"min": &f.min, "max": &f.max} {
		if s := q.Get(name); s != "" {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil || x != x {
				return f, badRequest("%s: %q is not a number", name, clip(s, 20))
			}
			*into = &x
		}
	}
	var err error
	if f.offset, err = count(q.Get("offset"), "offset"); err != nil {
		return f, err
	}
	if s := q.Get("limit"); s != "" {
		if f.limit, err = count(s, "limit"); err != nil || f.limit < 1 || f.limit > maxLimit {
			return f, badRequest("limit: %q is not in [1, %d]", clip(s, 20), maxLimit)
		}
	}
	return f, nil
}

// keeps reports whether an episode has what the filter asks for, except for its text.
func (f *filter) keeps(e *entry) bool {
	return (f.env == "" || e.Env == f.env) && (f.end == "" || string(e.End) == f.end) &&
		(f.step == nil || e.source.step == *f.step) &&
		(f.success == nil || e.Success == *f.success && e.Error == "") && (f.min == nil || e.Reward >= *f.min) &&
		(f.max == nil || e.Reward <= *f.max)
}

func (r *run) episodesAnswer(ctx context.Context, q url.Values) (a listAnswer, err error) {
	f, err := parseFilter(q)
	if err != nil {
		return a, err
	}
	return r.listEpisodes(ctx, f)
}

// listEpisodes lists the episodes of a filter.
func (r *run) listEpisodes(ctx context.Context, f filter) (a listAnswer, err error) {
	root, done, err := r.open()
	if err != nil {
		return listAnswer{Facets: facets{[]string{}, []string{}, []int{}}, Episodes: []listed{}}, nil
	}
	defer done()
	r.loadConfig(root)
	r.episodes.refresh(r, root)

	var kept []entry
	env, end, step := map[string]bool{}, map[string]bool{}, map[int]bool{}
	for _, e := range r.episodes.all() {
		if err := ctx.Err(); err != nil { // a search for text reads every file
			return a, err
		}
		if f.kind != "" && e.kind != f.kind {
			continue
		}
		env[e.Env], end[string(e.End)], step[e.source.step] = true, true, true
		if f.keeps(&e) && (f.text == "" || r.says(root, &e, f.text)) {
			kept = append(kept, e)
		}
	}
	f.sort(kept)
	a = listAnswer{Total: len(kept), Facets: facets{sorted(env), sorted(end), sorted(step)}, Episodes: []listed{}}
	for _, e := range kept[min(f.offset, len(kept)):min(f.offset+f.limit, len(kept))] {
		a.Episodes = append(a.Episodes, r.list(root, &e))
	}
	return a, nil
}

// sort orders entries; those that are equal keep their order.
func (f *filter) sort(all []entry) {
	by, down := strings.CutPrefix(f.order, "-")
	slices.SortStableFunc(all, func(a, b entry) int {
		c := cmp.Compare(a.source.step, b.source.step)
		if by == "reward" {
			c = cmp.Compare(a.Reward, b.Reward)
		}
		if down {
			return -c
		}
		return c
	})
}

// sorted is never nil, which would be null in JSON.
func sorted[K cmp.Ordered](set map[K]bool) []K { return emptyIfNil(slices.Sorted(maps.Keys(set))) }

// list describes an episode.
func (r *run) list(root *os.Root, e *entry) listed {
	l := listed{Summary: *e.Summary, Key: e.key(), Kind: e.kind, Reward: number(e.Reward), Scores: e.scores}
	l.Step, l.Error = e.source.step, clip(redact.Text(e.Error), maxExcerpt)
	if t := r.textsOf(root, e); t != nil && len(t.Responses) > 0 {
		l.Excerpt = clip(strings.TrimSpace(t.Responses[0]), maxExcerpt)
	}
	_, err := r.measured(root, e)
	l.Measured = !errors.As(err, new(failure)) // the page shows why a damaged result cannot be read
	return l
}

// measured reads the measured result of an episode. If there is none, the error is a failure: also if
// the result is of another episode of that step, group and index, played by another policy.
func (r *run) measured(root *os.Root, e *entry) (*credit.Measured, error) {
	key := credit.Key{Step: e.source.step, Group: e.Group, Index: e.Index}
	// A link to a place outside the run's folder is not a file of the run.
	if info, err := root.Stat(credit.Path(".", key)); e.kind == kindVal || err != nil || !info.Mode().IsRegular() {
		return nil, notFound("the advantages of the episode were not measured")
	}
	m, err := credit.LoadMeasured(r.path, key)
	if err != nil {
		return nil, err
	}
	if t := r.textsOf(root, e); t == nil || m.Episode != credit.EpisodeSum(*t) {
		return nil, notFound("the measured advantages are those of another episode; vagen credit measures this one")
	}
	return m, nil
}

// says reports whether a text of an episode contains a text in lower case.
func (r *run) says(root *os.Root, e *entry, text string) bool {
	t := r.textsOf(root, e)
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	return t != nil && (slices.ContainsFunc(t.Responses, has) || slices.ContainsFunc(t.Observations, has))
}

// textCache keeps the texts of files that were used last.
type textCache struct {
	files map[*source][]store.Texts
	bytes int
}

// textsOf returns an episode's texts, nil if they cannot be read.
func (r *run) textsOf(root *os.Root, e *entry) *store.Texts {
	c := &r.texts
	texts, known := c.files[e.source]
	if !known {
		texts = r.readTexts(root, e.source)
		size := 0
		for _, t := range texts {
			for k := range t.Responses {
				size += len(t.Responses[k]) + len(t.Observations[k]) + 64
			}
		}
		if c.bytes += size; c.files == nil || c.bytes > maxTexts {
			c.files, c.bytes = map[*source][]store.Texts{}, size
		}
		c.files[e.source] = texts
	}
	if e.row < len(texts) {
		return &texts[e.row]
	}
	return nil
}

// readTexts reads the texts of a file, none if that fails: opening an episode says why.
func (r *run) readTexts(root *os.Root, s *source) []store.Texts {
	if !s.readable {
		in, err := s.open(r.episodes.folders[s.kind])
		if err != nil {
			return nil
		}
		defer in.Close()
		out, _ := in.Texts()
		return out
	}
	out := make([]store.Texts, len(s.names))
	for i, name := range s.names {
		e, err := readShown(root, shownFolder(s.step)+"/"+name)
		if err != nil {
			continue
		}
		for _, t := range e.Turns {
			out[i].Observations, out[i].Responses = append(out[i].Observations, t.Observation),
				append(out[i].Responses, t.Response)
		}
	}
	return out
}
