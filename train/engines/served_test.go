package engines_test

import (
	"context"
	"image"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/enginestub"
	"vagen/internal/tinymodel"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/policy/vlm/processor"
	"vagen/policy/vlm/tokenizer"
	"vagen/train/config"
)

// served generates the responses of a stub with package vlm, from the folders that the stub
// was told to load. So log-probs agree with the learner's only if its weights have arrived.
type served struct {
	dir  string // of the model at the start
	raw  bool   // reports log-probs of temperature 1
	deaf bool   // ignores new weights

	proc *processor.Processor
	tok  *tokenizer.Tokenizer
	chat *tokenizer.Chat

	mu     sync.Mutex
	models map[string]*vlm.Model
	keys   uint64
}

func newServed(t *testing.T, dir string) *served {
	t.Helper()
	s := &served{dir: dir, models: map[string]*vlm.Model{}}
	var err error
	s.proc, err = processor.Load(dir)
	require.NoError(t, err)
	s.tok, err = tokenizer.Load(dir)
	require.NoError(t, err)
	s.chat, err = s.tok.Chat(nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, m := range s.models {
			m.Close()
		}
	})
	return s
}

// open returns the model of a folder of weights or of an adapter. The mutex must be held.
func (s *served) open(weights, adapter string) (*vlm.Model, error) {
	if s.deaf {
		weights, adapter = "", ""
	}
	if weights == "" {
		weights = s.dir
	}
	key := weights + "|" + adapter
	if m := s.models[key]; m != nil {
		return m, nil
	}
	m, err := vlm.Open(context.Background(), weights, vlm.Options{Backend: "go", Adapter: adapter, CacheTokens: 64})
	if err == nil {
		s.models[key] = m
	}
	return m, err
}

func (s *served) Load(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := processor.Load(path); err == nil {
		_, err = s.open(path, "")
		return err
	}
	_, err := s.open("", path)
	return err
}

func (s *served) Expand(tokens []int32, images []image.Image) ([]int32, [][2]int, error) {
	var counts []int
	for _, im := range images {
		g, err := s.proc.Grid(im.Bounds().Dx(), im.Bounds().Dy())
		if err != nil {
			return nil, nil, err
		}
		counts = append(counts, s.proc.Tokens(g))
	}
	if len(counts) == 0 {
		return tokens, nil, nil
	}
	out, err := s.tok.ExpandImages(nil, tokens, counts)
	var places [][2]int
	for i := 0; i < len(out); i++ {
		if out[i] == s.tok.Special().ImagePad {
			n := counts[len(places)]
			places = append(places, [2]int{i, n})
			i += n - 1
		}
	}
	return out, places, err
}

func (s *served) Generate(j enginestub.Job) ([]int32, []float32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.open(j.Weights, j.Adapter)
	if err != nil {
		return nil, nil, err
	}
	s.keys++
	r := policy.Recorded{Conversation: s.keys, Tokens: j.Tokens}
	for _, im := range j.Images {
		r.Images = append(r.Images, policy.Image{Hash: policy.HashImage(im), Image: im})
	}
	if err := m.Resume(r); err != nil {
		return nil, nil, err
	}
	defer m.Forget(s.keys)
	out, err := m.Generate(context.Background(), []policy.Prompt{{Conversation: s.keys, Seed: uint64(j.Seed)}},
		policy.Sampling{Temperature: j.Temperature, MaxTokens: j.Max})
	if err == nil {
		err = out[0].Err
	}
	if err != nil {
		return nil, nil, err
	}
	c := out[0]
	if s.raw {
		scored := c.Tokens
		if c.Stop == policy.StopVision { // a placeholder without an image
			scored = scored[:len(scored)-1]
		}
		row := append(j.Tokens[:len(j.Tokens):len(j.Tokens)], scored...)
		want := make([]bool, len(row))
		for i := range scored {
			want[len(j.Tokens)+i] = true
		}
		scores, err := m.Score(context.Background(),
			&policy.Rows{Offsets: []int{0, len(row)}, Tokens: row, Images: [][]policy.Image{r.Images}}, want,
			policy.ScoreRequest{LogProbs: true}, 1)
		if err != nil {
			return nil, nil, err
		}
		copy(c.LogProbs, scores.LogProbs[len(j.Tokens):])
	}
	return c.Tokens, c.LogProbs, nil
}

func (s *served) Tokenize(text string) []int32 {
	rendered, _ := s.chat.Open([]tokenizer.Message{tokenizer.Text("user", text)})
	ids, _ := s.tok.Encode(rendered)
	return ids
}

func (s *served) Decode(tokens []int32) string { return s.tok.Decode(tokens, tokenizer.KeepSpecial) }

// serve starts servers of a model.
func serve(t *testing.T, c *config.Config, n int, change func(i int, m *served)) []*enginestub.Stub {
	t.Helper()
	var all []*enginestub.Stub
	c.Agent.Rollout.Engine.Addresses = nil
	for i := range n {
		m := newServed(t, c.Agent.Model.Path)
		if change != nil {
			change(i, m)
		}
		s := &enginestub.Stub{Model: m, SGLang: c.Agent.Rollout.Name == "sglang", Name: "policy", Vocab: m.tok.VocabSize() +
			1000, Length: 1 << 14, Seed: uint64(i)}
		h := httptest.NewServer(s)
		t.Cleanup(h.Close)
		all = append(all, s)
		c.Agent.Rollout.Engine.Addresses = append(c.Agent.Rollout.Engine.Addresses, h.URL)
	}
	return all
}

// lake is a configuration of two steps on FrozenLake in pictures.
func lake(t *testing.T, engine string) config.Config {
	t.Helper()
	c := config.Default()
	c.Model.Backend, c.Model.CacheTokens = "go", 64
	c.Env.Name, c.Env.Config = "frozenlake", traintest.Lake()
	c.Algorithm.Estimator, c.Critic.Kind = "masked_grpo", "none"
	c.Data.TrainBatch, c.Data.ValBatch, c.Data.MaxResponse = 2, 2, 5
	c.Rollout.Trajectories, c.Rollout.MaxTurns = 2, 2
	c.Agent.Model.Path = tinymodel.Create(t, tinymodel.Shape(), tinymodel.Lake, 3)
	c.Agent.Actor.MiniBatch, c.Agent.Actor.Optim.Rate = 2, 1e-2
	c.Agent.Actor.Entropy = 0.1 // moves the weights also if all rewards of a group are equal
	c.Agent.Rollout.Name = engine
	c.Agent.Rollout.Engine.CheckResponses = 6
	c.Trainer.Steps, c.Trainer.TestFreq, c.Trainer.SaveFreq, c.Trainer.ValBefore = 3, -1, -1, false
	c.Trainer.Dir = filepath.Join(t.TempDir(), "run")
	return c
}
