package engines

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"strings"

	"vagen/policy"
	"vagen/policy/engine"
)

// compare generates responses to probes and compares the servers' log-probs with the model's.
func (l *learner) compare(ctx context.Context) error {
	e := &l.config.Agent.Rollout.Engine
	if e.CheckResponses == 0 {
		return nil
	}
	samples, err := l.samples(ctx, e.CheckResponses)
	if err != nil {
		return fmt.Errorf("engines: comparison before training: %w", err)
	}
	a := engine.Compare(samples)
	l.log.Info("log-probs of servers and learner", "responses", a.Responses, "tokens", a.Tokens, "mean", a.Mean, "largest",
		a.Largest, "bias", a.Bias)
	return engine.Diagnose(samples, e.CheckLimit)
}

// probeTokens is the length of a probe's response.
const probeTokens = 16

// samples generates n responses, every other one to an image if the model reads images.
func (l *learner) samples(ctx context.Context, n int) ([]engine.Sample, error) {
	vision := l.Model.ReadsImages()
	prompts := make([]policy.Prompt, n)
	for i := range prompts {
		var pictures []image.Image
		if vision && i%2 == 1 {
			pictures = []image.Image{probeImage(i, 96, 96)}
		}
		prompts[i] = probe(i, pictures...)
	}
	return l.scored(ctx, prompts)
}

// probe is the prompt of a conversation of its own.
func probe(i int, pictures ...image.Image) policy.Prompt {
	m := policy.Message{Role: policy.User, Text: fmt.Sprintf("Probe %d: describe the next step.", i), Images: pictures}
	m.Text = strings.Repeat("<image>", len(pictures)) + m.Text
	return policy.Prompt{Conversation: uint64(i + 1), Messages: []policy.Message{m}, Seed: uint64(i) << 40}
}

// scored generates responses to prompts, which open conversations, and computes the model's
// log-probs for them.
func (l *learner) scored(ctx context.Context, prompts []policy.Prompt) ([]engine.Sample, error) {
	n := len(prompts)
	temperature := l.config.Agent.Rollout.Temperature
	out, err := engine.NewPolicy(l.fleet).Generate(ctx, prompts,
		policy.Sampling{Temperature: temperature, MaxTokens: probeTokens})
	if err != nil {
		return nil, err
	}
	rows := &policy.Rows{Offsets: []int{0}}
	var want []bool
	for i, c := range out {
		if c.Err != nil {
			return nil, fmt.Errorf("probe %d: %w", i, c.Err)
		}
		tokens := c.Tokens
		if c.Stop == policy.StopVision { // a placeholder without an image cannot be scored
			tokens = tokens[:len(tokens)-1]
		}
		rows.Tokens = append(append(rows.Tokens, c.Context...), tokens...)
		rows.Offsets, rows.Images = append(rows.Offsets, len(rows.Tokens)), append(rows.Images, c.Images)
		want = append(want, make([]bool, len(c.Context))...)
		for range tokens {
			want = append(want, true)
		}
	}
	at, err := l.Model.Score(ctx, rows, want, policy.ScoreRequest{LogProbs: true}, temperature)
	if err != nil {
		return nil, err
	}
	plain := at
	if temperature != 1 {
		if plain, err = l.Model.Score(ctx, rows, want, policy.ScoreRequest{LogProbs: true}, 1); err != nil {
			return nil, err
		}
	}
	samples := make([]engine.Sample, n)
	for i, c := range out {
		from, to := rows.Offsets[i]+len(c.Context), rows.Offsets[i+1]
		samples[i] = engine.Sample{Sampled: c.LogProbs[:to-from], Learner: at.LogProbs[from:to], Images: len(c.Images) > 0}
		if temperature != 1 {
			samples[i].Plain = plain.LogProbs[from:to]
		}
	}
	return samples, nil
}

// probeImage draws a picture with edges and shades. A size that is no multiple of the
// model's blocks has to be resized.
func probeImage(i, width, height int) image.Image {
	im := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			c := color.RGBA{uint8(2 * x), uint8(2 * y), uint8(37 * i), 255}
			if (x/12+y/12+i)%2 == 0 {
				c.R, c.G = 255-c.R, 255-c.G
			}
			im.SetRGBA(x, y, c)
		}
	}
	return im
}
