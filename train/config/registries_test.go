package config_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/env/builtin"
	"vagen/policy/loss"
	"vagen/rollout/filter"
	"vagen/train/config"
)

// registry is what all registries have in common, beside New with its own arguments.
type registry interface {
	Names() []string
	Describe(name string) (string, error)
}

// estimators has the descriptions of an estimator registry, whose Describe returns more.
type estimators struct{ *advantage.Registry }

func (e estimators) Describe(name string) (string, error) {
	s, err := e.Registry.Describe(name)
	return s.About, err
}

// TestEveryNameHasADescription walks all registries of the library.
func TestEveryNameHasADescription(t *testing.T) {
	r := config.Registries{}.WithBuiltins()
	for kind, all := range map[string]registry{
		"environments": builtin.Registry(), "estimators": estimators{r.Estimators}, "filters": r.Filters,
		"metrics":   r.Metrics,
		"harnesses": r.Harnesses, "losses": r.Losses,
	} {
		require.NotEmpty(t, all.Names(), kind)
		for _, name := range all.Names() {
			about, err := all.Describe(name)
			require.NoError(t, err, kind)
			require.NotEmpty(t, about, "%s: %s", kind, name)
		}
		_, err := all.Describe("no such name")
		require.ErrorContains(t, err, "known: ", kind)
	}
}

// TestRegisteredEstimatorsGetWarningsAsThoseOfTheLibraryDo.
func TestRegisteredEstimatorsGetWarningsAsThoseOfTheLibraryDo(t *testing.T) {
	estimators := advantage.Builtin()
	spec, err := estimators.Describe("grpo")
	require.NoError(t, err)
	spec.Name = "mine"
	require.NoError(t, estimators.Register(spec))
	for _, name := range []string{"grpo", "mine"} {
		c, err := config.Registries{Estimators: estimators}.LoadConfig("", "env=x", "algorithm.adv_estimator="+name,
			"rollout_manager.n_trajectory=4")
		require.NoError(t, err)
		require.Contains(t, warnings(c), "the critic is never trained", name)
	}
}

// TestRegisteredLossesNeedATeacherThatIsNamed: without a reference policy their first update would fail. One that names
// a teacher gets its log-probs; servers, and a policy that is its own teacher, choose the tokens that it compares.
func TestRegisteredLossesNeedATeacherThatIsNamed(t *testing.T) {
	losses := loss.Builtin()
	over := loss.Divergence{Form: loss.Tail, Choice: loss.Choice{By: loss.ByStudent, K: 2}}
	for name, p := range map[string]loss.Policy{
		"mine": loss.Distill{KL: loss.K1, Policy: loss.Reinforce{}}, "compares": loss.Distill{Over: over},
	} {
		require.NoError(t, losses.Register(name, func(loss.Options) (loss.Policy, error) { return p, nil }))
	}
	names := config.Registries{Losses: losses}
	for _, c := range []struct{ name, teacher, says string }{
		{"mine", "algorithm.kl_penalty=kl", "policy_loss.loss_mode mine learns from a teacher, but none is named: set actor_rollout_ref.ref.model.path"},
		{"mine", "actor_rollout_ref.ref.model.path=T", ""},
		{"mine", "actor_rollout_ref.ref.engine.addresses=[http://h:1]", ""},
		{"mine", "algorithm.self_distillation.teacher=shortest_path", ""},
		{"compares", "actor_rollout_ref.ref.model.path=T", ""},
		{"compares", "actor_rollout_ref.ref.engine.addresses=[http://h:1]",
			"loss_mode compares needs log-probs that the servers in actor_rollout_ref.ref.engine.addresses do not return, must compare the teacher's"},
		{"compares", "algorithm.self_distillation.teacher=shortest_path", "loss_mode compares compares tokens that algorithm.self_distillation.teacher"},
	} {
		got, err := names.LoadConfig("", "env=x", "actor_rollout_ref.actor.policy_loss.loss_mode="+c.name, c.teacher)
		if c.says != "" {
			require.ErrorContains(t, err, c.says)
			continue
		}
		require.NoError(t, err, "%+v", c)
		require.True(t, got.UsesReference())
		require.True(t, got.UsesEstimator(), "it may read advantages, too")
		require.Empty(t, got.Notes)
	}
}

// TestTheKLLossIsInsideThePolicyLossOrBesideIt: luspo multiplies it by its ratio, and averages it as its own terms.
func TestTheKLLossIsInsideThePolicyLossOrBesideIt(t *testing.T) {
	c := config.Default()
	a := &c.Agent.Actor
	a.Loss.Mode, a.UseKLLoss, a.KLLoss, a.Entropy = "luspo", true, 0.5, 0
	for _, inside := range []bool{true, false} {
		a.Loss.CorrectKL = inside
		o, err := config.Registries{}.Objective(&c, 1, 0.5)
		require.NoError(t, err)
		mean, err := config.Registries{}.Aggregation(&c)
		require.NoError(t, err)
		require.Equal(t, !inside, mean.Apart)
		if inside {
			require.Equal(t, loss.LUSPO{Low: 0.2, High: 0.2, KL: loss.K3, KLCoef: 0.25}, o.Policy)
			require.Empty(t, o.KL)
		} else {
			require.Equal(t, loss.LUSPO{Low: 0.2, High: 0.2}, o.Policy)
			require.Equal(t, 0.25, o.KLCoef)
		}
	}
}

// A setting that is a name of a registry lists what it may be, a user's own names too.
func ExampleRegistries_Values() {
	r := config.Registries{Filters: new(filter.Registry)}
	err := r.Filters.Register("half", func(*filter.Args) (filter.Filter, error) {
		return filter.TopFraction{Fraction: 0.5}, nil
	}, "half of the groups")
	fmt.Println(r.Values("filter.name"), err)
	fmt.Println(r.Values("trainer.harness")[0])
	// Output:
	// [{half half of the groups}] <nil>
	// {compact when a conversation is full, a new one continues with a summary}
}
