package env_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/env/internal/envtest"
	"vagen/internal/field"
	"vagen/internal/testkit"
	"vagen/reward"
)

// length is a reward of the length of a response times its setting scale.
func length(settings map[string]any) (env.TurnReward, error) {
	o := struct {
		Scale float64 `option:"scale"`
	}{1}
	if err := env.Decode(settings, &o); err != nil {
		return nil, err
	}
	return func(_ context.Context, response string, out *env.Outcome) (float64, error) {
		if response == "fail" {
			return 0, errors.New("broken")
		}
		return o.Scale * float64(len(response)), nil
	}, nil
}

func always(value float64) env.RewardFactory {
	return func(map[string]any) (env.TurnReward, error) {
		return func(context.Context, string, *env.Outcome) (float64, error) { return value, nil }, nil
	}
}

func lake(t *testing.T, r *env.Registry, config map[string]any) env.Env {
	config["render_mode"] = "text"
	e, err := r.New("frozenlake", config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	envtest.Reset(t, e, 1)
	return e
}

func TestRegisteredRewardsArePartsOfEachTurn(t *testing.T) {
	r := builtin.Registry()
	require.NoError(t, r.RegisterReward("length", length))
	require.NoError(t, r.RegisterReward("endless", always(math.Inf(1))))
	require.NoError(t, r.RegisterReward("format", always(1)))
	require.ErrorIs(t, r.RegisterReward("length", length), env.ErrDuplicate)
	require.ErrorContains(t, r.RegisterReward("Lengthy one", length), "lower-case letters")

	config := envtest.Options("rewards: {length: {scale: -0.5}}")
	e := lake(t, r, config)
	require.Contains(t, config, "rewards", "the configuration is not changed")
	out := envtest.Play(t, e, "abcd")
	require.Contains(t, out.Reward, reward.Part{Name: "length", Value: -2})
	require.NotNil(t, env.ParserOf(e))
	_, err := e.(env.Snapshotter).Snapshot()
	require.NoError(t, err)
	require.NoError(t, e.(env.Reseeder).Reseed(1))
	require.NotEmpty(t, e.(env.Teacher).Scripts())
	_, err = e.Step(t.Context(), "fail")
	require.EqualError(t, err, "env: reward length: broken")

	_, err = lake(t, r, envtest.Options("rewards: {endless: null}")).Step(t.Context(), "x")
	require.ErrorContains(t, err, "reward endless is +Inf, must be finite")
	_, err = lake(t, r, envtest.Options("rewards: {format: null}")).Step(t.Context(),
		"<think>a</think><answer>Up</answer>")
	require.ErrorContains(t, err, "pays a part of this name itself")

	for want, given := range map[string]any{
		"known: endless, format, length":       envtest.Options("lenth: null"),
		`option "rewards.length"`:              envtest.Options("length: {skale: 1}"),
		"must be a mapping of settings":        envtest.Options("length: 3"),
		"must be a mapping from names to sett": []any{"length"},
	} {
		_, err := r.New("frozenlake", map[string]any{"rewards": given})
		testkit.Error(t, err, env.ErrOption, want)
		require.NotEmpty(t, field.Keys(err))
	}
	_, err = builtin.Registry().New("frozenlake", envtest.Options("rewards: {}"))
	require.ErrorIs(t, err, env.ErrOption, "without a registered reward, an environment gets its options unchanged")
}

func TestRegisteredFormatsAreReadByEveryEnvironment(t *testing.T) {
	r := builtin.Registry()
	require.NoError(t, r.RegisterFormat("planner", "plan", "answer"))
	require.ErrorIs(t, r.RegisterFormat("planner", "answer"), env.ErrDuplicate)
	require.ErrorIs(t, r.RegisterFormat("free_wm", "answer"), env.ErrDuplicate)
	require.ErrorContains(t, r.RegisterFormat("other", "plan"), `"answer" is missing`)
	for _, k := range builtin.Kinds() {
		if k.Defaults == nil {
			continue
		}
		for _, rules := range append(k.Rules, "") {
			config := envtest.Options("prompt_format: planner")
			if rules != "" {
				config["rules"] = rules
			}
			e, err := r.New(k.Name, config)
			if k.Name == "svg" && err != nil {
				require.ErrorIs(t, err, env.ErrOption, "it has no data here")
			}
			require.NoError(t, err, "%s %s", k.Name, rules)
			system := envtest.System(t, e)
			require.Contains(t, system.Text, "<plan>…</plan><answer>…</answer>", "%s %s", k.Name, rules)
			require.Contains(t, system.Text, "<plan> holds your plan")
			if rules != "service" { // which reads its own
				got := env.ParserOf(e).Parse("<plan>a</plan><answer>left</answer>")
				require.Equal(t, []string{"left"}, got.Actions)
			}
			require.NoError(t, e.Close())
		}
		_, err := r.New(k.Name, envtest.Options("prompt_format: planer"))
		require.ErrorContains(t, err, "registered formats: planner", k.Name)
	}
	// A configuration may also declare one itself.
	e := lake(t, builtin.Registry(), envtest.Options("prompt_format: mine, format_sections: [plan, answer]"))
	out := envtest.Play(t, e, "<plan>a</plan><answer>Down</answer>")
	require.True(t, out.Response.FormatCorrect)
	_, err := builtin.Registry().New("frozenlake", envtest.Options("prompt_format: mine, format_sections: [plan]"))
	require.ErrorContains(t, err, `"answer" is missing`)
}
