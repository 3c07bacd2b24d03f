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

// Conversation is the policy's state for a prompt's key.
type Conversation struct {
	Batch *Session
	Row   int
	ended bool  // the last response ended with the end-of-turn token
	dead  error // why the conversation cannot be continued
}

// Stream generates the responses to prompts. It calls watch, which may be nil, with each sampled token.
func (g *Generator) Stream(
	ctx context.Context, prompts []policy.Prompt, s policy.Sampling, watch func(prompt int, token int32),
) ([]policy.Completion, error) {
	if err := checkSampling(s); err != nil {
		return nil, err
	}
	turns, err := g.ReadPrompts(prompts, s)
	if err != nil {
		return nil, err
	}
	if err := g.assignRows(prompts, turns); err != nil {
		g.endConversations(prompts)
		return nil, err
	}
	sequences, err := g.generateTurns(ctx, prompts, turns, s, watch)
	if err != nil {
		g.endConversations(prompts)
		return nil, err
	}
	return g.completions(prompts, turns, sequences), nil
}

// completions returns the responses of turns, or their errors.
func (g *Generator) completions(
	prompts []policy.Prompt, turns []promptTurn, sequences []*Sequence,
) []policy.Completion {
	out := make([]policy.Completion, len(prompts))
	for i, p := range prompts {
		if out[i].Err = turns[i].err; out[i].Err == nil {
			out[i] = g.Completion(p, turns[i], &sequences[i].Reply)
		}
	}
	return out
}

// assign adds turn i to a batch. watch, which may be nil, gets its tokens.
func (t *promptTurn) assign(f *DecodeBatch, i int, watch func(int, int32)) *Sequence {
	if watch != nil {
		t.Turn.watch = func(token int32) { watch(i, token) }
	}
	return f.Assign(t.Turn)
}

// generateTurns generates the responses of all turns without an error.
func (g *Generator) generateTurns(
	ctx context.Context, prompts []policy.Prompt, turns []promptTurn, s policy.Sampling, watch func(int, int32),
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
			if c := g.Chats[p.Conversation]; turns[i].err == nil && c.Batch == batch {
				turns[i].Turn.Row = c.Row
				sequences[i] = turns[i].assign(f, i, watch)
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

// ErrSampling is wrapped by errors about sampling settings.
var ErrSampling = errors.New("bad sampling")

func checkSampling(s policy.Sampling) error {
	switch {
	case s.Temperature != 0 && net.CheckTemperature(s.Temperature) != nil:
		return fmt.Errorf("vlm: %w: %w, or 0 for the most likely token", ErrSampling, net.CheckTemperature(s.Temperature))
	case s.TopK < 0:
		return fmt.Errorf("vlm: %w: top-k is %d, must not be negative", ErrSampling, s.TopK)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return fmt.Errorf("vlm: %w: top-p is %v, must be in [0, 1]", ErrSampling, s.TopP)
	case !(s.MinP >= 0 && s.MinP < 1):
		return fmt.Errorf("vlm: %w: min-p is %v, must be in [0, 1)", ErrSampling, s.MinP)
	case slices.Contains(s.StopStrings, ""):
		return fmt.Errorf("vlm: %w: stop string %d is empty", ErrSampling, slices.Index(s.StopStrings, ""))
	}
	return CheckThinking(s.Thinking)
}

// promptTurn is the part of a conversation that a prompt adds.
type promptTurn struct {
	Turn    *Turn
	context []int32
	images  []policy.Image
	Opened  string // the response's text that the chat template wrote
	err     error  // why this conversation cannot continue
}

// ReadPrompts converts the prompts' messages to tokens and processed images.
func (g *Generator) ReadPrompts(prompts []policy.Prompt, s policy.Sampling) ([]promptTurn, error) {
	turns := make([]promptTurn, len(prompts))
	groups := make([][]image.Image, len(prompts))
	seen := map[uint64]int{}
	opens := false // a conversation
	for i, p := range prompts {
		if j, ok := seen[p.Conversation]; ok {
			return nil, fmt.Errorf("vlm: prompts %d and %d continue the same conversation, %d", j, i, p.Conversation)
		}
		seen[p.Conversation] = i
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
		if errs[i] != nil {
			turns[i].err = errs[i]
			continue
		}
		limit := p.MaxTokens
		if limit == 0 {
			limit = s.MaxTokens
		}
		if limit < 1 {
			return nil, fmt.Errorf("vlm: prompt %d: the response may have %d tokens, must be at least 1", i, limit)
		}
		if c, ok := g.Chats[p.Conversation]; ok && c.dead != nil {
			turns[i].err = fmt.Errorf("vlm: conversation %d has ended: %w", p.Conversation, c.dead)
			continue
		}
		ids, err := g.EncodePrompt(p, pics[i])
		if err != nil {
			turns[i].err = fmt.Errorf("vlm: %w", err)
			continue
		}
		opened := g.Chat.Opened()
		if r := g.Resumed[p.Conversation]; r != nil && len(p.Messages) == 0 && !g.Chat.Begins(g.Tok, r.tokens) {
			opened = "" // the recorded tokens end inside the response
		}
		think, err := NewThinkingLimiter(g.Tok, s.Thinking, opened)
		if err != nil {
			return nil, err
		}
		r := &Turn{Tokens: ids, Images: pics[i], seed: p.Seed, Max: limit,
			stop: NewStopDetector(g.Tok, slices.Concat(s.StopStrings, p.StopStrings)), Think: think,
			Shared: net.ContextKey(ids, refs[i])}
		turns[i] = promptTurn{Turn: r, context: ids, images: refs[i], Opened: opened}
		g.Resumed[p.Conversation].prepend(&turns[i])
		length := len(r.Tokens)
		if c, ok := g.Chats[p.Conversation]; ok {
			length += c.Batch.Rows[c.Row].Length
		}
		if most := g.Cfg.Text.MaxPositions; most > 0 && limit > most-length {
			turns[i].err = fmt.Errorf("vlm: %w: %d tokens and %d of the response, the model allows %d", policy.ErrNoRoom, length,
				limit, most)
		}
	}
	return turns, nil
}

// EncodePrompt renders and tokenises a prompt's messages.
func (g *Generator) EncodePrompt(p policy.Prompt, pics []net.Picture) ([]int32, error) {
	msgs := make([]tokenizer.Message, len(p.Messages))
	for i, msg := range p.Messages {
		var err error
		if msgs[i], err = tokenizer.Marked(string(msg.Role), msg.Text, ImageMark, len(msg.Images)); err != nil {
			return nil, err
		}
	}
	var text string
	var err error
	c, r := g.Chats[p.Conversation], g.Resumed[p.Conversation]
	switch {
	case c != nil:
		text, err = g.Chat.Continue(msgs, tokenizer.Ending(c.ended))
	case r != nil && len(msgs) == 0 && r.ended:
		return nil, fmt.Errorf("%w: the recorded tokens end with a complete response, and the prompt has no messages",
			ErrResume)
	case r != nil && len(msgs) == 0:
		return nil, nil // the response follows the recorded tokens
	case r != nil:
		text, err = g.Chat.Continue(msgs, tokenizer.Ending(r.ended))
	default:
		text, err = g.Chat.Open(msgs)
	}
	if err != nil {
		return nil, err
	}
	ids, err := g.Tok.Encode(text)
	if err != nil {
		return nil, err
	}
	counts := make([]int, len(pics))
	for i, pic := range pics {
		counts[i] = pic.Grid.Tokens(g.Cfg.Vision.Merge)
	}
	if len(counts) == 0 {
		return ids, nil
	}
	return g.Tok.ExpandImages(nil, ids, counts)
}

// ImageMark marks the position of an image in a message's text.
const ImageMark = dialogue.ImageMark

// Completion converts a reply to a completion.
func (g *Generator) Completion(p policy.Prompt, t promptTurn, r *Reply) policy.Completion {
	c := g.Chats[p.Conversation]
	delete(g.Resumed, p.Conversation)
	if c.dead = r.err; r.err != nil {
		return policy.Completion{Err: r.err}
	}
	_, end := g.Chat.EndOfTurn()
	last := r.Tokens[len(r.Tokens)-1]
	c.ended = r.Stopped && last == end
	out := policy.Completion{Context: t.context, Tokens: r.Tokens, LogProbs: r.LogProbs, Forced: r.forced,
		Images: t.images, Stop: policy.StopLength}
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
