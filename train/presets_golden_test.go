package train

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/mask"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/reward"
	"vagen/rollout"
	"vagen/train/config"
	"vagen/train/track"
)

// TestGoldenPresetsThroughTheTrainer runs the trainer's steps with the configuration of each
// preset, from recorded turns to losses: placement of rewards, KL penalty, estimator, masks,
// losses and metrics. The results equal those of the original.
func TestGoldenPresetsThroughTheTrainer(t *testing.T) {
	golden.Each(t, "algorithms/presets.json", func(c *golden.Run) {
		p := openPreset(c)
		p.compareConfig()
		p.compareEstimate()
		p.compareLosses()
	})
}

// presetRun is a recorded case with the Trainer that processes it.
type presetRun struct {
	*golden.Run
	trainer *Trainer
	batch   *batch
	width   int // of the recorded rows, without the prompt column
	scores  []float32
	metrics track.Metrics
}

// scored is a learner that returns recorded scores.
type scored struct{ policy.Learner }

func (scored) Forget(...uint64) {}

func (scored) Generate(context.Context, []policy.Prompt, policy.Sampling) ([]policy.Completion, error) {
	return nil, policy.ErrNoRoom
}

func (scored) Count(policy.Prompt) (int, error) { return 1, nil }

// openPreset runs the trainer's steps up to the losses.
func openPreset(g *golden.Run) *presetRun {
	g.Helper()
	p := &presetRun{Run: g, metrics: track.Metrics{}}
	// The recorded batches are smaller than those of the presets.
	c, err := config.Source{Preset: golden.Param[string](g, "preset"),
		Overrides: []string{"env=x", "data.train_batch_size=4", "actor_rollout_ref.actor.ppo_mini_batch_size=4"}}.Load()
	require.NoError(g, err)
	p.trainer = &Trainer{Config: c, Learner: scored{}, Envs: nil, Log: slog.New(slog.DiscardHandler)}
	p.prepare()
	p.width = len(golden.Input[[][]float64](g, "old_log_probs")[0])
	p.batch, err = newBatch(p.trajectories(), &c, p.trainer.methods.spec)
	require.NoError(g, err)
	p.scores = slices.Clone(p.batch.Steps.Rewards)
	what := policy.ScoreRequest{LogProbs: true, Reference: c.Algorithm.KLInReward, Values: c.Critic.Kind != "none"}
	require.NoError(g, p.batch.setScores(&policy.Scores{
		LogProbs: p.ragged("old_log_probs"), Reference: p.ragged("ref_log_prob"), Values: p.ragged("values"),
	}, what))
	require.NoError(g, p.trainer.estimate(p.batch, p.trainer.progress.normalizer, 1, p.metrics))
	p.trainer.methods.measure(p.batch, p.metrics, p.trainer.Log)
	return p
}

// prepare is Trainer.prepare without environments.
func (p *presetRun) prepare() {
	t, k := p.trainer, &p.trainer.methods
	k.names = t.Registries.WithBuiltins()
	c := &t.Config
	var err error
	k.estimator, err = k.names.Estimators.New(c.Algorithm.Estimator, c.Algorithm.Params)
	require.NoError(p, err)
	k.spec, err = k.names.Estimators.Describe(c.Algorithm.Estimator)
	require.NoError(p, err)
	ctrl := c.Algorithm.KLCtrl
	t.progress.kl, err = reward.NewController(ctrl.Type, ctrl.Coef, ctrl.Target, ctrl.Horizon)
	require.NoError(p, err)
	k.metrics, err = k.names.MetricNames(c)
	require.NoError(p, err)
}

// lengths returns the numbers of tokens of the rows, without the prompts.
func (p *presetRun) lengths() []int {
	var out []int
	for _, row := range golden.Input[[][]float64](p.Run, "attention_mask") {
		n := 0
		for _, on := range row {
			n += int(on)
		}
		out = append(out, n)
	}
	return out
}

// trajectories returns the recorded episodes. The prompt column becomes a row's first token.
func (p *presetRun) trajectories() []*rollout.Trajectory {
	uid, final := golden.Input[[]string](p.Run, "uid"), golden.Input[[]float64](p.Run, "final_reward")
	wrote := golden.Input[[][]float64](p.Run, "loss_mask")
	ends := golden.Input[[][]float64](p.Run, "end_of_response_position_mask")
	turns := golden.Input[[][]float64](p.Run, "turn_rewards")
	groups := map[string]int{}
	var out []*rollout.Trajectory
	for i, n := range p.lengths() {
		if _, ok := groups[uid[i]]; !ok {
			groups[uid[i]] = len(groups)
		}
		t := &rollout.Trajectory{Episode: rollout.Episode{Env: "x", Group: groups[uid[i]], Index: i, MaxTurns: len(turns[i])},
			End: rollout.EndDone}
		for k, r := range turns[i] {
			turn := rollout.Turn{Reward: reward.Parts{{Name: "turn", Value: r}}}
			if k == len(turns[i])-1 {
				turn.Reward = append(turn.Reward, reward.Part{Name: "final", Value: final[i]})
			}
			t.Turns = append(t.Turns, turn)
		}
		row := rollout.Row{LogProbs: make([]float32, n+1)}
		require.NoError(p, record(&row.Sequence, wrote[i][1:n+1], ends[i][1:n+1]))
		t.Rows = []rollout.Row{row}
		out = append(out, t)
	}
	return out
}

// record builds a row: a token of the prompt, then tokens with their origin.
func record(s *mask.Sequence, wrote, ends []float64) error {
	if err := s.AppendContext(mask.Prompt, 0); err != nil {
		return err
	}
	for from := 0; from < len(wrote); {
		to := from + 1
		for to < len(wrote) && wrote[to] == wrote[from] && (wrote[from] == 0 || ends[to-1] == 0) {
			to++
		}
		var err error
		if ids := make([]int32, to-from); wrote[from] != 0 {
			err = s.AppendResponse(ids...)
		} else {
			err = s.AppendContext(mask.Observation, ids...)
		}
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

// ragged returns recorded per-token numbers without padding, and 0 for the token of the prompt.
func (p *presetRun) ragged(name string) []float32 {
	var out []float32
	rows := golden.Input[[][]float64](p.Run, name)
	for i, n := range p.lengths() {
		out = append(out, 0)
		for _, x := range rows[i][:n] {
			out = append(out, float32(x))
		}
	}
	return out
}

// padded converts flat numbers to the recorded layout.
func padded[T any](p *presetRun, flat []T, number func(T) float64) []float64 {
	var out []float64
	for row := range p.batch.Rows.Len() {
		wide := make([]float64, p.width)
		for i, x := range flat[p.batch.Rows.Offsets[row]+1 : p.batch.Rows.Offsets[row+1]] {
			wide[i] = number(x)
		}
		out = append(out, wide...)
	}
	return out
}

func float(x float32) float64 { return float64(x) }

func bit(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

func (p *presetRun) compare(name string, got []float64) {
	p.Helper()
	if p.Expected[name] != nil {
		golden.Numbers(p.Run, name, got)
	}
}

// compareTokens compares per-token numbers without the padding.
func (p *presetRun) compareTokens(name string, got []float32) {
	p.Helper()
	want, flat := golden.Expected[[][]float64](p.Run, name), []float64(nil)
	for row, n := range p.lengths() {
		flat = append(flat, float(got[p.batch.Rows.Offsets[row]])) // the prompt's
		flat = append(flat, want[row][:n]...)
	}
	golden.Vector(p.Run, name, got, flat)
}

// compareConfig compares the preset with the recorded settings.
func (p *presetRun) compareConfig() {
	c := &p.trainer.Config
	for name, got := range map[string]any{
		"adv_estimator": c.Algorithm.Estimator, "gamma": c.Algorithm.Gamma, "lam": c.Algorithm.Lambda,
		"high_level_gamma": c.Algorithm.TurnGamma,
		"use_loss_mask":    c.Rollout.LossMask, "use_gae_mask": c.Rollout.GAEMask,
		"use_multi_turn_reward":  c.Rollout.MultiTurnReward,
		"critic_use_reward_mask": c.Critic.OnTurnEnds, "kl_penalty": c.Algorithm.KLPenalty,
		"kl_coef":    c.Algorithm.KLCtrl.Coef,
		"clip_ratio": c.Agent.Actor.Clip, "cliprange_value": c.Critic.ValueClip,
	} {
		p.Equal(name, got, golden.Param[any](p.Run, name))
	}
}

func (p *presetRun) compareEstimate() {
	p.compare("token_level_scores", padded(p, p.scores, float))
	p.compare("token_level_rewards", padded(p, p.batch.Steps.Rewards, float))
	// In the original whitening makes padding non-zero; here there is no padding.
	p.compareTokens("advantages", p.batch.result.Advantages)
	p.compareTokens("returns", p.batch.result.Returns)
	p.compare("actor_mask", padded(p, p.batch.Loss, bit))
	p.Number("current_kl", p.metrics["actor/reward_kl_penalty"])
	for name, want := range golden.Expected[map[string]float64](p.Run, "data_metrics") {
		// Other figures of the batch are about the tokens that the model wrote here,
		// and about all tokens there: package rollout/diagnose compares those.
		if strings.HasPrefix(name, "critic/score/") || strings.HasPrefix(name, "critic/rewards/") {
			require.Contains(p, p.metrics, name)
			p.Float(name, p.metrics[name], want)
		}
	}
}

// compareLosses evaluates the losses of the learner's objective.
func (p *presetRun) compareLosses() {
	b, o := p.batch, p.objective()
	aggregate, err := p.trainer.methods.names.Aggregation(&p.trainer.Config)
	require.NoError(p, err)
	var got loss.Result
	require.NoError(p, loss.Eval(&got, o.PolicyLoss(), aggregate.Loss, &loss.Batch[float32]{
		Offsets: b.Rows.Offsets, Mask: b.Loss, LogProb: p.ragged("log_prob"), OldLogProb: b.old,
		Advantage: b.result.Advantages,
	}))
	p.Number("pg_loss", got.Loss)
	p.Number("pg_clipfrac", got.Metrics.ClipFraction)
	p.Number("ppo_kl", got.Metrics.KL)
	if _, trained := p.Expected["vf_loss"]; !trained {
		require.Zero(p, o.ValueCoef, "a critic is trained that the original does not have")
		return
	}
	p.compareValueLoss(o)
}

// objective returns the objective of the first step.
func (p *presetRun) objective() policy.Objective {
	o, err := objective(&p.trainer.Config, p.trainer.methods.names, p.trainer.methods.spec, 1)
	require.NoError(p, err)
	return o
}

func (p *presetRun) compareValueLoss(o policy.Objective) {
	b, c := p.batch, &p.trainer.Config
	value, returns := b.Value, slices.Clone(b.result.Returns)
	late := !c.Rollout.LossMask && !c.Critic.OnTurnEnds
	if late {
		// Over all tokens the original's critic is one column late: it leaves out the
		// first token of the region, and counts the padding after the last, where value
		// and return are 0. Without padding the last token of the prompt stands for that.
		value = slices.Clone(b.Value)
		for row := range b.Rows.Len() {
			first := b.Rows.Offsets[row]
			value[first], value[first+1], returns[first] = p.lengths()[row] < p.width, false, 0
		}
	}
	mask := padded(p, value, bit)
	for row, n := range p.lengths() {
		if late && n < p.width {
			mask[row*p.width+n] = 1
		}
	}
	p.compare("critic_mask", mask)
	weights, err := loss.Aggregation{}.Weights(nil, b.Rows.Offsets, value)
	require.NoError(p, err)
	wv := make([]float32, len(weights))
	for i, w := range weights {
		wv[i] = float32(w)
	}
	critic := policy.Objective{CriticOnly: true, ValueCoef: 1, ValueClip: o.ValueClip}
	e, err := critic.Eval(&policy.Batch{Rows: b.Rows, ValueWeight: wv, Returns: returns, OldValues: b.values},
		&policy.Scores{Values: p.ragged("vpreds")})
	require.NoError(p, err)
	var stats policy.Stats
	e.Report(&stats)
	p.Number("vf_loss", stats.ValueLoss)
	p.Number("vf_clipfrac", stats.ValueClip)
}
