package evaluation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vagen/env/dataset"
	"vagen/internal/clock"
	"vagen/internal/field"
	"vagen/internal/regular"
	"vagen/internal/rng"
	"vagen/internal/safeyaml"
	"vagen/internal/settings"
	"vagen/internal/silent"
	"vagen/internal/unmade"
	"vagen/policy"
	"vagen/policy/chat"
	"vagen/policy/vlm"
	"vagen/reward"
	"vagen/reward/judge/client"
	"vagen/rollout"
	"vagen/rollout/evaluate"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/envs"
	"vagen/train/judges"
)

// Plan is an evaluation that is ready to run.
type Plan struct {
	Config  Config
	Backend BackendConfig
	Tasks   []evaluate.Task
	Notes   []string // on settings without effect and possible problems

	dir    string // folder of the configuration
	own    Parts
	models judges.Models // judges
	parts  []*part
	images int // tokens_per_image
}

// part is the input of a task: lines of a dataset with the same tag and settings.
type part struct {
	where string // prefix of messages
	spec  dataset.Spec
	lines []dataset.Episode
}

// options returns how files of environments are read.
func (e *Plan) options() dataset.Options {
	return dataset.Options{Known: e.own.Envs().Names(), Legacy: dataset.LegacyOptions{Split: dataset.Split(e.Config.Split)}}
}

// add adds a part for each entry of a file.
func (e *Plan) add(where string, f *dataset.File) (problems []error) {
	f.BaseSeed += e.Config.Run.BaseSeed
	lines, err := f.Episodes()
	if err != nil {
		return []error{fmt.Errorf("%s%w", where, err)}
	}
	for i := range f.Specs {
		p := &part{where: fmt.Sprintf("%senvs[%d]: ", where, i), spec: f.Specs[i]}
		if p.spec.Tag == "" {
			problems = append(problems, fmt.Errorf("%stag_id is missing: results are stored by it", p.where))
			continue
		}
		for _, line := range lines {
			if line.Entry == i {
				p.lines = append(p.lines, line)
			}
		}
		e.parts = append(e.parts, p)
	}
	return problems
}

// readFiles reads the datasets.
func (e *Plan) readFiles() (problems []error) {
	for _, name := range e.Config.Datasets {
		path := e.at(name)
		if ext := strings.ToLower(filepath.Ext(path)); ext == ".yaml" || ext == ".yml" {
			raw, err := regular.ReadFile(path)
			if err != nil {
				problems = append(problems, fmt.Errorf("datasets: %w", err))
				continue
			}
			if lines, _ := safeyaml.Lines(raw); lines["envs"] > 0 {
				f, err := dataset.ReadSpecs(raw, e.options())
				if err != nil {
					problems = append(problems, fmt.Errorf("datasets: %s: %w", path, err))
					continue
				}
				problems = append(problems, e.add(path+": ", f)...)
				continue
			}
		}
		lines, err := dataset.Load(context.Background(), path, e.Config.Run.BaseSeed, e.options())
		if err != nil {
			problems = append(problems, fmt.Errorf("datasets: %w", err))
			continue
		}
		byTag := map[string]*part{}
		for _, line := range lines {
			tag := line.Tag
			if tag == "" {
				tag = line.Source
			}
			p := byTag[tag]
			if p == nil {
				p = &part{where: path + ": ", spec: dataset.Spec{Name: line.Name, Tag: tag, Limits: line.Limits}}
				byTag[tag] = p
				e.parts = append(e.parts, p)
			}
			// What limits all episodes of the part. Each has its own limits, too.
			p.spec.ResponseTokens = widest(p.spec.ResponseTokens, line.ResponseTokens)
			p.spec.RegionTokens = widest(p.spec.RegionTokens, line.RegionTokens)
			p.lines = append(p.lines, line)
		}
	}
	return problems
}

// widest returns the larger one of two limits, of which 0 is none.
func widest(a, b int) int {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// makeTasks makes a task of each part.
func (e *Plan) makeTasks() (problems []error) {
	first := map[string]*part{}
	for i, p := range e.parts {
		key := strings.ToLower(p.spec.Tag)
		if other := first[key]; other != nil {
			problems = append(problems, fmt.Errorf("%stag_id is %q, which %s has, too: results would be mixed", p.where, p.spec.Tag, strings.TrimSuffix(other.where, ": ")))
			continue
		}
		first[key] = p
		t, err := e.task(i, p)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s%w", p.where, err))
			continue
		}
		e.Tasks = append(e.Tasks, t)
	}
	return problems
}

// task makes the task of the i-th part.
func (e *Plan) task(i int, p *part) (evaluate.Task, error) {
	s := &p.spec
	how, err := e.sampling(p)
	if err != nil {
		return evaluate.Task{}, err
	}
	switch {
	case s.Tokenizer != "":
		return evaluate.Task{}, errors.New("tokenizer is set, which is not supported: a local model has its own, and tokens of an API are estimated; remove it")
	case s.TokensPerImage > 0 && e.images > 0 && s.TokensPerImage != e.images:
		return evaluate.Task{}, fmt.Errorf("tokens_per_image is %d, but another entry has %d: it depends on the model, so all entries must have the same", s.TokensPerImage, e.images)
	case s.TokensPerImage > 0:
		e.images = s.TokensPerImage
	}
	lines := slices.Clone(p.lines)
	turns := e.Config.Experiment.MaxTurns
	for k := range lines {
		lines[k].Stop = nil // included in sampling
		if n := lines[k].MaxTurns; n > turns {
			turns = n
		}
	}
	episodes, state, err := train.DatasetEpisodes(lines, nil)
	if err != nil {
		return evaluate.Task{}, err
	}
	registry := e.own.Envs()
	pl := rollout.Player{
		Patience: patience(s.Name), Envs: registry, Sampling: how, MaxTurns: e.Config.Experiment.MaxTurns,
		Budget:     rollout.Budget{Response: s.RegionTokens},
		EnvTimeout: clock.Seconds(e.Config.Run.EnvTimeout), EpisodeTimeout: clock.Seconds(e.Config.Run.EpisodeTimeout),
	}
	pl.SetWorkers(e.Config.Run.Workers)
	if e.Config.Run.Retry {
		pl.Retry = rollout.DefaultRetry()
	}
	if state != nil {
		if err := envs.SetJudge(registry, state, e.models.Dial(client.Dial(nil))); err != nil {
			return evaluate.Task{}, err
		}
		if state.Aggregation == "episode_mean" {
			pl.EpisodeMean = []string{reward.SectionObservation, reward.SectionPrediction}
		}
	}
	h, o, err := harnessOf(s, how.MaxTokens)
	if err == nil {
		pl.Harness, err = rollout.Builtin().New(h, o)
	}
	if err != nil {
		return evaluate.Task{}, err
	}
	plan := rollout.Plan{Budget: pl.Budget, Harness: pl.Harness, PerTurn: how.MaxTokens, MaxTurns: turns}
	doubts, err := plan.Check()
	for _, d := range doubts {
		e.Notes = append(e.Notes, p.where+d.Error())
	}
	return evaluate.Task{
		Tag: s.Tag, Player: pl, Episodes: episodes, AtOnce: e.Config.Run.Jobs,
		Seed: rng.Derive(e.Config.Run.Seed, rng.Validate, uint64(i)), Context: client.WithBudget,
		Judge: state.Identity(),
	}, err
}

// harnessOf returns the name and the options of an entry's harness.
func harnessOf(s *dataset.Spec, perTurn int) (string, rollout.HarnessOptions, error) {
	name := cmp.Or(s.Harness, "concat")
	o := rollout.HarnessOptions{Compact: rollout.Compact{Total: s.CompactTokens,
		Summary: cmp.Or(s.SummaryTokens, rollout.DefaultSummary(s.CompactTokens, perTurn))}}
	if name == "compact" && s.CompactTokens == 0 && s.RegionTokens == 0 {
		return "", o, errors.New("harness is compact, but there is no length at which to summarise: set compact_budget or max_response_length")
	}
	return name, o, nil
}

// sampling returns how the responses of a part are sampled.
func (e *Plan) sampling(p *part) (policy.Sampling, error) {
	block, key := p.spec.Chat, "chat_config"
	if block == nil {
		block, key = e.Config.Chat, "default_chat_config"
	}
	c := ChatConfig{TopP: 1}
	given := map[string]any{}
	for k, v := range block {
		if v != nil {
			given[k] = v
		}
	}
	if faults := settings.Fill(&c, given); len(faults) > 0 {
		return policy.Sampling{}, fmt.Errorf("%s: %w", key, errors.Join(faults...))
	}
	longest := c.MaxTokens
	if n := p.spec.ResponseTokens; n > 0 && (longest == 0 || n < longest) {
		longest = n
	}
	if longest < 1 {
		return policy.Sampling{}, fmt.Errorf("response_length_per_turn and max_tokens in %s are unset: set one of them", key)
	}
	stop := c.Stop
	for _, line := range p.lines {
		for _, s := range line.Stop {
			if !slices.Contains(stop, s) {
				stop = append(stop, s)
			}
		}
	}
	out := policy.Sampling{Temperature: c.Temperature, TopP: c.TopP, TopK: c.TopK, MinP: c.MinP, MaxTokens: longest,
		StopStrings: stop}
	if c.TopK == -1 { // of all tokens
		out.TopK = 0
	}
	if err := out.Check(); err != nil {
		return policy.Sampling{}, fmt.Errorf("%s: %w", key, err)
	}
	return out, nil
}

// Dir returns the folder of results.
func (e *Plan) Dir() string { return e.at(e.Config.Experiment.DumpDir) }

// Open loads a local model, or makes the client of an API. apart reports whether the
// policy answers several callers at once. The caller must call shut at the end. log may be nil.
func (e *Plan) Open(ctx context.Context, log *slog.Logger) (p policy.Policy, apart bool, shut func(), err error) {
	if e.own.Backends == nil {
		return nil, false, nil, unmade.Error("evaluation.Plan", "Load")
	}
	log = silent.Log(log)
	p, apart, done, err := e.openPolicy(ctx, log)
	if err != nil {
		return nil, false, nil, err
	}
	return p, apart, func() {
		done()
		errs := []error{e.models.Close()}
		for i := range e.Tasks {
			errs = append(errs, e.Tasks[i].Player.Envs.Close())
		}
		if err := errors.Join(errs...); err != nil {
			log.Error("closing the judge or environments failed", "err", err)
		}
	}, nil
}

// openPolicy is Open without the judges.
func (e *Plan) openPolicy(ctx context.Context, log *slog.Logger) (p policy.Policy, apart bool, shut func(), err error) {
	b := &e.Backend
	if b.API == local {
		model, adapter, err := e.localModel()
		if err != nil {
			return nil, false, nil, err
		}
		m, err := vlm.Open(ctx, model, e.modelOptions(adapter, log))
		if err != nil {
			return nil, false, nil, err
		}
		return m, false, func() {
			if err := m.Close(); err != nil { // the file of autotune may not have been written
				log.Error("closing the model failed", "err", err)
			}
		}, nil
	}
	o, err := e.chatOptions(log)
	if err != nil {
		return nil, false, nil, err
	}
	if p, err = e.own.Backends.New(ctx, o); err != nil {
		return nil, false, nil, fmt.Errorf("%w: backends.%s: %w", config.ErrConfig, e.Config.Run.Backend, err)
	}
	return p, true, func() {
		if m, ok := p.(interface{ Usage() chat.Usage }); ok {
			log.Info("API usage", "usage", m.Usage())
		}
		if c, ok := p.(io.Closer); ok {
			if err := c.Close(); err != nil {
				log.Error("closing the back end failed", "err", err)
			}
		}
	}, nil
}

// ownNames are the backends with the name of an API. They use that API's key at any
// address; the others use only the key in key_env.
var ownNames = map[string]string{"openai": "openai", "claude": "anthropic", "anthropic": "anthropic", "gemini": "gemini"}

// firstSet returns the first environment variable that is set, "" for none.
func firstSet(names []string) string {
	for _, name := range names {
		if os.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

// ownKey reports whether the API's own key, if it is set, is sent to base_url.
func (e *Plan) ownKey() bool {
	b := &e.Backend
	return b.KeyEnv == "" && b.BaseURL != "" && b.APIKey == "" && ownNames[strings.ToLower(e.Config.Run.Backend)] == b.API
}

// chatOptions returns the options of a model behind an API.
func (e *Plan) chatOptions(log *slog.Logger) (chat.Options, error) {
	b := &e.Backend
	o := chat.DefaultOptions(chat.API(b.API), b.Model)
	o.BaseURL, o.KeyEnv, o.Concurrency = b.BaseURL, b.KeyEnv, b.Concurrency
	if e.ownKey() {
		o.KeyEnv = firstSet(chat.KeyVariables(chat.API(b.API)))
	}
	o.RequestsPerMinute, o.TokensPerMinute, o.ImageTokens = b.Requests, b.Tokens, e.images
	o.Retries, o.Timeout = b.Retries, clock.Seconds(b.Timeout)
	o.Backoff, o.MaxDelay = clock.Seconds(b.MinBackoff), clock.Seconds(b.MaxBackoff)
	for i := range e.Tasks { // stop strings are part of every request
		stop := e.Tasks[i].Player.Sampling.StopStrings
		if i > 0 && !slices.Equal(stop, o.Stop) {
			return o, fmt.Errorf("%w: tag %s: stop_strings are %q, but those of other tags are %q: with an API they must be the same for all tags", config.ErrConfig, e.Tasks[i].Tag, stop, o.Stop)
		}
		o.Stop = stop
	}
	o.Opened = b.Opens
	o.Omit, o.Extra, o.JitterSeed, o.Log = b.Omit, b.Extra, e.Config.Run.Seed, log
	o.Pictures = chat.Pictures{JPEG: b.JPEG, MaxSide: b.MaxSide, Detail: b.Detail}
	if b.Price != (Price{}) {
		o.Prices = map[string]chat.Price{b.Model: chat.Price(b.Price)}
	}
	o.Budget = b.Budget
	if _, err := chat.Builtin().Describe(b.API); err != nil {
		return o, nil // a back end of the program's own checks its options itself
	}
	if err := field.Renamed(o.Validate(), chatKeys); err != nil {
		return o, fmt.Errorf("%w: backends.%s: %w", config.ErrConfig, e.Config.Run.Backend, err)
	}
	return o, nil
}
