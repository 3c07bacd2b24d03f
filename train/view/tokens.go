package view

import (
	"cmp"
	"context"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"vagen/mask"
	"vagen/policy/vlm/tokenizer"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/rundir"
)

// rowAnswer is a conversation, token by token.
type rowAnswer struct {
	Tokens []int32       `json:"tokens"`
	Texts  []string      `json:"texts"`
	Pieces []pieceAnswer `json:"pieces"`
	// Turn is the turn of the episode that a token belongs to, -1 for the prompt and for
	// a summary.
	Turn    []int             `json:"turn"`
	Columns map[string]column `json:"columns"`
}

type pieceAnswer struct {
	Kind  string `json:"kind"`
	Start int    `json:"start"`
	End   int    `json:"end"`
}

// summaryPiece is the kind of a response that closes a conversation.
const summaryPiece = "summary"

// layOutRow describes a row without the texts of its tokens. problem says why its scores are left out.
func layOutRow(t *rollout.Trajectory, i int, scores *store.Scores) (a rowAnswer, problem string) {
	row := &t.Rows[i]
	n := row.Len()
	a = rowAnswer{Tokens: emptyIfNil(row.Tokens()), Texts: make([]string, n),
		Pieces: []pieceAnswer{}, Turn: make([]int, n), Columns: map[string]column{}}
	var turns []int // of the episode, in this row
	for k := range t.Turns {
		if t.Turns[k].Row == i {
			turns = append(turns, k)
		}
	}
	written := make([]bool, n)
	for p := range row.Pieces {
		kind, turn := p.Kind.String(), -1
		if p.Kind == mask.Response && p.End == n && row.EndsWithSummary() {
			kind = summaryPiece
		}
		if (kind == mask.Response.String() || kind == mask.Observation.String()) && len(turns) > 0 {
			turn = turns[0]
		}
		if kind == mask.Response.String() && len(turns) > 0 {
			turns = turns[1:]
		}
		for at := p.Start; at < p.End; at++ {
			a.Turn[at], written[at] = turn, p.Kind == mask.Response
		}
		a.Pieces = append(a.Pieces, pieceAnswer{kind, p.Start, p.End})
	}
	a.Columns["sampled"] = where(row.LogProbs, func(at int) bool { return written[at] })
	if scores == nil {
		return a, ""
	}
	if scores.Len() != n {
		return a, sentence("The recorded numbers of conversation %d are for %d tokens, it has %d; they are left out", i,
			scores.Len(), n)
	}
	a.scores(scores, row.LogProbs, written)
	return a, ""
}

// scores adds the columns that a training step recorded.
func (a *rowAnswer) scores(s *store.Scores, sampled []float32, written []bool) {
	scored := func(at int) bool { return at < len(s.Scored) && s.Scored[at] }
	for name, x := range map[string][]float32{"old": s.OldLogProbs, "reference": s.Reference, "value": s.Values,
		"entropy": s.Entropy} {
		if x != nil {
			a.Columns[name] = where(x, scored)
		}
	}
	// Estimators give 0 to the tokens that they leave out.
	for name, x := range map[string][]float32{"reward": s.Rewards, "advantage": s.Advantages, "return": s.Returns} {
		if x != nil {
			a.Columns[name] = where(x, func(at int) bool { return scored(at) || x[at] != 0 })
		}
	}
	if s.Loss != nil {
		loss := make(column, len(s.Loss))
		for at, on := range s.Loss {
			if on {
				loss[at] = 1
			}
		}
		a.Columns["loss"] = loss
	}
	if s.OldLogProbs != nil {
		ratio := make([]float32, len(s.OldLogProbs))
		for at := range ratio {
			ratio[at] = s.OldLogProbs[at] - sampled[at]
		}
		a.Columns["log_ratio"] = where(ratio, func(at int) bool { return scored(at) && written[at] })
	}
}

// where copies the numbers of some tokens; those of the others are null.
func where(x []float32, on func(at int) bool) column {
	out := make(column, len(x))
	for i := range x {
		if out[i] = x[i]; !on(i) {
			out[i] = float32(math.NaN())
		}
	}
	return out
}

// tokenizers keeps the tokenizer of a run. It belongs to the request that holds the only place in lock.
type tokenizers struct {
	lock   chan struct{}
	loaded *tokenizer.Tokenizer
	// failed are folders whose tokenizer cannot be read, which is not tried again before its file
	// changes.
	failed map[string]failedTokenizer
}

type failedTokenizer struct {
	of      stamp
	problem string
}

// tokenTexts sets the texts of the tokens of each row. problem says why there are none.
func (r *run) tokenTexts(ctx context.Context, rows []rowAnswer) (problem string) {
	loaded, problem := r.tokenizer(ctx)
	if loaded == nil {
		return problem
	}
	for i := range rows {
		rows[i].Texts = decode(loaded, rows[i].Tokens)
	}
	return ""
}

// tokenizer returns the run's tokenizer, nil with a problem if there is none. One request at a
// time reads it; the others wait for that.
func (r *run) tokenizer(ctx context.Context) (loaded *tokenizer.Tokenizer, problem string) {
	t := &r.tokens
	select {
	case t.lock <- struct{}{}:
		defer func() { <-t.lock }()
	case <-ctx.Done():
		return nil, sentence("The tokenizer is being read: %v", ctx.Err())
	}
	if t.loaded == nil {
		t.loaded, problem = r.loadTokenizer()
	}
	return t.loaded, problem
}

// decode returns the texts of tokens. A character that several tokens make belongs to the
// last of them.
func decode(t *tokenizer.Tokenizer, ids []int32) []string {
	d := t.NewDecoder(false)
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = d.Add(id)
	}
	if len(out) > 0 {
		out[len(out)-1] += d.Flush()
	}
	return out
}

// readTokenizer reads a tokenizer; tests replace it.
var readTokenizer = tokenizer.Load

// loadTokenizer reads the tokenizer of a policy in the run's folder: the best, that of
// the newest checkpoint or, without checkpoints, the newest that was kept.
func (r *run) loadTokenizer() (_ *tokenizer.Tokenizer, problem string) {
	root, err := r.openRoot()
	if err != nil {
		return nil, sentence("The run's folder cannot be read: %v", err)
	}
	defer root.Close()
	candidates := []string{rundir.BestName, "model"}
	for _, kept := range []struct{ prefix, policy string }{
		{rundir.StepPrefix, rundir.ActorName}, {rundir.ActorPrefix, ""},
	} {
		steps, err := rundir.Numbered(rundir.Dir(r.path).Path(rundir.Checkpoints), kept.prefix, "")
		if err != nil {
			return nil, sentence("The folder checkpoints cannot be listed: %v", err)
		}
		for _, step := range steps {
			candidates = append(candidates, path.Join(rundir.Checkpoints, kept.prefix+strconv.Itoa(step), kept.policy))
		}
	}
	for _, folder := range candidates {
		info, err := root.Stat(path.Join(folder, "tokenizer.json"))
		if err != nil || !info.Mode().IsRegular() || !r.within(folder) {
			continue
		}
		if was, ok := r.tokens.failed[folder]; ok && was.of == stampOf(info) {
			problem = was.problem
			continue
		}
		loaded, err := readTokenizer(filepath.Join(r.path, folder))
		if err == nil {
			return loaded, ""
		}
		problem = sentence("The tokenizer in %s cannot be read: %v", folder, err)
		if r.tokens.failed == nil {
			r.tokens.failed = map[string]failedTokenizer{}
		}
		r.tokens.failed[folder] = failedTokenizer{stampOf(info), problem}
	}
	return nil, cmp.Or(problem,
		"The texts of tokens are not shown: the run's folder has no checkpoint with a tokenizer yet.")
}

// within reports whether all files of a folder are in the run's folder, also through
// links. The tokenizer reads them by their paths.
func (r *run) within(folder string) bool {
	home, err := filepath.EvalSymlinks(r.path)
	if err != nil {
		return false
	}
	found, err := os.ReadDir(filepath.Join(r.path, folder))
	if err != nil {
		return false
	}
	for _, file := range found {
		if real, err := filepath.EvalSymlinks(filepath.Join(r.path, folder, file.Name())); err == nil {
			if rel, err := filepath.Rel(home, real); err != nil || !filepath.IsLocal(rel) {
				return false
			}
			if info, err := os.Stat(real); err != nil || !info.Mode().IsRegular() && !info.IsDir() {
				return false
			}
		}
	}
	return true
}
