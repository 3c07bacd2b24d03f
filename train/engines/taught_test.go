package engines_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/enginestub"
	"vagen/internal/testkit"
	"vagen/internal/tinymodel"
	"vagen/policy"
	"vagen/policy/engine"
	"vagen/policy/loss"
	"vagen/policy/vlm"
	"vagen/train/config"
	"vagen/train/engines"
	"vagen/train/run"
)

// Score scores with the reference policy of a model, as servers of its folder do.
func (s *served) Score(j enginestub.Job, top int) (out enginestub.Scores, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.models["scores"]
	if m == nil {
		if m, err = vlm.Open(context.Background(), s.dir, vlm.Options{Backend: "go", Reference: true}); err != nil {
			return out, err
		}
		s.models["scores"] = m
	}
	what := policy.ScoreRequest{Reference: true}
	if top > 0 {
		what.Choice = loss.Choice{By: loss.ByTeacher, K: top}
	}
	var images []policy.Image
	for _, im := range j.Images {
		images = append(images, policy.Image{Hash: policy.HashImage(im), Image: im})
	}
	n := len(j.Tokens)
	want := make([]bool, n)
	for i := range want {
		want[i] = i > 0
	}
	rows := &policy.Rows{Offsets: []int{0, n}, Tokens: j.Tokens, Images: [][]policy.Image{images}}
	got, err := m.Score(context.Background(), rows, want, what, 1)
	if err != nil {
		return out, err
	}
	out.LogProbs = got.Reference
	for i := range n {
		out.Top = append(out.Top, got.Chosen[i*top:][:top])
		out.TopLogProbs = append(out.TopLogProbs, got.Teacher[i*top:][:top])
	}
	return out, nil
}

// TestATeacherBehindServersIsATeacherInAFolder: training with either has the same metrics, for the log-probs of the
// sampled tokens and for the teacher's likeliest ones, with rows that have pictures; and servers may fail.
func TestATeacherBehindServersIsATeacherInAFolder(t *testing.T) {
	const topk = "forward_kl_topk"
	for _, test := range []struct{ engine, kl string }{{"vllm", topk}, {"sglang", topk}, {"vllm", "k3"}} {
		var metrics [2][]map[string]float64
		for i, served := range []bool{false, true} {
			c := lake(t, "xla")
			c.Trainer.Steps, c.Agent.Actor.MiniBatch = 1, 4
			c.Agent.Actor.Loss.Mode, c.Agent.Actor.Loss.DistillKL, c.Agent.Actor.Loss.DistillTopK = "opd", test.kl, 3
			c.Algorithm.Estimator, c.Agent.Actor.Entropy = "reinforce_plus_plus", 0
			teacher := tinymodel.Create(t, tinymodel.Shape(), tinymodel.Lake, 4)
			if !served {
				c.Agent.Ref.Model.Path = teacher
			} else {
				teaches(t, &c, test.engine, teacher)
				c.Agent.Ref.Engine.Attempts = 20
			}
			steps, err := train(t, c)
			require.NoError(t, err)
			metrics[i] = steps
		}
		require.Len(t, metrics[1], 1)
		for step, m := range metrics[0] {
			for _, name := range []string{"actor/pg_loss", "actor/grad_norm", "train/score"} {
				require.InDelta(t, m[name], metrics[1][step][name], 1e-4*(1+m[name]), "%v: step %d, %s", test, step+1, name)
			}
		}
		require.Positive(t, metrics[1][0]["perf/teacher_requests"])
		require.NotContains(t, metrics[0][0], "perf/teacher_requests")
	}
}

// teaches serves a teacher.
func teaches(t *testing.T, c *config.Config, kind, dir string) *enginestub.Stub {
	t.Helper()
	m := newServed(t, dir)
	s := &enginestub.Stub{Model: m, SGLang: kind == "sglang", Name: "teacher", Vocab: m.tok.VocabSize() + 1000}
	s.Length = 1 << 14
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	c.Agent.Ref.Engine.Name, c.Agent.Ref.Engine.Addresses = kind, []string{h.URL}
	return s
}

// TestATeacherThatDiesEndsTheRun after all attempts, with an error that names its settings.
func TestATeacherThatDiesEndsTheRun(t *testing.T) {
	c := lake(t, "xla")
	c.Agent.Actor.Loss.Mode, c.Algorithm.Estimator, c.Agent.Actor.Entropy = "opd", "reinforce_plus_plus", 0
	s := teaches(t, &c, "vllm", c.Agent.Model.Path)
	require.False(t, run.ModelOptions(&c, nil).Reference, "there is none in this process")
	c.Agent.Ref.Engine.Attempts, c.Agent.Ref.Engine.Outage = 2, 0.2
	r, err := run.Open(t.Context(), c, run.Options{})
	require.NoError(t, err)
	l, ok := policy.As[*vlm.Model](r.Learner)
	require.True(t, ok, "the learner's abilities are passed on")
	require.NotNil(t, l)
	_, err = r.Learner.Score(t.Context(), &policy.Rows{}, nil, policy.ScoreRequest{Reference: true}, 0.5)
	require.ErrorContains(t, err, "the temperature is 0.5, but servers score at temperature 1")
	check, ok := r.Learner.(policy.ScoreChecker)
	require.True(t, ok)
	what := policy.ScoreRequest{Reference: true, Choice: loss.Choice{By: loss.ByTeacher, K: 3}}
	require.NoError(t, check.CheckScore(what))
	what.Choice.K = 1 << 20
	require.ErrorContains(t, check.CheckScore(what), "tokens are compared at each position, must be 1 to ")
	own := loss.Choice{By: loss.ByStudent, K: 2}
	_, err = r.Learner.Score(t.Context(), &policy.Rows{}, nil, policy.ScoreRequest{Choice: own}, 1)
	require.ErrorContains(t, err, `the compared tokens are chosen by "student"`)
	s.SetFaults(enginestub.Faults{Error: 1})
	err = r.Train(t.Context())
	testkit.Error(t, err, engine.ErrServer, "actor_rollout_ref.ref.engine: engine: score: row ")
	require.NoError(t, r.Close())

	c.Agent.Ref.Engine.Addresses, c.Agent.Ref.Engine.Startup = []string{"http://127.0.0.1:1"}, 0 // nothing listens there
	err = engines.Check(t.Context(), &c)
	testkit.Error(t, err, config.ErrConfig, "actor_rollout_ref.ref.engine: ")
}
