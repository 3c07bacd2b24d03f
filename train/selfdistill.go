package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"vagen/env"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/rollout"
	"vagen/train/config"
	"vagen/train/track"
)

// Hint returns the tokens in front of an episode's rows when the policy scores them as its own teacher
// (algorithm.self_distillation): a system message with the responses of a script, which plays the start state of the
// episode. No judge is asked. The message is in front of the row as it was recorded, which may begin with another
// system message, as prime-rl's opsd does.
func Hint(
	ctx context.Context, c *config.Config, envs *env.Registry, encode policy.SystemEncoder, of rollout.Episode,
) ([]int32, error) {
	if envs == nil || encode == nil {
		return nil, errors.New("train: algorithm.self_distillation: the environments or the encoder are nil")
	}
	c = cmp.Or(c, new(config.Config))
	d, bare := &c.Algorithm.SelfDistill, new(env.Registry)
	bare.SetOtherwise(func(name string) env.Factory {
		return func(options map[string]any) (env.Env, error) {
			e, err := envs.New(name, options)
			if err != nil {
				return nil, err
			}
			return env.Unwrap(e), nil
		}
	})
	of.MaxTurns = cmp.Or(of.MaxTurns, c.Rollout.MaxTurns)
	say := func(e env.Env, of rollout.Episode, turn int) (string, error) {
		return env.Script(e, d.Teacher, 0, rollout.ScriptRand(c.Run.Seed, uint64(of.Seed), uint64(turn)))
	}
	ts, err := rollout.Demonstrate(ctx, nil, bare, []rollout.Episode{of}, say)
	if err != nil {
		return nil, fmt.Errorf("train: algorithm.self_distillation: %w", err)
	}
	var responses []string
	for _, turn := range ts[0].Turns {
		responses = append(responses, turn.Response)
	}
	tokens, err := encode.EncodeSystem(strings.ReplaceAll(d.Template, config.Demonstration, strings.Join(responses, "\n")))
	if err != nil {
		return nil, fmt.Errorf("train: algorithm.self_distillation: %w", err)
	}
	return tokens, nil
}

// checkSelfDistillation checks that the learner can read demonstrations if the configuration has them.
func (t *Trainer) checkSelfDistillation() error {
	d := &t.Config.Algorithm.SelfDistill
	if !t.Config.TeachesItself() {
		return nil
	}
	encode, ok := policy.As[policy.SystemEncoder](t.Learner)
	if !ok {
		return fmt.Errorf("%w: algorithm.self_distillation.teacher is %s, but the learner (%T) does not implement "+
			"policy.SystemEncoder", config.ErrConfig, d.Teacher, t.Learner)
	}
	if _, err := encode.EncodeSystem(d.Template); err != nil {
		return fmt.Errorf("%w: algorithm.self_distillation.template: %w", config.ErrConfig, err)
	}
	return nil
}

// compared returns the tokens whose log-probs under a teacher the policy loss reads. A policy that teaches itself
// chooses them.
func (t *Trainer) compared() (loss.Choice, error) {
	aim, err := t.methods.names.Objective(&t.Config, 1, 1)
	if err != nil {
		return loss.Choice{}, fmt.Errorf("train: %w", err)
	}
	choice := loss.ChoiceOf(aim.PolicyLoss())
	if choice.By != "" && t.Config.TeachesItself() {
		choice.By = loss.ByItself
	}
	return choice, nil
}

// checkCompared checks that the learner can score these tokens.
func (t *Trainer) checkCompared() error {
	l, ok := policy.As[policy.ScoreChecker](t.Learner)
	if !ok || t.supervises() {
		return nil
	}
	choice, err := t.compared()
	if err == nil && choice.By != "" {
		if err = l.CheckScore(policy.ScoreRequest{Choice: choice}); err != nil {
			err = fmt.Errorf("%w: %s: %w", config.ErrConfig, t.Config.Agent.Actor.Loss.ComparedKey(), err)
		}
	}
	return err
}

// teachItself scores the rows with hints in front of them, which become the reference log-probs, and those of the
// teacher's likeliest tokens if the loss compares some. A row that would be longer than the model reads has none.
func (t *Trainer) teachItself(ctx context.Context, b *batch, choice loss.Choice, m track.Metrics) error {
	h, err := t.hinted(ctx, b, m)
	if err != nil {
		return err
	}
	s, err := t.Learner.Score(ctx, &h.Rows, h.want, policy.ScoreRequest{LogProbs: true, Choice: choice},
		t.Config.Agent.Rollout.Temperature)
	if err != nil {
		return err
	}
	if s == nil {
		return errNoScores
	}
	return b.setScores(&policy.Scores{Reference: slice(h.parts, h.plain, s.LogProbs),
		Chosen: slice(h.parts, h.plain, s.Chosen), Teacher: slice(h.parts, h.plain, s.Teacher)},
		policy.ScoreRequest{Reference: true, Choice: choice})
}

// hinted are rows with hints in front of them.
type hinted struct {
	policy.Rows
	want         []bool // tokens to score
	parts, plain []int  // offsets of hints and rows, and which parts are rows
}

// hinted returns the rows with hints in front of them.
func (t *Trainer) hinted(ctx context.Context, b *batch, m track.Metrics) (*hinted, error) {
	encode, _ := policy.As[policy.SystemEncoder](t.Learner)
	limit, long := 0, 0
	if l, ok := policy.As[policy.Bounded](t.Learner); ok {
		limit = l.MaxPositions()
	}
	type start struct {
		env   string
		seed  int64
		group int // options may differ
	}
	hints := map[start][]int32{}
	h := &hinted{Rows: policy.Rows{Offsets: []int{0}, Images: b.Rows.Images}, parts: []int{0}}
	for row, of := range b.Of {
		e := b.Used[of].Episode
		key := start{e.Env, e.Seed, e.Group}
		hint, known := hints[key]
		if !known {
			var err error
			if hint, err = Hint(ctx, &t.Config, t.Envs, encode, e); err != nil {
				return nil, err
			}
			hints[key] = hint
		}
		from, to := b.Rows.Offsets[row], b.Rows.Offsets[row+1]
		if limit > 0 && len(hint)+to-from > limit {
			hint, long = nil, long+1
		}
		h.Tokens = append(append(h.Tokens, hint...), b.Rows.Tokens[from:to]...)
		end := len(h.Tokens)
		h.Offsets, h.parts = append(h.Offsets, end), append(h.parts, end-to+from, end)
		h.plain = append(h.plain, 2*row+1)
		h.want = append(append(h.want, make([]bool, len(hint))...), b.want[from:to]...)
	}
	m["actor/unhinted_rows"] = float64(long)
	return h, nil
}
