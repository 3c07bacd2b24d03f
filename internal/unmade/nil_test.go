package unmade_test

import (
	"image"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/env"
	"vagen/env/blackjack"
	"vagen/env/dataset"
	"vagen/env/navigation"
	"vagen/env/primitiveskill"
	"vagen/env/remote"
	"vagen/env/svg"
	"vagen/mask"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/tokenizer"
	"vagen/reward"
	"vagen/reward/judge"
	"vagen/reward/judge/client"
	"vagen/rollout"
	"vagen/rollout/evaluate"
	"vagen/rollout/gateway"
	"vagen/rollout/store"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/credit"
	"vagen/train/engines"
	"vagen/train/envs"
	"vagen/train/proof"
	"vagen/train/run"
	"vagen/train/sft"
	"vagen/train/view"
	"vagen/train/worker"
)

func TestArgumentsThatAreNilAreErrors(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	var names config.Registries
	var points run.Checkpoints
	var stored store.Stored
	rules := judge.DefaultStateReward()
	rules.Scorer = judge.ByRules
	turn := &rollout.Trajectory{Turns: []rollout.Turn{{Row: 1}}}
	for _, test := range []struct {
		want string
		err  error
	}{
		{"policy: the learner is nil", second(policy.AccumulateAndStep(ctx, nil, nil, policy.Objective{}, policy.Optimizer{}))},
		{"the picture is nil", second(new(svg.HTTPScorer).Score(ctx, nil, nil))},
		{"the reader is nil", second(judge.ReadLabelled(nil))},
		{"harness: the state is nil", second(rollout.Concat{}.Next(nil))},
		{"harness: the state is nil", second(rollout.NoConcat{}.Next(nil))},
		{"harness: the state is nil", second(rollout.Window{}.Next(nil))},
		{"harness: the state is nil", second(rollout.Compact{}.Next(nil))},
		{"the encoder is nil", rollout.CheckTurn(nil, nil, env.Observation{}, env.Observation{})},
		{"the player or done is nil", evaluate.PlayBatches(ctx, nil, nil, 0, 1, nil, nil)},
		{"the registry is nil", gateway.Register(nil, nil)},
		{"episode 0: it is nil", second(store.FirstDifference([]*rollout.Trajectory{nil}, []*rollout.Trajectory{turn}))},
		{"the writer is nil", new(evaluate.Report).WriteText(nil)},
		{"the writer is nil", new(evaluate.Report).WriteMarkdown(nil)},
		{"the factory is nil", second(env.Guard{}.Factory(nil)(nil))},
		{"the factory is nil", second(remote.WithDefaults(nil, nil)(nil))},
		{"train_batch_size is 0", second(sft.Open(ctx, new(config.Config), nil, nil))},
		{"rewards of row 0: the trajectory has 0", second(stored.Rewards(nil, 0, reward.PerTurn))},
		{"there is no turn 0", second(stored.Recorded(0))},
		{"turn 0: the episode has 0", stored.Discard(0)},
		{"turn 0 is in row 1", turn.Discard()},
		{"it is nil", names.Validate(nil)},
		{"unknown name", second(names.NewHarness(nil))},
		{"unknown name", second(names.Objective(nil, 1, 1))},
		{"unknown name", second(names.Aggregation(nil))},
		{"it is nil", second(worker.Setup(nil, nil))},
		{"it is nil", second(run.CreateFolder(dir, nil))},
		{"it is nil", third(run.Prepare(ctx, nil, nil, nil))},
		{"are nil", run.Preflight(ctx, nil, nil, nil)},
		{"it is nil", points.Save(ctx, nil, train.State{}, nil)},
		{"the learner is nil", second(points.Begin(ctx, nil, train.State{}, new(config.Config)))},
		{"save is nil", (&run.Folder{Path: dir}).SaveBest(ctx, train.Best{}, nil)},
		{"no run in", second(run.OpenFolder(dir, nil))},
		{"config.json", second(engines.Follow(ctx, nil, nil))},
		{"are nil", second(train.Hint(ctx, nil, nil, nil, rollout.Episode{}))},
		{"no learner", train.Imitate(ctx, nil, 1, nil, train.Imitation{Batch: 1, Epochs: 1})},
		{"the registry of environments is nil", envs.SetJudge(nil, &rules, nil)},
		{"the registry of environments is nil", second(envs.Dial(nil, nil, nil)(nil))},
		{"the listener is nil", new(view.Server).Serve(ctx, nil)},
	} {
		require.ErrorContains(t, test.err, test.want)
	}
	for name, p := range losses() {
		require.ErrorIs(t, p.Terms(nil, nil), loss.ErrSetting, name)
		b := &loss.Batch[float64]{Offsets: []int{0, 1}, Mask: []bool{true}}
		require.Error(t, p.Terms(new(loss.Terms), b), name)
	}
}

// losses are all with the settings of the configuration.
func losses() map[string]loss.Policy {
	all := map[string]loss.Policy{"reinforce": loss.Reinforce{}}
	r := loss.Builtin()
	for _, name := range r.Names() {
		if p, err := r.New(name, loss.DefaultOptions()); err == nil {
			all[name] = p
		}
	}
	return all
}

// TestNilIsTheZeroValue where no error can be returned.
func TestNilIsTheZeroValue(t *testing.T) {
	var stored store.Stored
	var sequence mask.Sequence
	var names config.Registries
	ctx, nothing := t.Context(), []*rollout.Trajectory{nil}
	require.Zero(t, stored.Return()+float64(rollout.Count(nothing).Episodes))
	require.NoError(t, rollout.Failures(nothing))
	require.NoError(t, rollout.MarkSpans(nil, nothing))
	mean, _, _ := rollout.Staleness(nothing, 1)
	require.Zero(t, mean)
	require.True(t, sequence.Equal(nil))
	require.Empty(t, new(tokenizer.Chat).Ends(nil, nil))
	require.Empty(t, new(blackjack.Env).FormatText())
	require.Zero(t, primitiveskill.Solve(nil, nil, primitiveskill.World{}))
	require.Equal(t, image.Rectangle{}, new(navigation.Scene).Render(0, 0, 0, 0, 90, -1).Rect)
	bucket, err := dataset.RoomBucket(nil, 1)
	require.NoError(t, err)
	require.Zero(t, bucket)
	new(advantage.Result).Resize(-1)
	new(policy.Evaluation).Report(nil)
	require.Zero(t, new(policy.Objective).Compares(nil))
	require.Equal(t, reward.SectionAnswer, new(reward.Parser).Tag(reward.SectionAnswer))
	require.Empty(t, client.KeyNames(nil))
	client.Usage{Claims: 1}.Write(nil, "")
	require.True(t, new(judge.StateReward).SameJudge(nil))

	require.Empty(t, config.Differences(nil, nil))
	require.False(t, new(config.Threshold).Beyond(math.NaN()))
	filter, err := names.NewFilter(nil)
	require.NoError(t, err)
	require.Nil(t, filter)
	metrics, err := names.MetricNames(&config.Config{})
	require.NoError(t, err)
	require.Empty(t, metrics)
	require.Equal(t, 1.0, credit.TurnDiscount(nil))
	require.NoError(t, engines.Check(ctx, nil))
	require.NoError(t, envs.CheckJudge(nil, nil))
	require.Equal(t, "runs", run.Dir(nil))
	rank, err := run.Rank(ctx, nil)
	require.NoError(t, err)
	require.Zero(t, rank)
	require.NotNil(t, new(run.Folder).Checkpoints(nil, nil))
	steps, err := new(proof.Report).Replayable(nil)
	require.NoError(t, err)
	require.Empty(t, steps)
	require.True(t, new(proof.Facts).SameMachine(nil))
	require.NoError(t, new(worker.Trainer).Check(ctx))
	require.Zero(t, new(train.Trainer).StartState(1, 0))
}

// TestRoutesNeedStepsOfAUsableLength: shorter ones would need a lattice that is too large.
func TestRoutesNeedStepsOfAUsableLength(t *testing.T) {
	e, err := navigation.New(navigation.DefaultOptions(""))
	require.NoError(t, err)
	_, err = e.Reset(t.Context(), 1)
	require.NoError(t, err)
	x, z := e.Agent().Position()
	for _, step := range []float64{1e-12, 1e-300, math.SmallestNonzeroFloat64} {
		_, ok := e.Scene().Route(x, z, x+1, z, step, 0)
		require.False(t, ok)
	}
}
