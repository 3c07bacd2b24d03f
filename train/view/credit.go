package view

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"

	"vagen/advantage"
	"vagen/internal/floats"
	"vagen/internal/settings"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/config"
	"vagen/train/credit"
	"vagen/train/rundir"
)

// param is a hyperparameter of estimators, with its default.
type param struct {
	settings.Key
	max float64 // of the page; the smallest is 0
}

// params are all hyperparameters, in the order in which the page shows them.
var params = func() (out []param) {
	largest := map[string]float64{
		"step_advantage_w": 2, "episode_advantage_w": 2, "pass_k": 16, "epsilon": 0.1, "history_length": 8,
		"length_weight_alpha": 4,
	}
	defaults := advantage.DefaultParams()
	for _, k := range settings.Keys(&defaults) {
		out = append(out, param{k, cmp.Or(largest[k.Path], 1)})
	}
	return out
}()

// control is the control of the page, flag for 0 or 1, whole for whole numbers, or number, and the default.
func (p *param) control() (kind string, value float64) {
	switch v := p.Value.(type) {
	case float64:
		return "number", v
	case int:
		return "whole", float64(v)
	case bool:
		if v {
			value = 1
		}
	}
	return "flag", value
}

// set changes a hyperparameter. Whether an estimator allows the number is up to it.
func (p *param) set(into *advantage.Params, x float64) error {
	var value any = x
	switch kind, _ := p.control(); {
	case kind == "whole" && (x != math.Trunc(x) || x < 0 || x > math.MaxInt32):
		return badRequest("%s: %v is not a whole number from 0", p.Path, x)
	case kind == "flag" && x != 0 && x != 1:
		return badRequest("%s: %v is not 0 or 1", p.Path, x)
	case kind == "flag":
		value = x == 1
	}
	return settings.Set(into, p.Path, value)
}

// paramsOf are the hyperparameters that an estimator depends on.
func paramsOf(spec advantage.Spec) (out []*param) {
	for i := range params {
		if p := &params[i]; spec.Reads(p.Path) && !(spec.Undiscounted && p.Path == "gamma") {
			out = append(out, p)
		}
	}
	return out
}

type paramAnswer struct {
	Name    string  `json:"name"`
	Kind    string  `json:"kind"`
	Default float64 `json:"default"`
	Max     float64 `json:"max"` // the smallest is 0
}

type estimatorAnswer struct {
	Name   string        `json:"name"`
	About  string        `json:"about"`
	Params []paramAnswer `json:"params"`
}

func listEstimators(context.Context, url.Values) (map[string][]estimatorAnswer, error) {
	out := []estimatorAnswer{}
	for _, name := range advantage.Names() {
		spec, err := advantage.Describe(name)
		if err != nil {
			return nil, err
		}
		a := estimatorAnswer{Name: name, About: spec.About, Params: []paramAnswer{}}
		for _, p := range paramsOf(spec) {
			kind, value := p.control()
			a.Params = append(a.Params, paramAnswer{p.Path, kind, value, p.max})
		}
		out = append(out, a)
	}
	return map[string][]estimatorAnswer{"estimators": out}, nil
}

// creditCache keeps what was read of the step that was shown last.
type creditCache struct {
	read   map[string]stamp // of the step's files
	of     fileKey
	scored []store.Scores
	err    error
	whole  *credit.Step // of the step; nil before it is needed
	image  bool         // whole has its images
}

// scores reads the scores of a training step. The run's lock is held.
func (c *creditCache) scores(r *run, of fileKey) ([]store.Scores, error) {
	dir, err := os.OpenRoot(r.episodes.folders[of.kind])
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	name, now := rundir.ScoresName(of.step), map[string]stamp{}
	for _, name := range []string{name, rundir.EpisodesName(of.step)} {
		if info, err := dir.Stat(name); err == nil {
			now[name] = stampOf(info)
		}
	}
	if c.of == of && c.read != nil && maps.Equal(now, c.read) {
		return c.scored, c.err
	}
	*c = creditCache{read: now, of: of}
	f, _, err := openFile(dir, name)
	if err == nil {
		c.scored, err = store.ReadScores(f, maxMemory)
	}
	c.err = err
	return c.scored, c.err
}

// stepOf returns the whole step of an episode, with its images if an estimator compares
// observations.
func (c *creditCache) stepOf(r *run, e *entry, images bool) (*credit.Step, error) {
	scores, err := c.scores(r, e.fileKey)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if c.whole != nil && c.whole.Config == r.config && (c.image || !images) {
		return c.whole, nil
	}
	all, err := r.step(e.source, images)
	if err != nil {
		return nil, err
	}
	c.whole, c.image = &credit.Step{Config: r.config, Episodes: all, Scores: scores}, images
	return c.whole, nil
}

// step reads all episodes of a file.
func (r *run) step(s *source, images bool) ([]*rollout.Trajectory, error) {
	in, err := s.open(r.episodes.folders[s.kind])
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if in.Lenient(); !images {
		in.NamesOnly()
	}
	return in.Step(s.step)
}

// creditRow are the numbers of a conversation.
type creditRow struct {
	Advantage column `json:"advantage"`
	Return    column `json:"return"`
}

type creditTurn struct {
	Claim number `json:"claim"`
}

type creditResult struct {
	Rows    []creditRow  `json:"rows"`
	Turns   []creditTurn `json:"turns"`
	Problem string       `json:"problem"`
}

func (r *run) creditAnswer(_ context.Context, q url.Values) (a creditResult, err error) {
	spec, err := advantage.Describe(q.Get("estimator"))
	if err != nil {
		return a, badRequest("estimator: %q is not one of %q", clip(q.Get("estimator"), 60), advantage.Names())
	}
	_, e, done, err := r.openEpisode(q.Get("key"))
	if err != nil {
		return a, err
	}
	defer done()
	none := func(format string, args ...any) (creditResult, error) {
		return creditResult{[]creditRow{}, []creditTurn{}, sentence(format, args...)}, nil
	}
	if e.kind == kindVal {
		return none("Advantages are those of training episodes")
	}
	if r.config == nil {
		return none("%s", r.problem)
	}
	p, err := setParams(r.config, q)
	if err != nil {
		return a, err
	}
	step, err := r.credit.stepOf(r, e, spec.States)
	if err != nil {
		return none("The step cannot be read: %v", err)
	}
	got, err := step.Estimate(spec.Name, p)
	if err != nil {
		return none("%v", err)
	}
	return creditOf(got, e), nil
}

// setParams are the run's hyperparameters with those of a request.
func setParams(c *config.Config, q url.Values) (advantage.Params, error) {
	p := c.Algorithm.Params
	for i := range params {
		text := q.Get(params[i].Path)
		if text == "" {
			continue
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !floats.Finite(x) {
			return p, badRequest("%s: %q is not a number", params[i].Path, clip(text, 20))
		}
		if err := params[i].set(&p, x); err != nil {
			return p, err
		}
	}
	return p, nil
}

// creditOf are the numbers of one episode. A row that was not trained on has none.
func creditOf(got *credit.Estimated, e *entry) creditResult {
	a := creditResult{Rows: []creditRow{}, Turns: []creditTurn{}}
	rows, turns := got.Episode(e.Group, e.Index)
	for _, row := range rows {
		for len(a.Rows) <= row.Row {
			a.Rows = append(a.Rows, creditRow{column{}, column{}})
		}
		a.Rows[row.Row] = creditRow{column(row.Advantages), column(row.Returns)}
	}
	for k := range e.Turns {
		claim := math.NaN()
		if i := slices.IndexFunc(turns, func(t credit.Turn) bool { return t.Turn == k }); i >= 0 {
			claim = turns[i].Claim
		}
		a.Turns = append(a.Turns, creditTurn{number(claim)})
	}
	if len(rows) == 0 {
		a.Problem = "The episode was not trained on."
	}
	return a
}

func (r *run) measuredAnswer(_ context.Context, q url.Values) (*credit.Measured, error) {
	root, e, done, err := r.openEpisode(q.Get("key"))
	if err != nil {
		return nil, err
	}
	defer done()
	return r.measured(root, e)
}
