package evaluate_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/evaluate"
	"vagen/train/config"
)

// evaluation plays the guessing game, two tasks of it.
func evaluation(t testing.TB, dir string, p policy.Policy, a *traintest.Arena) *evaluate.Evaluation {
	task := func(tag string, n int, turns uint64) evaluate.Task {
		k := evaluate.Task{Tag: tag, Seed: 5, AtOnce: 3,
			Player: rollout.Player{Envs: a.Registry(t), MaxTurns: 4, Sampling: policy.Sampling{Temperature: 1, MaxTokens: 4}}}
		for i := range n {
			k.Episodes = append(k.Episodes, rollout.Episode{Env: "guess", Config: map[string]any{"turns": turns},
				Seed: int64(i / 2), Group: i})
		}
		return k
	}
	return &evaluate.Evaluation{Dir: dir, Model: "bandit", Policy: p,
		Tasks: []evaluate.Task{task("short", 8, 1), task("long", 4, 3)}}
}

// TestOneProcessEvaluatesAModelInAFolder, which others may use for other models.
func TestOneProcessEvaluatesAModelInAFolder(t *testing.T) {
	dir := t.TempDir()
	e := evaluation(t, dir, traintest.Guesser(), &traintest.Arena{})
	e.Done = func(over, all int) {
		if over > 1 {
			return
		}
		second := evaluation(t, dir, traintest.Guesser(), &traintest.Arena{})
		_, err := second.Run(t.Context())
		testkit.Error(t, err, evaluate.ErrBusy, "bandit in "+dir)
		second.Model = "another"
		ran(t, second)
	}
	ran(t, e)
	require.Contains(t, stored(t, dir), "another")
}

// ran evaluates.
func ran(t testing.TB, e *evaluate.Evaluation) *evaluate.Report {
	t.Helper()
	r, err := e.Run(t.Context())
	require.NoError(t, err)
	return r
}

// stored reads the summary of a folder.
func stored(t testing.TB, dir string) string {
	return testkit.Text(t, filepath.Join(dir, "summary.json"))
}

// keyed is a policy that knows which conversations it had.
type keyed struct {
	policy.Policy
	mu   sync.Mutex
	keys map[uint64]bool // without their last 32 bits
}

func (k *keyed) Generate(ctx context.Context, prompts []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	k.mu.Lock()
	for _, q := range prompts {
		k.keys[q.Conversation>>32] = true
	}
	k.mu.Unlock()
	return k.Policy.Generate(ctx, prompts, s)
}

// TestIndependentEpisodesHaveConversationsOfTheirOwn: their player's keys would be equal.
func TestIndependentEpisodesHaveConversationsOfTheirOwn(t *testing.T) {
	k := &keyed{Policy: traintest.Guesser(), keys: map[uint64]bool{}}
	e := evaluation(t, t.TempDir(), k, &traintest.Arena{})
	e.Independent, e.Concurrency = true, 3
	ran(t, e)
	require.Len(t, k.keys, 12)
}

// TestEvaluationsGoOnWithWhatIsMissing: stopped anywhere, one ends as if it had not
// been, and no episode is played or written twice.
func TestEvaluationsGoOnWithWhatIsMissing(t *testing.T) {
	for _, apart := range []bool{false, true} {
		whole := t.TempDir()
		e := evaluation(t, whole, traintest.Guesser(), &traintest.Arena{})
		e.Independent, e.Concurrency = apart, 3
		ran(t, e)
		want := stored(t, whole)

		dir := t.TempDir()
		a := &traintest.Arena{}
		written := map[string]os.FileInfo{}
		for stop := 1; stop <= 12; stop += 4 {
			ctx, cancel := context.WithCancel(t.Context())
			e := evaluation(t, dir, traintest.Guesser(), a)
			e.Independent, e.Live = apart, true
			e.Done = func(over, all int) {
				require.Equal(t, 12, all)
				if over >= stop {
					cancel()
				}
			}
			_, err := e.Run(ctx)
			cancel()
			if stop < 8 {
				require.ErrorIs(t, err, context.Canceled)
			}
			files, err := filepath.Glob(filepath.Join(dir, "tag_*", "*", "result.json"))
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(files), stop)
			for _, f := range files {
				info, err := os.Stat(f)
				require.NoError(t, err)
				if before := written[f]; before != nil {
					require.True(t, os.SameFile(before, info) && before.ModTime().Equal(info.ModTime()), "%s is written once", f)
				}
				written[f] = info
			}
		}
		e = evaluation(t, dir, traintest.Guesser(), a)
		e.Independent = apart
		r := ran(t, e)
		require.Equal(t, want, stored(t, dir))
		require.Len(t, r.Rows, 2)
		require.Equal(t, []int{8, 4}, []int{r.Rows[0].Episodes, r.Rows[1].Episodes})
		missing, err := e.Missing()
		require.NoError(t, err)
		require.Empty(t, missing[0])

		steps := len(a.Seeds)
		ran(t, e)
		require.Len(t, a.Seeds, steps, "nothing is played when nothing is missing")
		e.Resume = evaluate.ResumeOff
		_, err = e.Run(t.Context())
		require.ErrorIs(t, err, evaluate.ErrResultsExist)
		e.Resume = evaluate.ForceRerun
		ran(t, e)
		require.Len(t, a.Seeds, steps+12)
		require.Equal(t, want, stored(t, dir))
	}
}

// TestEvaluationIsValidation: the trainer's own validation and an evaluation of its
// task give the same numbers, also where a level has several episodes.
func TestEvaluationIsValidation(t *testing.T) {
	for _, n := range []int{1, 3} {
		c := traintest.Small()
		c.Agent.Rollout.Val.Episodes = n
		evaluationIsValidation(t, c)
	}
}

func evaluationIsValidation(t *testing.T, c config.Config) {
	tr, j := traintest.Trainer(t, c, traintest.Guesser(), nil)
	require.NoError(t, tr.Validate(t.Context(), 0))
	m := (*j)[0].Metrics
	task, err := tr.Task("val")
	require.NoError(t, err)
	e := &evaluate.Evaluation{Dir: t.TempDir(), Model: "m", Policy: tr.Learner, Tasks: []evaluate.Task{task}}
	r := ran(t, e)
	row := r.Rows[0]
	require.Equal(t, c.Data.ValBatch*c.Agent.Rollout.Val.Episodes, row.Episodes)
	require.Positive(t, m["val/success"])
	require.InDelta(t, m["val/episodes"], row.Episodes, 0)
	require.InDelta(t, m["val/success"], row.Success.Mean, 0)
	// Sums in another order.
	const tol = 1e-12
	require.InDelta(t, m["val/score"], row.Score.Mean, tol)
	require.InDelta(t, m["val/turns"], row.Turns.Mean, tol)
	require.InDelta(t, m["val/reward/guess"], row.Reward["guess"].Mean, tol)
	require.InDelta(t, m["val/format_correct"], row.FormatCorrect, tol)
	require.InDelta(t, m["val/response_tokens"], row.ResponseTokens.Mean*float64(row.Episodes),
		tol*m["val/response_tokens"])
	require.Less(t, row.Success.Low, row.Success.Mean)
	require.Greater(t, row.Success.High, row.Success.Mean)
}

// TestFailedEpisodesArePlayedAgain and count as nothing until they can be used.
func TestFailedEpisodesArePlayedAgain(t *testing.T) {
	dir := t.TempDir()
	broken := &traintest.Arena{Fault: func(seed int64, _ int) error {
		if seed < 2 {
			return traintest.ErrBroken
		}
		return nil
	}}
	e := evaluation(t, dir, traintest.Guesser(), broken)
	r := ran(t, e)
	require.Equal(t, []int{8, 4, 4}, []int{r.Rows[0].Episodes, r.Rows[0].Unusable, r.Rows[0].Success.N})
	require.Equal(t, map[string]int{"done": 4, "env_error": 4}, r.Rows[0].ByEnd)
	require.Equal(t, 4, r.Rows[1].Unusable)
	missing, err := e.Missing()
	require.NoError(t, err)
	require.Equal(t, []int{4, 4}, []int{len(missing[0]), len(missing[1])})
	r, err = evaluation(t, dir, traintest.Guesser(), &traintest.Arena{}).Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{8, 0, 0}, []int{r.Rows[0].Episodes, r.Rows[0].Unusable, r.Rows[1].Unusable})

	down := &traintest.Arena{Fault: func(int64, int) error { return traintest.ErrBroken }}
	r, err = evaluation(t, t.TempDir(), traintest.Guesser(), down).Run(t.Context())
	require.ErrorIs(t, err, evaluate.ErrNothingRan)
	require.NotNil(t, r)
	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	require.Contains(t, text.String(), "8 env_error")
}

// TestResultsAreNotMixed: other settings under the tag are refused, other models
// stand beside.
func TestResultsAreNotMixed(t *testing.T) {
	dir := t.TempDir()
	_, err := evaluation(t, dir, traintest.Guesser(), &traintest.Arena{}).Run(t.Context())
	require.NoError(t, err)
	for name, change := range map[string]func(*evaluate.Evaluation, *evaluate.Task){
		"policy":   func(e *evaluate.Evaluation, _ *evaluate.Task) { e.Identity = "other weights" },
		"judge":    func(_ *evaluate.Evaluation, k *evaluate.Task) { k.Judge = "another" },
		"sampling": func(_ *evaluate.Evaluation, k *evaluate.Task) { k.Player.Sampling.Temperature = 0 },
		"harness":  func(_ *evaluate.Evaluation, k *evaluate.Task) { k.Player.Harness = rollout.NoConcat{} },
		"limit":    func(_ *evaluate.Evaluation, k *evaluate.Task) { k.Player.MaxTurns = 2 },
		"options": func(_ *evaluate.Evaluation, k *evaluate.Task) {
			k.Episodes[3].Config = map[string]any{"turns": uint64(2)}
		},
		"seed": func(_ *evaluate.Evaluation, k *evaluate.Task) { k.Seed++ },
	} {
		e := evaluation(t, dir, traintest.Guesser(), &traintest.Arena{})
		change(e, &e.Tasks[0])
		_, err := e.Run(t.Context())
		require.ErrorIs(t, err, evaluate.ErrOtherSettings, name)
	}
	e := evaluation(t, dir, traintest.Guesser(), &traintest.Arena{})
	e.Model = "another"
	r := ran(t, e)
	require.Len(t, r.Rows, 4)
	require.Equal(t, []string{"another", "bandit", "another", "bandit"},
		[]string{r.Rows[0].Model, r.Rows[1].Model, r.Rows[2].Model, r.Rows[3].Model})
	var md bytes.Buffer
	require.NoError(t, r.WriteMarkdown(&md))
	require.Equal(t, 2*(2+4+1)+1, strings.Count(md.String(), "\n"))
	require.NotContains(t, md.String(), "cost", "nothing was paid")
}

// TestReportsCountTheEpisodesOfTheEvaluation: results of episodes that it does not have stay on the
// disk, and are in no row.
func TestReportsCountTheEpisodesOfTheEvaluation(t *testing.T) {
	dir := t.TempDir()
	_, err := evaluation(t, dir, traintest.Guesser(), &traintest.Arena{}).Run(t.Context())
	require.NoError(t, err)
	for _, resume := range []evaluate.Resume{evaluate.SkipCompleted, evaluate.ForceRerun} {
		e := evaluation(t, dir, traintest.Guesser(), &traintest.Arena{})
		e.Resume, e.Tasks[1].Player.MaxTurns = resume, 2
		e.Tasks[0].Episodes = e.Tasks[0].Episodes[:2]
		for i := range e.Tasks[1].Episodes {
			e.Tasks[1].Episodes[i].Seed += 100
		}
		r := ran(t, e)
		require.Equal(t, []int{2, 4}, []int{r.Rows[0].Episodes, r.Rows[1].Episodes})
	}
	kept, err := filepath.Glob(filepath.Join(dir, "tag_*", "*", "result.json"))
	require.NoError(t, err)
	require.Len(t, kept, 12+4)
}

// TestEvaluationsOfTwoModelsShareAFolder at the same time: the last one to end has the rows of both, and
// a summary of the other that is being written is no error.
func TestEvaluationsOfTwoModelsShareAFolder(t *testing.T) {
	dir := t.TempDir()
	e := evaluation(t, dir, traintest.Guesser(), &traintest.Arena{})
	other := evaluation(t, dir, traintest.Guesser(), &traintest.Arena{})
	other.Model, e.Live = "other", true
	e.Done = func(over, _ int) {
		if over == 1 {
			ran(t, other)
			require.NoError(t, os.Remove(filepath.Join(dir, "summary.json")))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "summary.json"), 0o755)) // cannot be replaced by a file
		}
		if over == 2 {
			require.NoError(t, os.Remove(filepath.Join(dir, "summary.json")))
		}
	}
	r := ran(t, e)
	require.Len(t, r.Rows, 4)
	require.Equal(t, []int{8, 8}, []int{r.Rows[0].Episodes, r.Rows[1].Episodes})
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestEvaluationsThatMakeNoSenseAreRefused(t *testing.T) {
	for says, change := range map[string]func(*evaluate.Evaluation){
		`Tag is "../x", must be valid as the name of a folder`: func(e *evaluate.Evaluation) { e.Tasks[1].Tag = "../x" },
		`Tag is "a/b", must be valid as the name of a folder`:  func(e *evaluate.Evaluation) { e.Tasks[1].Tag = "a/b" },
		`Tag is "", must be`:                          func(e *evaluate.Evaluation) { e.Tasks[1].Tag = "" },
		`Tag is "SHORT", which another task has, too`: func(e *evaluate.Evaluation) { e.Tasks[1].Tag = "SHORT" },
		"Episodes is empty":                           func(e *evaluate.Evaluation) { e.Tasks[1].Episodes = nil },
		"episode 3 has group 1 and index 0 like an earlier one": func(e *evaluate.Evaluation) {
			e.Tasks[1].Episodes[3].Group = 1
		},
		"AtOnce is -1":      func(e *evaluate.Evaluation) { e.Tasks[1].AtOnce = -1 },
		`Resume is "on"`:    func(e *evaluate.Evaluation) { e.Resume = "on" },
		"none may be empty": func(e *evaluate.Evaluation) { e.Model = "" },
	} {
		e := evaluation(t, t.TempDir(), traintest.Guesser(), &traintest.Arena{})
		change(e)
		_, err := e.Run(t.Context())
		testkit.Error(t, err, evaluate.ErrSettings, says)
		_, err = e.Missing()
		require.ErrorContains(t, err, says)
	}
	dir := t.TempDir()
	testkit.Write(t, filepath.Join(dir, "tag_short"), "")
	_, err := evaluation(t, dir, traintest.Guesser(), &traintest.Arena{}).Run(t.Context())
	require.Error(t, err, "a file is in the way")
	dir = t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "tag_short", "x"), 0o755))
	testkit.Write(t, filepath.Join(dir, "tag_short", "x", "result.json"), "{")
	_, err = evaluation(t, dir, traintest.Guesser(), &traintest.Arena{}).Run(t.Context())
	require.ErrorContains(t, err, "result.json", "what cannot be read is not passed over")
}

// priced is a policy behind an API: it counts, and is paid.
type priced struct {
	*traintest.Bandit
	calls atomic.Int64
	fail  int64 // the call that fails
}

func (p *priced) Generate(
	ctx context.Context, prompts []policy.Prompt, s policy.Sampling,
) ([]policy.Completion, error) {
	if p.calls.Add(1) == p.fail {
		return nil, errors.New("no credit")
	}
	out, err := p.Bandit.Generate(ctx, prompts, s)
	for i := range out {
		out[i].Tokens, out[i].LogProbs, out[i].Context = nil, nil, nil
		out[i].Usage = policy.Usage{PromptTokens: 100, CompletionTokens: 10, Cost: 0.5}
	}
	return out, err
}

// TestCostsAreCountedByEpisode, and a policy that fails ends the evaluation, which
// goes on later.
func TestCostsAreCountedByEpisode(t *testing.T) {
	dir := t.TempDir()
	e := evaluation(t, dir, &priced{Bandit: traintest.Guesser(), fail: 5}, &traintest.Arena{})
	e.Independent, e.Concurrency = true, 2
	_, err := e.Run(t.Context())
	require.ErrorContains(t, err, "no credit")
	half := testkit.JSON[evaluate.Report](t, stored(t, dir))
	require.Positive(t, half.Rows[0].Episodes, "what was played stays")
	e.Policy = &priced{Bandit: traintest.Guesser()}
	r := ran(t, e)
	long := r.Rows[1]
	require.Equal(t, []float64{30, 300, 1.5, 6},
		[]float64{long.ResponseTokens.Mean, long.PromptTokens.Mean, long.Cost.Mean, long.TotalCost}, "three turns an episode")
	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	require.Contains(t, text.String(), "total cost")
}

type contextKey struct{}

// watching is a policy that collects the contexts it is called with.
type watching struct {
	policy.Policy
	seen sync.Map
}

func (w *watching) Generate(
	ctx context.Context, prompts []policy.Prompt, s policy.Sampling,
) ([]policy.Completion, error) {
	w.seen.Store(ctx.Value(contextKey{}), true)
	return w.Policy.Generate(ctx, prompts, s)
}

// What a task puts into a context, such as a judge's budget, is one independent episode's, or
// that of all batches.
func TestEachEpisodeHasAContextOfItsOwn(t *testing.T) {
	for apart, want := range map[bool]int64{true: 12, false: 2} {
		w := &watching{Policy: traintest.Guesser()}
		e := evaluation(t, t.TempDir(), w, &traintest.Arena{})
		e.Independent, e.Concurrency = apart, 3
		var n atomic.Int64
		for i := range e.Tasks {
			e.Tasks[i].Context = func(ctx context.Context) context.Context {
				return context.WithValue(ctx, contextKey{}, n.Add(1))
			}
		}
		ran(t, e)
		require.Equal(t, want, n.Load())
		for k := int64(1); k <= want; k++ {
			_, used := w.seen.Load(k)
			require.True(t, used, "%v: context %d", apart, k)
		}
	}
}
