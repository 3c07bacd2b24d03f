package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"slices"

	"vagen/internal/dialogue"
	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/tokenizer"
)

// Stream generates the responses to prompts. It calls watch, which may be nil, with each sampled token.
func (g *Generator) Stream(
	ctx context.Context, prompts []policy.Prompt, s policy.Sampling, watch func(prompt int, token int32),
) ([]policy.Completion, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	turns, err := g.open(prompts, s)
	if err != nil {
		return nil, err
	}
	sequences, err := g.generateTurns(ctx, prompts, turns, s, watch)
	if err != nil {
		g.endConversations(prompts)
		return nil, err
	}
	return g.completions(prompts, turns, sequences), nil
}

// open reads the prompts of a call, and gives new conversations their rows.
func (g *Generator) open(prompts []policy.Prompt, s policy.Sampling) ([]*Turn, error) {
	turns, err := g.ReadPrompts(prompts, s)
	if err != nil {
		return nil, err
	}
	if err := g.assignRows(prompts, turns); err != nil {
		g.endConversations(prompts)
		return nil, err
	}
	return turns, nil
}

// completions returns the responses of turns, or their errors.
func (g *Generator) completions(
	prompts []policy.Prompt, turns []*Turn, sequences []*Sequence,
) []policy.Completion {
	out := make([]policy.Completion, len(prompts))
	for i, p := range prompts {
		if out[i].Err = turns[i].refused; out[i].Err == nil {
			out[i] = g.Completion(p, turns[i], &sequences[i].Reply)
		}
	}
	return out
}

// assign gives a row of a batch the turn of prompt i. watch, which may be nil, gets its tokens.
func (f *DecodeBatch) assign(row int, t *Turn, i int, watch func(int, int32)) *Sequence {
	if watch != nil {
		t.watch = func(token int32) { watch(i, token) }
	}
	return f.Assign(row, t)
}

// generateTurns generates the responses of all turns without an error.
func (g *Generator) generateTurns(
	ctx context.Context, prompts []policy.Prompt, turns []*Turn, s policy.Sampling, watch func(int, int32),
) ([]*Sequence, error) {
	var schedulers []*Scheduler // one for each leaf with requests
	sequences := make([]*Sequence, len(prompts))
	defer func() {
		for _, c := range schedulers {
			c.Free()
		}
	}()
	for _, batch := range g.Batches {
		c, err := g.schedulerOf(&schedulers, batch.leaf, s)
		if err != nil {
			return nil, err
		}
		f := c.NewDecodeBatch(batch)
		for i, p := range prompts {
			if c := g.Chats[p.Conversation]; turns[i].refused == nil && c.Batch == batch {
				sequences[i] = f.assign(c.Row, turns[i], i, watch)
			}
		}
		if len(f.unfinished()) > 0 {
			c.waiting = append(c.waiting, f)
		}
	}
	err := g.runAll(ctx, schedulers, watch != nil)
	g.learnFrom(schedulers)
	if err != nil {
		if ended := ctx.Err(); ended == nil || !errors.Is(err, ended) { // the device failed: caches may be partly written
			for _, c := range schedulers {
				for _, f := range c.waiting {
					g.dropSession(f.Session)
				}
			}
		}
		return nil, err
	}
	return sequences, nil
}

// schedulerOf returns the scheduler of a leaf, which it adds to schedulers if it is new.
func (g *Generator) schedulerOf(schedulers *[]*Scheduler, leaf int, s policy.Sampling) (*Scheduler, error) {
	for _, c := range *schedulers {
		if c.leaf == leaf {
			return c, nil
		}
	}
	r := g.of(leaf)
	w, err := g.GenerationWeights(r)
	if err != nil {
		return nil, err
	}
	decoding, err := g.decodingWeights(r, w)
	if err != nil {
		return nil, err
	}
	c, err := NewScheduler(g.programs(r), w, s, g.Cfg.EndOfTurn, &g.Settings)
	if err != nil {
		return nil, err
	}
	c.leaf, c.decoding, c.heard = leaf, decoding, slices.Clone(g.heard)
	*schedulers = append(*schedulers, c)
	return c, nil
}

// runAll runs the schedulers of each device in the order of their leaves. Devices run at the
// same time, unless tokens are watched, which must come in the same order in every run.
func (g *Generator) runAll(ctx context.Context, schedulers []*Scheduler, watched bool) error {
	slices.SortFunc(schedulers, func(a, b *Scheduler) int { return cmp.Compare(a.leaf, b.leaf) })
	run := func(d *device.Device) error {
		for _, c := range schedulers {
			if c.net.Dev != d {
				continue
			}
			if err := c.Run(ctx, c.waiting); err != nil {
				return err
			}
		}
		return nil
	}
	if watched {
		for _, w := range g.Weights {
			if err := run(w.Net.Dev); err != nil {
				return err
			}
		}
		return nil
	}
	return net.Each(len(g.Weights), func(i int) error { return run(g.Weights[i].Net.Dev) })
}

// ReadPrompts converts the prompts' messages to tokens and processed images.
func (g *Generator) ReadPrompts(prompts []policy.Prompt, s policy.Sampling) ([]*Turn, error) {
	limits, err := s.Limits(prompts)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	turns := make([]*Turn, len(prompts))
	groups := make([][]image.Image, len(prompts))
	opens := false // a conversation
	for i, p := range prompts {
		if _, goesOn := g.Chats[p.Conversation]; !goesOn {
			opens = true
		}
		for _, msg := range p.Messages {
			groups[i] = append(groups[i], msg.Images...)
		}
	}
	if opens && g.Pictures.startRound(true) {
		device.Trim() // memory of training
	}
	refs, pics, errs := g.PrepareImages(groups)
	for i, p := range prompts {
		c := g.Chats[p.Conversation]
		t := &Turn{Images: pics[i], refs: refs[i], seed: p.Seed, Max: limits[i], refused: errs[i],
			stop: dialogue.NewStopper(g.Tok, slices.Concat(s.StopStrings, p.StopStrings))}
		turns[i] = t
		if t.refused == nil && c != nil && c.dead != nil {
			t.refused = fmt.Errorf("vlm: conversation %d has ended: %w", p.Conversation, c.dead)
		}
		if t.refused != nil {
			continue
		}
		var err error
		if t.context, t.Opened, err = g.EncodePrompt(p, pics[i]); err != nil {
			t.refused = fmt.Errorf("vlm: %w", err)
			continue
		}
		if t.Think, err = NewThinkingLimiter(g.Tok, s.Thinking, t.Opened); err != nil {
			return nil, err
		}
		t.Tokens, t.Shared = t.context, net.ContextKey(t.context, t.refs)
		g.Resumed[p.Conversation].prepend(t)
		length := len(t.Tokens)
		if c != nil {
			length += c.Length
		}
		if most := g.Cfg.Text.MaxPositions; most > 0 && limits[i] > most-length {
			t.refused = fmt.Errorf("vlm: %w: %d tokens and %d of the response, the model allows %d", policy.ErrNoRoom,
				length, limits[i], most)
		}
	}
	return turns, nil
}

// EncodePrompt renders and tokenises a prompt's messages. opened is the response's text that the chat template wrote.
func (g *Generator) EncodePrompt(p policy.Prompt, pics []net.Picture) (ids []int32, opened string, err error) {
	var past *dialogue.Past
	if c, r := g.Chats[p.Conversation], g.Resumed[p.Conversation]; c != nil {
		past = &dialogue.Past{Ended: c.ended}
	} else if r != nil {
		past = &dialogue.Past{Recorded: r.tokens, Ended: r.ended}
	}
	return g.Prompt(past, p.Messages, g.counts(pics))
}

// Completion converts a reply to a completion.
func (g *Generator) Completion(p policy.Prompt, t *Turn, r *Reply) policy.Completion {
	c := g.Chats[p.Conversation]
	delete(g.Resumed, p.Conversation)
	if c.dead = r.err; r.err != nil {
		return policy.Completion{Err: r.err}
	}
	_, end := g.Chat.EndOfTurn()
	last := r.Tokens[len(r.Tokens)-1]
	c.ended = r.Stopped && last == end
	out := policy.Completion{Context: t.context, Tokens: r.Tokens, LogProbs: r.LogProbs, Forced: r.forced,
		Images: t.refs, Stop: policy.StopLength}
	words := r.Tokens
	switch {
	case r.Stopped:
		out.Stop, words = policy.StopEnd, words[:len(words)-1]
	case r.stoppedByString:
		out.Stop = policy.StopString
	}
	out.Text = t.Opened + g.Tok.Decode(words, tokenizer.KeepSpecial)
	return out
}
