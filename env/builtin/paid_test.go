package builtin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/internal/testkit"
	"vagen/reward/judge"
)

// block is a state_reward with weight 0.5 for observations, read by rules.
func block(change map[string]any) map[string]any {
	b := envtest.Options("state_estimation: {enable: true, reward: 0.5}, scorer: exact, score_base: 0.0")
	maps.Copy(b, change)
	return b
}

const lookAndGo = "<perception>The target is below and right of the player. The hole is below, in the same column.</perception>" +
	"<reasoning>r</reasoning><prediction>p</prediction><answer>Right</answer>"

func played(t *testing.T, r *env.Registry, config map[string]any) env.Outcome {
	t.Helper()
	config["desc"], config["prompt_format"] = []any{"SF", "HG"}, "wm"
	e, err := r.New("frozenlake", config)
	require.NoError(t, err)
	envtest.Reset(t, e, 0)
	out := envtest.Play(t, e, lookAndGo)
	return out
}

func TestBlocksOfStateRewardsPayWhatTheyEnable(t *testing.T) {
	out := played(t, Registry(), map[string]any{"state_reward": block(nil)})
	require.True(t, out.Response.FormatCorrect, "a block chooses the rules of VAGEN next")
	require.Equal(t, 0.5, out.Turn["grounding_reward"])
	require.Equal(t, 0.5, out.Reward.Of("observation"))
	require.NotContains(t, out.Turn, "worldmodeling_reward", "predictions are not paid for")
	require.Len(t, out.Claims, 1)

	nothing := block(envtest.Options("state_estimation: {enable: false}"))
	out = played(t, Registry(), map[string]any{"state_reward": nothing, "rules": "next"})
	require.Empty(t, out.Claims)
	require.Zero(t, out.Reward.Of("observation"))
}

func TestBlocksMayAskAModel(t *testing.T) {
	dialled := 0
	r := RegistryWith(func(b *judge.StateReward) (judge.Completer, error) {
		dialled++
		if b.JudgeModel == "gone" {
			return nil, errors.New("no such model")
		}
		require.Equal(t, "http://judge/v1 m", b.JudgeURL+" "+b.JudgeModel)
		return func(_ context.Context, prompts []string) ([]string, []error, error) {
			answers := make([]string, len(prompts))
			for i := range answers {
				answers[i] = `[{"object_id": "target", "vertical_relation": "below", "horizontal_relation": "right"}]`
			}
			return answers, make([]error, len(prompts)), nil
		}, nil
	})
	asking := block(envtest.Options("scorer: judge, judge_base_url: http://judge/v1, judge_model: m"))
	for range 3 {
		out := played(t, r, map[string]any{"state_reward": asking})
		require.InDelta(t, 0.35, out.Reward.Of("observation"), 1e-12)
	}
	require.Equal(t, 1, dialled, "environments with equal blocks share a judge")

	gone := block(envtest.Options("scorer: judge, judge_base_url: http://judge/v1, judge_model: gone"))
	_, err := r.New("sokoban", map[string]any{"state_reward": gone})
	require.ErrorContains(t, err, "no such model")
	_, err = Registry().New("sokoban", map[string]any{"state_reward": asking})
	require.ErrorContains(t, err, "needs a language model")
}

func TestBlocksThatCannotBeMeantAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		config map[string]any
		want   string
	}{
		{"sokoban", map[string]any{"state_reward": block(nil), "use_state_reward": true}, "both given"},
		{"sokoban", map[string]any{"state_reward": block(nil), "rules": "lite"}, "no judged state reward"},
		{"svg", map[string]any{"state_reward": block(nil)}, "no state that responses could describe"},
	} {
		_, err := Registry().New(c.name, c.config)
		testkit.Error(t, err, env.ErrOption, c.want)
	}
}

// paidFor starts an episode, steps with each of the observations and returns what was paid for them.
func paidFor(t *testing.T, e env.Env, seed int64, move string, observations ...string) (paid []float64) {
	t.Helper()
	envtest.Reset(t, e, seed)
	for _, text := range observations {
		out := envtest.Play(t, e, "<think><observation>"+text+
			"</observation><reasoning>r</reasoning></think><answer>"+move+"</answer>")
		paid = append(paid, out.Reward.Of("observation"))
	}
	return paid
}

// A response that repeats the map in the observation gets the full reward.
func TestMapsOfTheStateArePaidInFull(t *testing.T) {
	for _, name := range []string{"frozenlake", "sokoban"} {
		e, err := Registry().New(name, envtest.Options(
			"rules: legacy, prompt_format: grounding_symbolic, use_state_reward: true, render_mode: text"))
		require.NoError(t, err)
		for seed := range int64(5) {
			o := envtest.Reset(t, e, seed)
			shown := boardOf(o.Text)
			require.Equal(t, []float64{0.5}, paidFor(t, e, seed, "Up", shown), "%s: %q", name, shown)
		}
	}
}

// boardOf cuts the lines of cells out of an observation.
func boardOf(text string) string {
	var rows []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, " ") && strings.Contains(line, "\t") {
			rows = append(rows, strings.TrimRight(line, "\n"))
		}
	}
	return strings.Join(rows, "\n")
}

func TestJudgesOfManyAddressesAreNotKeptForEver(t *testing.T) {
	p := &paid{judges: map[judge.StateReward]env.Judge{}, dial: func(*judge.StateReward) (judge.Completer, error) {
		return func(context.Context, []string) ([]string, []error, error) { return nil, nil, nil }, nil
	}}
	block := judge.DefaultStateReward()
	for i := range 10 * maxJudges {
		block.JudgeURL = fmt.Sprintf("http://host%d/v1", i)
		j, err := p.judge(&block)
		require.NoError(t, err)
		again, err := p.judge(&block)
		require.NoError(t, err)
		require.Same(t, j, again)
		require.LessOrEqual(t, len(p.judges), maxJudges)
		require.Len(t, p.order, len(p.judges))
	}
}

// A configuration can select VAGEN legacy's score for Sokoban with its penalty for
// repeated phrases.
func TestBlocksReachTheLegacyScoreAndThePenaltyForStockPhrases(t *testing.T) {
	r := Registry()
	play := func(change map[string]any, turns ...string) []float64 {
		config := map[string]any{"rules": "legacy", "prompt_format": "grounding",
			"desc":         []any{"######", "#____#", "#P_XO#", "######"},
			"state_reward": block(change)}
		e, err := r.New("sokoban", config)
		require.NoError(t, err)
		return paidFor(t, e, 0, "Left", turns...)
	}
	const right = "The box is right, same row. The target is right, same row."
	const half = "The box is right, same row. The target is right."
	require.InDeltaSlice(t, []float64{0.5, 0.375}, play(nil, right, half), 1e-12, "half agreements, times 0.5")
	own := envtest.Options("scoring: exact_matches, stock_phrases: {top: 0}")
	require.InDeltaSlice(t, []float64{0.5, 0.25, 0}, play(own, right, half, "Boxes."), 1e-12, "exact ones")
	own["stock_phrases"] = envtest.Options("top: 1, penalty: 0.2")
	require.InDeltaSlice(t, []float64{-0.1, 0.5}, play(own, "Hm.", right), 1e-12, "the only text so far is a stock phrase")
	own["stock_phrases"] = envtest.Options("top: 1, penalty: 0.4, enough: 2.5")
	require.InDeltaSlice(t, []float64{-0.2}, play(own, right), 1e-12, "an empty description gets no reward")

	for want, config := range map[string]map[string]any{
		"stock_phrases is for scoring":     {"stock_phrases": envtest.Options("top: 3")},
		"for sokoban and frozenlake alone": {"scoring": "exact_matches"},
	} {
		_, err := r.New("navigation", map[string]any{"prompt_format": "wm", "state_reward": block(config)})
		testkit.Error(t, err, env.ErrOption, want)
	}
}

// Structured descriptions are dictionaries of positions, as the originals request, or
// lists of relations; the judge reads the prompt's example correctly.
func TestDictionariesOfPlacesArePaidLikeLists(t *testing.T) {
	r := Registry()
	for _, text := range []string{
		`{"player": (0, 0), "target": (1, 1), "hole": (1, 0)}`, `{'player': (0,0), 'target': (1,1), 'holes': [(1,0)]}`,
		`[{'object_id': 'target', 'vertical_relation': 'below', 'horizontal_relation': 'right'}, {'object_id': 'hole', 'vertical_relation': 'below', 'horizontal_relation': 'same'}]`,
	} {
		e, err := r.New("frozenlake", map[string]any{"rules": "legacy", "prompt_format": "grounding_structured",
			"desc": []any{"SF", "HG"}, "state_reward": block(nil)})
		require.NoError(t, err)
		system := envtest.System(t, e)
		require.Contains(t, system.Text, `{"player": (row, column), "target": (row, column)`)
		require.Equal(t, []float64{0.5}, paidFor(t, e, 0, "Right", text), text)
	}
}
