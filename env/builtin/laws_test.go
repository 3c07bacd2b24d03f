package builtin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/env/internal/options"
	"vagen/reward"
)

// world is an environment with rule sets.
type world struct {
	name    string
	config  map[string]any
	formats func(env.Rules) []string
	example string // what precedes the example of a prompt
	asks    bool   // every first observation says the format
}

var worlds = []world{
	{"frozenlake", envtest.Options("describe_holes: true"), formats(reward.Lite), "For example:\n", false},
	{"sokoban", envtest.Options("describe_moves: true"), formats(reward.Lite), "For example:\n", false},
	{"navigation", envtest.Options("resolution: 32, example_count: 1"),
		formats(reward.LiteNavigation, "_symbolic", "_structured"), "For example:\n", true},
	{"primitive_skill", envtest.Options("resolution: 64"),
		formats(reward.LitePrimitiveSkill, "_symbolic"), "(-30,80,20):\n", true},
}

func formats(lite reward.Dialect, without ...string) func(env.Rules) []string {
	return func(rules env.Rules) []string { return options.Formats(rules, lite, without...) }
}

// open makes an environment of a world with more options.
func (w world) open(t testing.TB, rules env.Rules, format string, more map[string]any) env.Env {
	t.Helper()
	config := map[string]any{"rules": string(rules), "prompt_format": format}
	maps.Copy(config, w.config)
	maps.Copy(config, more)
	e, err := Registry().New(w.name, config)
	require.NoError(t, err, "%s %v", w.name, config)
	return e
}

// each calls f for every rule set of every world with each of its formats.
func each(f func(w world, rules env.Rules, format string)) {
	for _, w := range worlds {
		for _, rules := range []env.Rules{env.Lite, env.Legacy, env.Next} {
			for _, format := range w.formats(rules) {
				f(w, rules, format)
			}
		}
	}
}

func TestPromptsShowAnExampleThatIsAccepted(t *testing.T) {
	each(func(w world, rules env.Rules, format string) {
		for _, mode := range []string{env.Text, env.Vision} {
			what := fmt.Sprintf("%s %s %s %s", w.name, rules, format, mode)
			e := w.open(t, rules, format, map[string]any{"render_mode": mode})
			system, err := e.System(t.Context())
			require.NoError(t, err, what)
			require.NotContains(t, system.Text, env.ImageMark, what)
			_, example, found := strings.Cut(system.Text, w.example)
			require.True(t, found, what)
			first, err := e.Reset(t.Context(), 3)
			require.NoError(t, err, what)
			require.Equal(t, mode == env.Vision, strings.Contains(first.Text, env.ImageMark), what)
			require.Equal(t, w.asks || rules == env.Legacy, strings.Contains(first.Text, "Answer in this form"), what)
			out, err := e.Step(t.Context(), example)
			require.NoError(t, err, what)
			require.True(t, out.Response.FormatCorrect, "%s: %s", what, example)
			require.Len(t, out.Response.Actions, 2, what)
			require.Equal(t, 1.0, out.Turn["action_is_valid"], what)
		}
	})
}

// Lessons are true and well formed in every format, also where moves are random.
func TestLessonsAreTrueAndWellFormed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	each(func(w world, rules env.Rules, format string) {
		if w.name == "primitive_skill" {
			return // it is no env.Teacher
		}
		config := map[string]any{"render_mode": env.Text, "max_actions_per_step": 2}
		sections := env.ParserOf(w.open(t, rules, format, config)).Sections()
		for _, section := range []string{reward.SectionObservation, reward.SectionPrediction} {
			if slices.Contains(sections, section) {
				config[section+"_reward"] = 1
			}
		}
		e := w.open(t, rules, format, config)
		for seed := range int64(4) {
			envtest.Reset(t, e, seed)
			for range 4 {
				text, err := e.(env.Teacher).Teach("shortest_path", 0.3, r)
				require.NoError(t, err)
				out := envtest.Play(t, e, text)
				what := fmt.Sprintf("%s %s %s seed %d: %q", w.name, rules, format, seed, text)
				require.True(t, out.Response.FormatCorrect, what)
				require.Equal(t, 1.0, out.Turn["action_is_valid"], what)
				for _, part := range []string{reward.SectionObservation, reward.SectionPrediction} {
					if strings.Contains(text, "<"+part+">") {
						require.Equal(t, 1.0, out.Reward.Of(part), what)
					}
				}
				if out.Done {
					break
				}
			}
		}
	})
}

// lessons are settings for small models, whose statements are paid by words.
var lessons = map[string]struct {
	config map[string]any
	turns  int // longest episode
	most   int // solved with much noise
}{
	"frozenlake": {nil, 12, 15},
	"sokoban": {envtest.Options("describe_moves: true, dim_room: [6, 6], min_solution_steps: [2, 6], retry: lcg"),
		8, 14},
	"navigation": {envtest.Options(`eval_set: base_open, targets: [Fridge, Sofa, Bed, Bathtub], step_length: 0.5,
		success_threshold: 1.5, max_steps: 12, max_actions_per_step: 2`), 12, 9},
}

// Without noise every lesson solves its level with correct statements, with much noise few do.
func TestTeachersSolveLevelsUnlessTheyAreNoisy(t *testing.T) {
	for name, k := range lessons {
		config := map[string]any{
			"render_mode": env.Text, "prompt": "brief", "prompt_format": reward.ObservePredict,
			"max_actions_per_step": 1, "observation_reward": 1, "prediction_reward": 1,
		}
		maps.Copy(config, k.config)
		e, err := Registry().New(name, config)
		require.NoError(t, err)
		teacher := e.(env.Teacher)
		solved := map[float64]int{}
		for _, noise := range []float64{0, 0.9} {
			for seed := range int64(30) {
				envtest.Reset(t, e, seed)
				r := rand.New(rand.NewPCG(uint64(seed), 1))
				for turn, done := 0, false; !done && turn < k.turns; turn++ {
					text, err := teacher.Teach("shortest_path", noise, r)
					require.NoError(t, err)
					out := envtest.Play(t, e, text)
					require.True(t, out.Response.FormatCorrect, text)
					require.Equal(t, []float64{1, 1}, []float64{out.Turn["observation_score"], out.Turn["prediction_score"]}, text)
					if done = out.Done; out.Success {
						solved[noise]++
					}
				}
			}
		}
		require.Equal(t, 30, solved[0], name)
		require.LessOrEqual(t, solved[0.9], k.most, name)
		require.Equal(t, env.Judged{Env: e}.Scripts(), teacher.Scripts())
		for _, script := range teacher.Scripts() {
			_, err := teacher.Teach(script, 0, rand.New(rand.NewPCG(1, 1)))
			require.NoError(t, err, script)
		}
		_, err = teacher.Teach("wizard", 0, nil)
		require.ErrorIs(t, err, env.ErrScript, name)
	}
}

func TestCallsOutOfOrderAreErrors(t *testing.T) {
	for name := range configs {
		e, err := Registry().New(name, nil)
		require.NoError(t, err)
		_, err = e.Step(t.Context(), "")
		require.ErrorIs(t, err, env.ErrNotReset, name)
		if d, ok := e.(env.Describer); ok {
			require.Empty(t, d.Describe(), name)
		}
		if teacher, ok := e.(env.Teacher); ok {
			text, err := teacher.Teach("random", 0, rand.New(rand.NewPCG(1, 1)))
			require.NoError(t, err, name)
			require.Empty(t, text, name)
		}
		cause := errors.New("time is up")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err = e.Reset(ctx, 1)
		require.ErrorIs(t, err, cause, name)
		require.NoError(t, e.Close())
		_, err = e.Reset(t.Context(), 1)
		require.ErrorIs(t, err, env.ErrClosed, name)
	}
}

// FuzzStep: a response is no part of an observation, whatever it is.
func FuzzStep(f *testing.F) {
	var all []func(t testing.TB) env.Env
	each(func(w world, rules env.Rules, format string) {
		all = append(all, func(t testing.TB) env.Env {
			return w.open(t, rules, format, map[string]any{"render_mode": env.Text})
		})
	})
	f.Add("<think>a</think><answer>Up,Down</answer>", uint(0))
	f.Add("<think>a</think><answer>pick(1,2,3)|place(1,2,3)</answer>", uint(len(all)-1))
	f.Add("<think>\xff</think><answer>pick(<image>1,2,\u00a03)(</answer>", uint(len(all)-9))
	for i := range all {
		f.Add("<answer>\xff,<image>,\u212aeep</answer>", uint(i))
	}
	f.Fuzz(func(t *testing.T, response string, pick uint) {
		e := all[pick%uint(len(all))](t)
		envtest.Reset(t, e, 3)
		out := envtest.Play(t, e, response)
		require.NotContains(t, out.Observation.Text, env.ImageMark)
		require.True(t, utf8.ValidString(out.Observation.Text))
	})
}
