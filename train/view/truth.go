package view

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"vagen/env"
	"vagen/env/blackjack"
	"vagen/env/frozenlake"
	"vagen/env/navigation"
	"vagen/env/primitiveskill"
	"vagen/env/sokoban"
	"vagen/reward"
	"vagen/rollout"
	"vagen/rollout/store"
)

// worlds are the environments whose state can be computed again from an episode's seed
// and responses. Episodes may come from anywhere, so options that name a file or a service
// are refused.
var worlds = map[string]env.Factory{
	"blackjack":       closed(blackjack.FromConfig, blackjack.Options{}),
	"frozenlake":      closed(frozenlake.FromConfig, frozenlake.Options{}),
	"navigation":      closed(navigation.FromConfig, navigation.Options{}),
	"primitive_skill": closed(primitiveskill.FromConfig, primitiveskill.Options{}),
	"sokoban":         closed(sokoban.FromConfig, sokoban.Options{}),
}

// closed returns a factory that accepts only options which are numbers or plain texts.
func closed(f env.Factory, options any) env.Factory {
	return env.Guard{Kinds: env.OptionKinds(options)}.Factory(f)
}

// replayTime limits the time for computing the states of an episode again.
const replayTime = 5 * time.Second

// truth is the state before and after a turn in the words of the environment.
type truth struct{ before, after string }

// replay plays an episode again and returns the true states of its turns. problem says
// why there are none although the responses speak of the state.
func replay(ctx context.Context, t *rollout.Trajectory) (out []truth, problem string) {
	speaks := false
	for k := range t.Turns {
		speaks = speaks || len(statements(&t.Turns[k])) > 0
	}
	if !speaks {
		return nil, ""
	}
	factory, ok := worlds[t.Env]
	if !ok {
		return nil, sentence("The true state is not shown: it was not recorded, and cannot be computed again for %s", t.Env)
	}
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()
	out, err := states(ctx, factory, t)
	if err != nil {
		return nil, sentence("The true state is not shown: %v", err)
	}
	return out, ""
}

// states plays an episode again, and checks that the agent is shown what was recorded.
func states(ctx context.Context, factory env.Factory, t *rollout.Trajectory) ([]truth, error) {
	config := maps.Clone(t.Config)
	delete(config, "state_reward") // a judge, which is not called
	e, err := factory(config)
	if errors.Is(err, env.ErrRefused) {
		return nil, fmt.Errorf("an option of %s names a file or a service, which is not used here", t.Env)
	}
	if err != nil {
		return nil, err
	}
	defer e.Close()
	d, ok := e.(env.Describer)
	if !ok {
		return nil, fmt.Errorf("%s does not describe its state", t.Env)
	}
	shown, err := e.Reset(ctx, t.Seed)
	if err != nil {
		return nil, err
	}
	var out []truth
	for k := range t.Turns {
		if !sameObservation(&t.Turns[k], shown) {
			return nil, fmt.Errorf("playing the episode again shows something else in turn %d", k)
		}
		before := d.Describe()
		o, err := e.Step(ctx, t.Turns[k].Response)
		if err != nil {
			return nil, err
		}
		out = append(out, truth{before, d.Describe()})
		if shown = o.Observation; o.Done && k < len(t.Turns)-1 {
			return nil, fmt.Errorf("playing the episode again ends after turn %d", k)
		}
	}
	return out, nil
}

// sameObservation compares what the agent is shown with the record: images by their
// hashes, and texts unless the recorded one was cut.
func sameObservation(was *rollout.Turn, is env.Observation) bool {
	if len(was.Observation.Images) != len(is.Images) || !was.Cut && was.Observation.Text != is.Text {
		return false
	}
	for i, im := range was.Observation.Images {
		if name, ok := im.(store.Absent); ok && store.ImageName(is.Images[i]) != string(name) {
			return false
		}
	}
	return true
}

// statements are what a turn's response says about the state, by section.
func statements(t *rollout.Turn) map[string]string {
	out := map[string]string{}
	for _, name := range []string{reward.SectionObservation, reward.SectionPrediction} {
		if text, ok := t.Parsed.Sections[name]; ok {
			out[name] = text
		}
	}
	return out
}

// claims are what a turn's response says about the state, beside the true state and the
// environment's score.
func claims(t *rollout.Trajectory, k int, truths []truth) []claimAnswer {
	out := []claimAnswer{}
	turn := &t.Turns[k]
	text := statements(turn)
	for _, c := range []struct{ section, kind string }{{reward.SectionObservation, "grounding"},
		{reward.SectionPrediction, "worldmodeling"}} {
		words, ok := text[c.section]
		if !ok {
			continue
		}
		a := claimAnswer{Kind: c.kind, Said: strings.TrimSpace(words), Score: score(turn, c.section)}
		if k < len(truths) {
			a.Truth = truths[k].before
			if c.section == reward.SectionPrediction {
				// Predictions say where things are, not which ways are free.
				a.Truth, _, _ = strings.Cut(truths[k].after, " free")
			}
		}
		out = append(out, a)
	}
	return out
}

// score is how true the environment found a section, nil if it did not record that.
func score(turn *rollout.Turn, section string) *number {
	x, ok := turn.Metrics[section+"_score"]
	if !ok {
		return nil
	}
	return (*number)(&x)
}
