package train_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/internal/floats"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
)

// TestEveryEstimatorTrains with its own parameters on two turns of the bandit.
func TestEveryEstimatorTrains(t *testing.T) {
	for _, name := range advantage.Names() {
		c := traintest.Grouped()
		c.Algorithm.Estimator, c.Trainer.Steps = name, 2
		c.Critic.OnTurnEnds = name == "turn_wise_gae"
		if name == "maxrl_skyrl" {
			c.Trainer.Steps = 1 // the game's mean score comes near 0, by which it divides
		}
		b := traintest.Guesser()
		for _, e := range traintest.Run(t, c, b) {
			for metric, x := range e.Metrics {
				require.False(t, !floats.Finite(x), "%s: %s is %v", name, metric, x)
			}
		}
		moved := false
		for _, a := range b.Updates[0].Batch.Advantages {
			moved = moved || a != 0
		}
		require.True(t, moved, "%s: some token has an advantage", name)
	}
}

// TestReMaxSubtractsTheGreedyEpisode of the same level.
func TestReMaxSubtractsTheGreedyEpisode(t *testing.T) {
	c := traintest.Whole()
	c.Algorithm.Estimator, c.Critic.Kind = "remax", "none"
	b := traintest.Guesser() // greedily it says 0, the first of equal words
	a := &traintest.Arena{}
	tr, j := traintest.Trainer(t, c, b, a)
	require.NoError(t, tr.Run(t.Context()))
	require.Equal(t, 8.0, (*j)[0].Metrics["train/baselines"])
	require.Equal(t, 8.0, (*j)[0].Metrics["train/episodes"], "greedy episodes are not counted")
	require.Len(t, a.Seeds, 16)
	batch := b.Updates[0].Batch
	zero := traintest.State(policy.Message{Role: policy.User, Text: "<image> colour 0"})
	for row := range batch.Len() {
		from, to := batch.Offsets[row], batch.Offsets[row+1]
		greedy := 0.0
		for _, token := range batch.Tokens[from:to] {
			switch {
			case token == zero:
				greedy++
			case token >= traintest.FirstState && slices.Contains([]int32{
				traintest.State(policy.Message{Role: policy.User, Text: "<image> colour 1"}),
				traintest.State(policy.Message{Role: policy.User, Text: "<image> colour 2"}),
			}, token):
				greedy -= 0.5
			}
		}
		ends, rewards := paid(b, batch.Tokens[from:to])
		require.InDelta(t, rewards[0]+rewards[1]-greedy, batch.Advantages[from+ends[0]], 1e-6, "row %d", row)
		require.InDelta(t, rewards[1]-greedy, batch.Advantages[from+ends[1]], 1e-6, "row %d", row)
	}
}

// TestAnEpisodeWithoutBaselineIsExcluded if its group's greedy episode failed.
func TestAnEpisodeWithoutBaselineIsExcluded(t *testing.T) {
	c := traintest.Whole()
	c.Algorithm.Estimator, c.Critic.Kind = "remax", "none"
	var calls atomic.Int64
	a := &traintest.Arena{Fault: func(seed int64, turn int) error {
		if seed == 1_000_003 && turn == 0 && calls.Add(1) == 2 {
			return traintest.ErrBroken
		}
		return nil
	}}
	c.Run.Workers = 1
	b := traintest.Guesser()
	tr, j := traintest.Trainer(t, c, b, a)
	require.NoError(t, tr.Run(t.Context()))
	require.Equal(t, 7, b.Updates[0].Batch.Len())
	require.Equal(t, 7.0, (*j)[0].Metrics["train/baselines"])
	b.OnGenerate = func(context.Context) error {
		if len(a.Seeds)%16 == 0 { // the greedy half
			return traintest.ErrBroken
		}
		return nil
	}
	a.Seeds = nil
	require.NoError(t, tr.Restore(train.State{}))
	require.ErrorIs(t, tr.Run(t.Context()), traintest.ErrBroken)
}

// TestGiGPOComparesEqualStates: turns of a group with the same colour are compared with each
// other, even if they are different turns of their episodes.
func TestGiGPOComparesEqualStates(t *testing.T) {
	c := traintest.Grouped()
	c.Algorithm.Estimator, c.Critic.Kind = "gigpo", "none"
	b := traintest.Guesser()
	traintest.Run(t, c, b)
	with := b.Updates[0].Batch
	c.Algorithm.StepWeight = 0
	b = traintest.Guesser()
	traintest.Run(t, c, b)
	without := b.Updates[0].Batch
	require.Equal(t, with.Tokens, without.Tokens)
	differ := 0
	for g := range 8 {
		// The first turns of the three episodes of a group start in the same state.
		var scores []float64
		var steps []float64
		all := 0.0
		for row := 3 * g; row < 3*g+3; row++ {
			from, to := with.Offsets[row], with.Offsets[row+1]
			ends, rewards := paid(b, with.Tokens[from:to])
			scores = append(scores, rewards[0]+rewards[1])
			first, second := from+ends[0], from+ends[1]
			steps = append(steps, float64(with.Advantages[first]-without.Advantages[first]))
			all += steps[len(steps)-1] + float64(with.Advantages[second]-without.Advantages[second])
		}
		if slices.Max(scores) == slices.Min(scores) {
			continue
		}
		differ++
		require.Equal(t, slices.Index(scores, slices.Max(scores)), slices.Index(steps, slices.Max(steps)),
			"group %d: the best return leads", g)
		require.InDelta(t, 0, all, 1e-5, "group %d: every state is centred", g)
	}
	require.Greater(t, differ, 3)
}

// TestRewardsOfSectionsArePlacedAtTheirEnd: the reward of a section is placed on its last token
// instead of the turn's. Without discount a reward at the end of a turn is part of the return
// of all its tokens, and an earlier reward only of the tokens before it.
func TestRewardsOfSectionsArePlacedAtTheirEnd(t *testing.T) {
	tagged := func() *traintest.Bandit {
		return traintest.NewBandit("<guess>0</guess>", "<guess>1</guess>", "<guess>2</guess>", "<guess></guess>")
	}
	returns := func(site, normalize string) *policy.Batch {
		c := traintest.Whole()
		c.Env.Config = map[string]any{"turns": uint64(1)}
		c.Data.TrainBatch, c.Agent.Actor.MiniBatch = 32, 32
		c.Reward.Site, c.Reward.Normalize = site, normalize
		b := tagged()
		tr, _ := traintest.Trainer(t, c, b, nil)
		tr.Learner = aligned{b}
		require.NoError(t, tr.Run(t.Context()))
		return b.Updates[0].Batch
	}
	ends, sections, scaled := returns("turn_end", "none"), returns("section_end", "none"), returns("section_end", "batch")
	empty := 0
	for row := range ends.Len() {
		end := ends.Offsets[row+1] - 1
		pay := ends.Returns[end]
		require.Contains(t, []float32{1, -0.5}, pay)
		require.Equal(t, pay, ends.Returns[end-1])
		require.Equal(t, pay, sections.Returns[end-1], "row %d: what the word earns does not change", row)
		if ends.Tokens[end-1] == 3 { // an empty section has no token to sit on
			empty++
			require.Equal(t, pay, sections.Returns[end], "row %d", row)
			continue
		}
		require.Zero(t, sections.Returns[end], "row %d: nothing is left to earn at the end", row)
		require.Zero(t, scaled.Returns[end], "row %d", row)
		require.Greater(t, math.Abs(float64(scaled.Returns[end-1])), 1.1*math.Abs(float64(pay)),
			"row %d: rewards of 1, −0.5 and 0 vary by less than 1", row)
	}
	require.Positive(t, empty)
	require.Less(t, empty, ends.Len())

	c := traintest.Whole()
	c.Reward.Site = "section_end"
	tr, _ := traintest.Trainer(t, c, tagged(), nil)
	require.ErrorContains(t, tr.Run(t.Context()), "does not implement policy.Aligner")

	// A block in the environment's options overrides the configuration's keys.
	block := map[string]any{"state_estimation": map[string]any{"enable": true, "reward": 1.0}, "scorer": "exact"}
	c.Reward.Site, c.Env.Config = "turn_end", map[string]any{"state_reward": block}
	tr, _ = traintest.Trainer(t, c, tagged(), nil)
	require.ErrorContains(t, tr.Run(t.Context()), "does not implement policy.Aligner")
	c.Reward.Site, block["credit_site"] = "section_end", "turn_end"
	tr, _ = traintest.Trainer(t, c, tagged(), nil)
	require.NotContains(t, fmt.Sprint(tr.Run(t.Context())), "does not implement policy.Aligner")
}

// choosy is a registered estimator that refuses its discount.
type choosy struct{ advantage.RLOO }

func (choosy) Estimate(*advantage.Result, *advantage.Batch) error {
	return fmt.Errorf("choosy: gamma: %w", advantage.ErrParameter)
}

// TestEstimatorsCheckTheirOwnParameters when the configuration is checked.
func TestEstimatorsCheckTheirOwnParameters(t *testing.T) {
	r := config.Registries{Estimators: advantage.Builtin()}
	require.NoError(t, r.Estimators.Register(advantage.Spec{Name: "choosy", Mask: advantage.MaskLoss,
		New: func(advantage.Params) advantage.Estimator {
			return choosy{}
		}}))
	_, err := r.LoadConfig("", "env.name=x", "algorithm.adv_estimator=choosy")
	require.ErrorIs(t, err, config.ErrConfig)
	testkit.Error(t, err, advantage.ErrParameter, "algorithm.adv_estimator: choosy: gamma")
}

// TestGraphGPOAndGDPOGetTheirColumns: with equal weights of the steps, successful last turns lead,
// and a part of the reward that no environment pays leaves all advantages equal.
func TestGraphGPOAndGDPOGetTheirColumns(t *testing.T) {
	advantages := func(change func(a *config.AlgorithmConfig)) *policy.Batch {
		c := traintest.Grouped()
		c.Critic.Kind = "none"
		change(&c.Algorithm)
		b := traintest.Guesser()
		traintest.Run(t, c, b)
		return b.Updates[0].Batch
	}
	graph := advantages(func(a *config.AlgorithmConfig) {
		a.Estimator, a.Gamma, a.EpisodeWeight = "graphgpo", 0.1, 0
	})
	require.NotEqual(t, slices.Min(graph.Advantages), slices.Max(graph.Advantages), "states after turns are told apart")
	parts := func(keys ...string) *policy.Batch {
		return advantages(func(a *config.AlgorithmConfig) { a.Estimator, a.RewardKeys = "gdpo", keys })
	}
	require.Zero(t, slices.Max(parts("unpaid").Advantages))
	require.Equal(t, parts().Advantages, parts("guess").Advantages, "the only part is the whole reward")
	require.NotZero(t, slices.Max(parts("guess").Advantages))

	c := traintest.Grouped()
	c.Critic.Kind, c.Trainer.Steps = "none", 2
	c.Algorithm.Estimator, c.Algorithm.RewardKeys = "gdpo", []string{"guess", "gues"}
	tr, _ := traintest.Trainer(t, c, traintest.Guesser(), nil)
	log := traintest.Logged(tr)
	require.NoError(t, tr.Run(t.Context()))
	require.Equal(t, 1, strings.Count(log.String(), "step=1 parts=[gues]\n"), log)
	require.Equal(t, 1, strings.Count(log.String(), "parts of the reward without effect"), "once")
}

// aligned is a bandit that also reports where its words end.
type aligned struct{ *traintest.Bandit }

func (b aligned) Ends(tokens []int32) (ends []int) {
	at := 0
	for _, token := range tokens {
		if b.IsWord(token) {
			at += len(b.Words[token])
		}
		ends = append(ends, at)
	}
	return ends
}
