package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"vagen/env/dataset"
	"vagen/internal/nearest"
	"vagen/reward/judge"
	"vagen/rollout"
	"vagen/train/config"
)

// Levels are the start states of a run: those of training, in the order of steps, and those
// of validation. They come from data.train_files and data.val_files, otherwise from env.name
// with consecutive seeds.
type Levels struct {
	config *config.Config
	train  []rollout.Episode // from files; empty if env.name is used
	val    []rollout.Episode

	dropped bool // dropOverlong has run

	mixture *mixture // of train

	mu     sync.Mutex
	orders map[[2]int][]int // of train, by entry and epoch; entry -1 without weights

	// State is the block state_reward of the environments in files, nil for none. It must
	// be the same in all of them.
	State *dataset.StateReward
	// Shared is an error that lists validation levels that are also trained on; nil for none.
	Shared error
}

// OpenLevels reads the files that a configuration names and sets the configuration's values
// that depend on them: the number of steps if only epochs are given, the longest response of
// a turn, and the placement and amount of state rewards. known are the names of the
// environments. It must be called before a run folder is created for the configuration; a
// Trainer calls it itself unless its Levels are set.
func OpenLevels(ctx context.Context, c *config.Config, known []string) (*Levels, error) {
	c = cmp.Or(c, new(config.Config))
	l := &Levels{config: c}
	var problems []error
	read := func(key string, files []string, split dataset.Split) []dataset.Episode {
		var all []dataset.Episode
		entries := 0
		for _, path := range files {
			o := dataset.Options{Known: known, Open: c.Rollout.UseService, Legacy: dataset.LegacyOptions{Split: split}}
			episodes, err := dataset.Load(ctx, path, c.Data.BaseSeed, o)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", key, err))
			}
			for i := range episodes {
				episodes[i].Entry += entries // unique among all files
			}
			if n := len(episodes); n > 0 {
				entries = episodes[n-1].Entry + 1
			}
			all = append(all, episodes...)
		}
		return all
	}
	if len(known) > 0 && !c.Rollout.UseService {
		for _, name := range slices.Sorted(maps.Keys(c.Env.Defaults)) {
			if !slices.Contains(known, name) && !slices.Contains(config.PresetEnvironments(), name) {
				problems = append(problems, fmt.Errorf("env.defaults: environment %q is unknown%s; known are %s", name,
					nearest.Hint(name, known), strings.Join(known, ", ")))
			}
		}
	}
	train, val := read("data.train_files", c.Data.TrainFiles, dataset.Train),
		read("data.val_files", c.Data.ValFiles, dataset.Test)
	if len(problems) == 0 {
		problems = l.addEpisodes(train, val)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("train: %w: %w", config.ErrConfig, errors.Join(problems...))
	}
	return l, nil
}

// addEpisodes converts the entries of files to episodes.
func (l *Levels) addEpisodes(train, val []dataset.Episode) []error {
	c := l.config
	var problems []error
	report := func(err error) { problems = append(problems, err) }
	for _, part := range []struct {
		key  string
		from []dataset.Episode
		into *[]rollout.Episode
	}{{"data.train_files", train, &l.train}, {"data.val_files", val, &l.val}} {
		made := map[optionsKey]map[string]any{}
		for i := range part.from {
			e, err := l.episode(&part.from[i], made)
			if err == nil && part.into == &l.val {
				err = onlyTraining(&part.from[i])
			}
			if err != nil {
				report(fmt.Errorf("%s: episode %d (%s): %w", part.key, i, part.from[i].Name, err))
				break
			}
			*part.into = append(*part.into, e)
		}
	}
	var err error
	if l.mixture, err = newMixture(train); err != nil {
		report(fmt.Errorf("data.train_files: %w", err))
	}
	if len(problems) == 0 {
		if err := l.setThinkingLimit(slices.Concat(train, val)); err != nil {
			report(err)
		}
	}
	if n, k := len(val), c.Agent.Rollout.Val.Episodes; k > 0 && n > config.MaxEpisodes/k {
		report(fmt.Errorf("data.val_files have %d episodes, and actor_rollout_ref.rollout.val_kwargs.n is %d: a validation may have at most %d", n, k, config.MaxEpisodes))
	}
	if n := len(l.train); len(c.Data.TrainFiles) > 0 && n < c.Data.TrainBatch && len(problems) == 0 {
		report(fmt.Errorf("data.train_files have %d episodes, data.train_batch_size is %d", n, c.Data.TrainBatch))
	}
	if len(problems) == 0 {
		l.Shared = dataset.Disjoint(l.trainedSeeds(train, val), val)
	}
	if len(problems) == 0 && len(train) > 0 {
		l.completeConfig(train)
	}
	return problems
}

// trainedSeeds returns the training levels of env.name whose seeds val also contains.
func (l *Levels) trainedSeeds(train, val []dataset.Episode) []dataset.Episode {
	c := l.config
	if len(c.Data.TrainFiles) > 0 {
		return train
	}
	var out []dataset.Episode
	for i := range val {
		if s := val[i].Seed; val[i].Env == c.Env.Name && s >= c.Env.Seed && s-c.Env.Seed < c.CountedSeeds() {
			out = append(out, dataset.Episode{Name: c.Env.Name, Env: c.Env.Name, Seed: s, Config: c.Env.Config})
		}
	}
	return out
}

// optionsKey identifies the options of an episode of a file, which the episodes of an entry share.
type optionsKey struct {
	env    string
	config uintptr // of dataset.Episode.Config
	state  *dataset.StateReward
	legacy bool
}

// onlyTraining refuses what validations and evaluations do not honour.
func onlyTraining(e *dataset.Episode) error {
	if e.Weight != 0 || e.RewardScale != 0 {
		return errors.New("weight or reward_scale is set, but is supported only in data.train_files")
	}
	return nil
}

// episode returns the episode of an entry of a file. The file's options add to those of
// env.defaults and env.config.
func (l *Levels) episode(e *dataset.Episode, made map[optionsKey]map[string]any) (rollout.Episode, error) {
	out := rollout.Episode{
		Env: e.Env, Seed: e.Seed, Source: e.Source, MaxTurns: e.MaxTurns, RewardScale: e.RewardScale,
		MaxTokens: e.ResponseTokens, MaxObservation: e.ObserveTokens, MaxRegion: e.RegionTokens,
	}
	if len(e.Stop) > 0 {
		return out, errors.New("stop_strings is set, but is supported only for models behind an API")
	}
	key := optionsKey{e.Env, reflect.ValueOf(e.Config).Pointer(), e.StateReward, e.Legacy}
	options, ok := made[key]
	if !ok {
		options = config.MergeOptions(l.config.EnvOptions(e.Env), e.Options())
		block := e.StateReward
		// it is in env.defaults
		if own, _, err := judge.TakeStateReward(l.config.Env.Config); block == nil && (err != nil || !own.Enabled()) {
			if block, _, err = judge.TakeStateReward(options); err != nil {
				return out, err
			}
		}
		if block != nil {
			if err := block.Supports(e.Env); err != nil {
				return out, err
			}
		}
		if err := l.setStateReward(block, options); err != nil {
			return out, err
		}
		made[key] = options
	}
	out.Config = options
	return out, nil
}

// setThinkingLimit sets the limit on thinking to that of the files, which must be the same in
// all.
func (l *Levels) setThinkingLimit(all []dataset.Episode) error {
	const key = "thinking_token_budget"
	limit := &l.config.Agent.Rollout.Thinking
	for i := range all {
		switch n := all[i].ThinkTokens; {
		case n == nil && all[0].ThinkTokens == nil:
		case n == nil || all[0].ThinkTokens == nil:
			return fmt.Errorf("%s is set for only one of %s and %s, must be the same in the whole run", key, all[0].Name,
				all[i].Name)
		case *n != *all[0].ThinkTokens:
			return fmt.Errorf("%s of %s and %s is %d and %d, must be the same in the whole run", key, all[0].Name, all[i].Name,
				*all[0].ThinkTokens, *n)
		case *n == 0:
			return fmt.Errorf("%s of %s is 0, must be at least 1", key, all[i].Name)
		case *limit > 0 && *limit != *n:
			return fmt.Errorf("%s of %s is %d, but actor_rollout_ref.rollout.%s is %d", key, all[i].Name, *n, key, *limit)
		}
	}
	if len(all) > 0 && all[0].ThinkTokens != nil {
		*limit = *all[0].ThinkTokens
	}
	return nil
}

// setStateReward enables state rewards of an environment according to a block state_reward.
func (l *Levels) setStateReward(s *dataset.StateReward, options map[string]any) error {
	if !s.Enabled() {
		return nil
	}
	delete(options, judge.Key) // replaced below by one judge for the whole run
	if l.State != nil && !l.State.SameJudge(s) {
		return errors.New("state_reward differs from that of other environments; within a run only its rewards may differ")
	}
	l.State = s
	weight := func(part dataset.Section) float64 {
		if part.Enable {
			return part.Reward
		}
		return 0
	}
	options["use_state_reward"] = true
	options["grounding_reward_weight"], options["worldmodeling_reward_weight"] = weight(s.Estimation), weight(s.Transition)
	if options["rules"] == nil {
		options["rules"] = "next"
	}
	return nil
}

// completeConfig sets the configuration's values that depend on the files.
func (l *Levels) completeConfig(train []dataset.Episode) {
	c := l.config
	if c.Trainer.Steps == config.StepsFromEpochs {
		c.Trainer.Steps = c.Trainer.Epochs * (len(train) / c.Data.TrainBatch)
	}
	longest := 0
	for i := range train {
		if longest = max(longest, train[i].ResponseTokens); train[i].ResponseTokens == 0 {
			longest = 0
			break
		}
	}
	if c.Data.PerTurn == 0 && longest > 0 {
		c.Data.PerTurn = longest
	}
	if l.State != nil {
		c.Reward.Aggregate, c.Reward.Site = l.State.Aggregation, l.State.Site
	}
}

// Validation returns the validation episodes, one group per level.
func (l *Levels) Validation() []rollout.Episode {
	c := l.config
	if c == nil { // there are none
		return nil
	}
	out := slices.Clone(l.val)
	if len(c.Data.ValFiles) == 0 {
		for i := range c.Data.ValBatch {
			out = append(out, rollout.Episode{Env: c.Env.Name, Config: c.Env.Config, Seed: c.Env.ValSeed + int64(i)})
		}
	}
	n := max(1, c.Agent.Rollout.Val.Episodes)
	all := make([]rollout.Episode, 0, n*len(out))
	for group, e := range out {
		for e.Group, e.Index = group, 0; e.Index < n; e.Index++ {
			all = append(all, e)
		}
	}
	return all
}

// String returns the names of the training environments, "" without any: the zero value is
// that of a supervised stage, which plays none.
func (l *Levels) String() string {
	if l.config == nil {
		return ""
	}
	if len(l.train) == 0 {
		return l.config.Env.Name
	}
	var names []string
	for i := range l.train {
		if !slices.Contains(names, l.train[i].Env) {
			names = append(names, l.train[i].Env)
		}
	}
	return strings.Join(names, ", ")
}

// ValidatedAtOnce is the number of validation episodes that are played at the same time.
func (l *Levels) ValidatedAtOnce() int {
	n := len(l.Validation())
	if n == 0 {
		return 0
	}
	if most := atOnce(l.config); most > 0 {
		n = min(n, most)
	}
	return n
}

// atOnce returns the number of validation episodes to play at a time; 0 is all of them.
func atOnce(c *config.Config) int {
	if len(c.Data.ValFiles) == 0 {
		return 0
	}
	return c.Data.ValBatch
}

// First returns a training episode, to try the environment.
func (l *Levels) First() rollout.Episode { return l.At(1, 0) }

// Samples returns one episode for every combination of environment and options in training
// and validation, at most n.
func (l *Levels) Samples(n int) []rollout.Episode { return l.samples(n, l.Validation()) }

// TrainingSamples is Samples without validation.
func (l *Levels) TrainingSamples(n int) []rollout.Episode { return l.samples(n, nil) }

func (l *Levels) samples(n int, val []rollout.Episode) []rollout.Episode {
	var out []rollout.Episode
	seen := map[string]bool{}
	add := func(e *rollout.Episode) {
		// "" if there is no validation
		if kind := e.Env + config.ValueText(e.Config); e.Env != "" && len(out) < n && !seen[kind] {
			seen[kind] = true
			out = append(out, *e)
		}
	}
	first := l.First()
	add(&first)
	for _, all := range [][]rollout.Episode{l.train, val} {
		for i := 0; i < len(all) && len(out) < n; i++ {
			if i == 0 || !sameOptions(&all[i-1], &all[i]) {
				add(&all[i])
			}
		}
	}
	return out
}

// sameOptions reports whether two episodes share their options.
func sameOptions(a, b *rollout.Episode) bool {
	return a.Env == b.Env && reflect.ValueOf(a.Config).Pointer() == reflect.ValueOf(b.Config).Pointer()
}

// openLevels reads the start states unless Levels is set.
func (t *Trainer) openLevels(ctx context.Context) error {
	if t.Levels == nil {
		var err error
		if t.Levels, err = OpenLevels(ctx, &t.Config, t.Envs.Names()); err != nil {
			return err
		}
		if err := t.Levels.Shared; err != nil { // if the caller sets Levels, it reports this itself
			t.Log.Warn("validation levels are also trained on", "err", err)
		}
	}
	if t.Levels.config != &t.Config { // collections of later steps may read it meanwhile
		t.Levels.config = &t.Config
	}
	return nil
}
