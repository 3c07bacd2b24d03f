package train

import (
	"context"
	"fmt"

	"vagen/internal/silent"
	"vagen/policy"
	"vagen/train/config"
	"vagen/train/sft"
	"vagen/train/track"
)

// errNoEpisodes means that a method that plays episodes was called in the supervised stage.
var errNoEpisodes = fmt.Errorf("train: %w: trainer.stage is sft, which plays no episodes", config.ErrConfig)

// supervises reports whether the trainer does the supervised stage.
func (t *Trainer) supervises() bool { return t.Config.Trainer.Stage == config.StageSFT }

// prepareSupervised is prepare for the supervised stage, which plays no episodes.
func (t *Trainer) prepareSupervised(ctx context.Context, runs bool) error {
	t.Log = silent.Log(t.Log)
	if t.Examples == nil {
		t.Config = t.Config.Supervised()
	}
	t.methods.names = t.Registries.WithBuiltins()
	if err := t.methods.names.Validate(&t.Config); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if err := t.checkParts(runs); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	encode, ok := policy.As[policy.Encoder](t.Learner)
	if !ok {
		return fmt.Errorf("train: %w: trainer.stage is sft, but the learner (%T) does not implement policy.Encoder",
			config.ErrConfig, t.Learner)
	}
	if t.Examples == nil {
		var err error
		if t.Examples, err = sft.Open(ctx, &t.Config, t.Envs, t.Log); err != nil {
			return fmt.Errorf("train: %w", err)
		}
	}
	t.Config.LogNotes(t.Log)
	if err := t.Examples.Encode(ctx, encode); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return t.begin()
}

// supervisedStep does one optimiser step on examples and returns its metrics.
func (t *Trainer) supervisedStep(ctx context.Context, of *Collected) (track.Metrics, error) {
	clock, m, c, step := newStopwatch(), track.Metrics{}, &t.Config, of.Step
	b, err := t.Examples.Batch(step, t.stability.seed())
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	clock.lap("data")
	o := adamW(&c.SFT.Optim, c.SFT.GradClip, c.Agent.Actor.NormLimit)
	o.Rate = rate(&c.SFT.Optim, step, c.Trainer.Steps)
	t.progress.begun, t.progress.updating = true, true
	stats, err := t.Learner.Update(t.updateContext(ctx), b,
		policy.Objective{Imitate: true, DFT: c.SFT.Loss == "dft", Temperature: 1}, o)
	if err != nil {
		return nil, err
	}
	if err := t.progress.countSkipped(stats, c.Trainer.MaxSkipped, t.Log); err != nil {
		return nil, err
	}
	t.progress.updating = false
	clock.lap("update")
	learned := 0
	for _, w := range b.Weight {
		if w != 0 {
			learned++
		}
	}
	m["sft/loss"], m["sft/lr"] = stats.PolicyLoss, o.Rate
	setGradNorm(m, "sft/grad_norm", stats)
	m["sft/tokens"], m["train/trained_tokens"] = float64(learned), float64(stats.Tokens)
	clock.write(m)
	addProgress(m, t.Examples.Epoch(step), step, stats.Tokens)
	measureMachine(t.Learner, t.Dealer, m)
	return m, nil
}

// mostLikely is the temperature at which a token's probability is 1 if it is the most likely
// one, and 0 otherwise, up to logits that differ by less than a millionth.
const mostLikely = 1e-6

// validateSupervised computes the loss of the held-out examples: sft/val_loss is the mean
// negative log-prob of their tokens, and sft/val_token_accuracy the share of tokens that are
// the most likely ones, both weighted like the loss.
func (t *Trainer) validateSupervised(ctx context.Context, step int) error {
	if _, n := t.Examples.Rows(); n == 0 {
		return nil
	}
	clock := newStopwatch()
	var loss, right, weight float64
	learned := 0
	for b, err := range t.Examples.Held {
		if err != nil {
			return fmt.Errorf("train: %w", err)
		}
		want := make([]bool, len(b.Tokens))
		for i, w := range b.Weight {
			want[i] = w != 0
		}
		plain, err := t.logProbs(ctx, &b.Rows, want, 1)
		if err != nil {
			return err
		}
		sharp, err := t.logProbs(ctx, &b.Rows, want, mostLikely)
		if err != nil {
			return err
		}
		for i, w := range b.Weight {
			if w == 0 {
				continue
			}
			loss -= float64(w) * float64(plain[i])
			if sharp[i] > -0.5 { // a probability above 0.6
				right += float64(w)
			}
			weight += float64(w)
			learned++
		}
	}
	m := track.Metrics{"sft/val_loss": loss / weight, "sft/val_token_accuracy": right / weight,
		"sft/val_tokens": float64(learned)}
	clock.lap("validate")
	clock.write(m)
	return t.validated(ctx, step, m, nil)
}

// logProbs returns the learner's log-probs of rows.
func (t *Trainer) logProbs(
	ctx context.Context, rows *policy.Rows, want []bool, temperature float64,
) ([]float32, error) {
	s, err := t.Learner.Score(ctx, rows, want, policy.ScoreRequest{LogProbs: true}, temperature)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, errNoScores
	case len(s.LogProbs) != len(want):
		return nil, errScores("log-probs", len(s.LogProbs), len(want))
	}
	return s.LogProbs, nil
}
