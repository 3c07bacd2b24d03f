package env

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"vagen/internal/byname"
	"vagen/internal/field"
	"vagen/internal/floats"
	"vagen/reward"
)

// TurnReward returns an additional reward of a turn, from the response and what the environment
// made of it, which it must not change. The value must be finite; an error ends the episode, as one
// of the environment's does. It must not remember earlier turns: an episode may continue from a
// Snapshotter's state.
type TurnReward func(ctx context.Context, response string, out *Outcome) (float64, error)

// RewardFactory makes a reward from its settings, which Decode reads.
type RewardFactory func(settings map[string]any) (TurnReward, error)

// partName matches the names of rewards.
var partName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// rewardKind and formatKind are the kinds of what a Registry has beside environments.
type (
	rewardKind struct{}
	formatKind struct{}
)

func (rewardKind) Kind() byname.Kind {
	return byname.Kind{Package: "env", Entry: "reward", Unknown: ErrUnknown, Duplicate: ErrDuplicate}
}

func (formatKind) Kind() byname.Kind {
	return byname.Kind{Package: "env", Entry: "response format", Unknown: ErrUnknown, Duplicate: ErrDuplicate}
}

// RegisterReward adds a reward under a name. The option rewards of every environment of this registry
// then selects it, with its settings: rewards: {NAME: {…}}; the environment itself does not get that
// option. The reward becomes a part of each turn's reward with this name. The error says which names are
// allowed, and wraps ErrDuplicate when the name is taken.
func (r *Registry) RegisterReward(name string, f RewardFactory) error {
	if !partName.MatchString(name) {
		return fmt.Errorf("env: register reward %q: must be of lower-case letters, digits and underscores", name)
	}
	return r.rewards.Register(name, f)
}

// RegisterFormat adds a response format under a name: one tagged block for each section, in order, see
// reward.NewTagged. The option prompt_format of every environment of the library then selects it. The
// error names what is wrong with name or sections, and wraps ErrDuplicate when the name is taken.
func (r *Registry) RegisterFormat(name string, sections ...string) error {
	for _, d := range reward.Dialects() {
		if slices.Contains(reward.Formats(d), name) {
			return fmt.Errorf("env: register response format %q: %w", name, ErrDuplicate)
		}
	}
	if _, err := reward.NewTagged(name, sections, reward.ParserOptions{}); err != nil {
		return fmt.Errorf("env: register response format: %w", err)
	}
	return r.formats.Register(name, slices.Clone(sections))
}

// The options that a Registry reads or sets.
const (
	optionRewards  = "rewards"
	optionFormat   = "prompt_format"
	optionSections = "format_sections"
)

// extended returns the options with which an environment is made: those of a configuration without
// rewards and with the sections of a registered format.
func (r *Registry) extended(config map[string]any) (map[string]any, []namedReward, error) {
	rewards, err := r.rewardsOf(config)
	if err != nil {
		return nil, nil, err
	}
	name, _ := config[optionFormat].(string)
	sections, err := byname.Get(&r.formats, name)
	if isFormat := err == nil; isFormat || rewards != nil {
		config = maps.Clone(config)
		delete(config, optionRewards)
		if isFormat {
			config[optionSections] = slices.Clone(sections)
		}
	}
	return config, rewards, nil
}

// rewardsOf makes the rewards that a configuration names, in the order of their names; none if no
// reward is registered.
func (r *Registry) rewardsOf(config map[string]any) ([]namedReward, error) {
	given, ok := config[optionRewards]
	if !ok || len(r.rewards.Names()) == 0 {
		return nil, nil
	}
	byName, ok := given.(map[string]any)
	if !ok && given != nil {
		return nil, rewardError(optionRewards, fmt.Errorf("%v, must be a mapping from names to settings", given))
	}
	out := []namedReward{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		settings, ok := byName[name].(map[string]any)
		if !ok && byName[name] != nil {
			return nil, rewardError(optionRewards+"."+name, fmt.Errorf("%v, must be a mapping of settings", byName[name]))
		}
		f, err := byname.Get(&r.rewards, name)
		if err != nil {
			return nil, rewardError(optionRewards, err)
		}
		one := namedReward{name: name}
		if one.turn, err = f(settings); err == nil && one.turn == nil {
			err = fmt.Errorf("%w: the factory returned nil", ErrOption)
		}
		if err != nil {
			return nil, rewardError(optionRewards+"."+name, err)
		}
		out = append(out, one)
	}
	return out, nil
}

func rewardError(key string, err error) error {
	c := field.Options("env", ErrOption)
	c.Add(key, fmt.Errorf("env: option %q: %w: %w", key, ErrOption, err))
	return c.Err()
}

// explained adds the registered formats to an error about the format.
func (r *Registry) explained(err error) error {
	if known := r.formats.Names(); len(known) > 0 && slices.Contains(field.Keys(err), optionFormat) {
		return fmt.Errorf("%w (registered formats: %s)", err, strings.Join(known, ", "))
	}
	return err
}

type namedReward struct {
	name string
	turn TurnReward
}

// rewarded is an environment with additional rewards.
type rewarded struct {
	Judged  // forwards the optional methods; its Judge is not used
	rewards []namedReward
}

// Step implements Env.
func (e rewarded) Step(ctx context.Context, response string) (Outcome, error) {
	out, err := e.Env.Step(ctx, response)
	if err != nil {
		return out, err
	}
	parts := out.Reward
	for _, r := range e.rewards {
		value, err := r.turn(ctx, response, &out)
		switch {
		case err != nil:
			return Outcome{}, fmt.Errorf("env: reward %s: %w", r.name, err)
		case !floats.Finite(value):
			return Outcome{}, fmt.Errorf("env: reward %s is %v, must be finite", r.name, value)
		case slices.ContainsFunc(out.Reward, func(p reward.Part) bool { return p.Name == r.name }):
			return Outcome{}, fmt.Errorf("env: reward %s: the environment pays a part of this name itself; register another name", r.name)
		}
		parts = append(parts, reward.Part{Name: r.name, Value: value})
	}
	out.Reward = parts
	return out, nil
}
