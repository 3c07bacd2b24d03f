package vlm

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"slices"

	"vagen/internal/dialogue"
	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/tokenizer"
)

// conversation is the policy's state for a prompt's key.
type conversation struct {
	batch *session
	row   int
	ended bool  // the last response ended with the end-of-turn token
	dead  error // why the conversation cannot be continued
}

// Generate implements policy.Policy. Conversations opened by one call advance in lockstep
// and share a cache; continuing them together is fastest. Ended rows cost little: when
// most have ended, the others move to a smaller batch, and conversations for which the
// first batch had no room take the free rows.
//
// If the call fails or ctx ends after generation has started, all conversations of its
// prompts end, because some may have got a response and others not. Other conversations
// are unchanged, unless the device failed on a cache that they share.
func (m *Model) Generate(ctx context.Context, prompts []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	return m.Stream(ctx, prompts, s, nil)
}

// Stream is Generate that calls watch with each sampled token and the index of its prompt.
// The order of the calls is the same in every run. watch must be quick, because the device
// waits for it, and must not call the Model. The tokenizer's NewDecoder converts tokens to
// text one by one.
func (m *Model) Stream(ctx context.Context, prompts []policy.Prompt, s policy.Sampling, watch func(prompt int, token int32)) ([]policy.Completion, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if err := checkSampling(s); err != nil {
		return nil, err
	}
	turns, err := m.readPrompts(prompts, s)
	if err != nil {
		return nil, err
	}
	if err := m.assignRows(prompts, turns); err != nil {
		m.endConversations(prompts)
		return nil, err
	}
	out := make([]policy.Completion, len(prompts))
	for i := range out {
		out[i].Err = turns[i].err
	}
	if err := m.generateTurns(ctx, prompts, turns, s, watch, out); err != nil {
		m.endConversations(prompts)
		return nil, err
	}
	return out, nil
}

// generateTurns generates the responses of all turns without an error.
func (m *Model) generateTurns(ctx context.Context, prompts []policy.Prompt, turns []promptTurn, s policy.Sampling, watch func(int, int32), out []policy.Completion) error {
	var calls []*call // one for each leaf with requests
	sequences := make([]*sequence, len(prompts))
	defer func() {
		for _, c := range calls {
			c.free()
		}
	}()
	for _, batch := range m.batches {
		c, err := m.callOf(&calls, batch.leaf, s)
		if err != nil {
			return err
		}
		f := c.newDecodeBatch(batch)
		for i, p := range prompts {
			if c := m.chats[p.Conversation]; turns[i].err == nil && c.batch == batch {
				r := turns[i].request
				r.row = c.row
				if watch != nil {
					r.watch = func(token int32) { watch(i, token) }
				}
				sequences[i] = f.assign(r)
			}
		}
		if len(f.unfinished()) > 0 {
			c.waiting = append(c.waiting, f)
		}
	}
	if err := m.runCalls(ctx, calls, watch != nil); err != nil {
		if ended := ctx.Err(); ended == nil || !errors.Is(err, ended) { // the device failed: caches may be partly written
			for _, c := range calls {
				for _, f := range c.waiting {
					m.dropSession(f.session)
				}
			}
		}
		return err
	}
	for i, p := range prompts {
		if sequences[i] != nil {
			out[i] = m.completion(p, turns[i], &sequences[i].reply)
		}
	}
	return nil
}

// callOf returns the call of a leaf, which it adds to calls if it is new.
func (m *Model) callOf(calls *[]*call, leaf int, s policy.Sampling) (*call, error) {
	for _, c := range *calls {
		if c.leaf == leaf {
			return c, nil
		}
	}
	r := m.replicaOf(leaf)
	weights, err := m.generationWeights(r)
	if err != nil {
		return nil, err
	}
	c, err := newCall(r.net, weights, s, m.cfg.EndOfTurn, &m.opts)
	if err != nil {
		return nil, err
	}
	c.leaf = leaf
	*calls = append(*calls, c)
	return c, nil
}

// runCalls runs the calls of each device in the order of their leaves. Devices run at the
// same time, unless tokens are watched, which must come in the same order in every run.
func (m *Model) runCalls(ctx context.Context, calls []*call, watched bool) error {
	slices.SortFunc(calls, func(a, b *call) int { return cmp.Compare(a.leaf, b.leaf) })
	run := func(d *device.Device) error {
		for _, c := range calls {
			if c.net.dev != d {
				continue
			}
			if err := c.run(ctx, c.waiting); err != nil {
				return err
			}
		}
		return nil
	}
	if watched {
		for _, d := range m.devices {
			if err := run(d); err != nil {
				return err
			}
		}
		return nil
	}
	return each(len(m.devices), func(i int) error { return run(m.devices[i]) })
}

// ErrSampling is wrapped by errors about sampling settings.
var ErrSampling = errors.New("bad sampling")

func checkSampling(s policy.Sampling) error {
	switch {
	case s.Temperature != 0 && checkTemperature(s.Temperature) != nil:
		return fmt.Errorf("vlm: %w: %w, or 0 for the most likely token", ErrSampling, checkTemperature(s.Temperature))
	case s.TopK < 0:
		return fmt.Errorf("vlm: %w: top-k is %d, must not be negative", ErrSampling, s.TopK)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return fmt.Errorf("vlm: %w: top-p is %v, must be in [0, 1]", ErrSampling, s.TopP)
	case !(s.MinP >= 0 && s.MinP < 1):
		return fmt.Errorf("vlm: %w: min-p is %v, must be in [0, 1)", ErrSampling, s.MinP)
	case slices.Contains(s.StopStrings, ""):
		return fmt.Errorf("vlm: %w: stop string %d is empty", ErrSampling, slices.Index(s.StopStrings, ""))
	}
	return checkThinking(s.Thinking)
}

// promptTurn is the part of a conversation that a prompt adds.
type promptTurn struct {
	request *request
	context []int32
	images  []policy.Image
	opened  string // the response's text that the chat template wrote
	err     error  // why this conversation cannot continue
}

// readPrompts converts the prompts' messages to tokens and processed images.
func (m *Model) readPrompts(prompts []policy.Prompt, s policy.Sampling) ([]promptTurn, error) {
	turns := make([]promptTurn, len(prompts))
	groups := make([][]image.Image, len(prompts))
	seen := map[uint64]int{}
	opens := false // a conversation
	for i, p := range prompts {
		if j, ok := seen[p.Conversation]; ok {
			return nil, fmt.Errorf("vlm: prompts %d and %d continue the same conversation, %d", j, i, p.Conversation)
		}
		seen[p.Conversation] = i
		if _, goesOn := m.chats[p.Conversation]; !goesOn {
			opens = true
		}
		for _, msg := range p.Messages {
			groups[i] = append(groups[i], msg.Images...)
		}
	}
	if opens {
		m.pictures.startRound()
	}
	refs, pics, errs := m.prepareImages(groups)
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
		if c, ok := m.chats[p.Conversation]; ok && c.dead != nil {
			turns[i].err = fmt.Errorf("vlm: conversation %d has ended: %w", p.Conversation, c.dead)
			continue
		}
		ids, err := m.encode(p, pics[i])
		if err != nil {
			turns[i].err = fmt.Errorf("vlm: %w", err)
			continue
		}
		opened := m.chat.Opened()
		if r := m.resumed[p.Conversation]; r != nil && len(p.Messages) == 0 && !m.chat.Begins(m.tok, r.tokens) {
			opened = "" // the recorded tokens end inside the response
		}
		think, err := newThinkingLimiter(m.tok, s.Thinking, opened)
		if err != nil {
			return nil, err
		}
		r := &request{tokens: ids, images: pics[i], seed: p.Seed, max: limit, stop: newStopDetector(m.tok, slices.Concat(s.StopStrings, p.StopStrings)), think: think,
			shared: contextKey(ids, refs[i])}
		turns[i] = promptTurn{request: r, context: ids, images: refs[i], opened: opened}
		m.resumed[p.Conversation].prepend(&turns[i])
		length := len(r.tokens)
		if c, ok := m.chats[p.Conversation]; ok {
			length += c.batch.rows[c.row].length
		}
		if most := m.cfg.Text.MaxPositions; most > 0 && limit > most-length {
			turns[i].err = fmt.Errorf("vlm: %w: %d tokens and %d of the response, the model allows %d", policy.ErrNoRoom, length, limit, most)
		}
	}
	return turns, nil
}

// contextKey is equal for contexts of the same tokens and images.
func contextKey(ids []int32, images []policy.Image) string {
	key := make([]byte, 0, 4*len(ids)+32*len(images))
	for _, id := range ids {
		key = binary.LittleEndian.AppendUint32(key, uint32(id))
	}
	for _, im := range images {
		key = append(key, im.Hash[:]...)
	}
	return string(key)
}

// encode renders and tokenises a prompt's messages.
func (m *Model) encode(p policy.Prompt, pics []picture) ([]int32, error) {
	msgs := make([]tokenizer.Message, len(p.Messages))
	for i, msg := range p.Messages {
		var err error
		if msgs[i], err = tokenizer.Marked(string(msg.Role), msg.Text, imageMark, len(msg.Images)); err != nil {
			return nil, err
		}
	}
	var text string
	var err error
	c, r := m.chats[p.Conversation], m.resumed[p.Conversation]
	switch {
	case c != nil:
		text, err = m.chat.Continue(msgs, tokenizer.Ending(c.ended))
	case r != nil && len(msgs) == 0 && r.ended:
		return nil, fmt.Errorf("%w: the recorded tokens end with a complete response, and the prompt has no messages", ErrResume)
	case r != nil && len(msgs) == 0:
		return nil, nil // the response follows the recorded tokens
	case r != nil:
		text, err = m.chat.Continue(msgs, tokenizer.Ending(r.ended))
	default:
		text, err = m.chat.Open(msgs)
	}
	if err != nil {
		return nil, err
	}
	ids, err := m.tok.Encode(text)
	if err != nil {
		return nil, err
	}
	counts := make([]int, len(pics))
	for i, pic := range pics {
		counts[i] = pic.grid.tokens(m.cfg.Vision.Merge)
	}
	if len(counts) == 0 {
		return ids, nil
	}
	return m.tok.ExpandImages(nil, ids, counts)
}

// imageMark marks the position of an image in a message's text.
const imageMark = dialogue.ImageMark

// completion converts a reply to a completion.
func (m *Model) completion(p policy.Prompt, t promptTurn, r *reply) policy.Completion {
	c := m.chats[p.Conversation]
	delete(m.resumed, p.Conversation)
	if c.dead = r.err; r.err != nil {
		return policy.Completion{Err: r.err}
	}
	_, end := m.chat.EndOfTurn()
	last := r.tokens[len(r.tokens)-1]
	c.ended = r.stopped && last == end
	out := policy.Completion{Context: t.context, Tokens: r.tokens, LogProbs: r.logProbs, Forced: r.forced, Images: t.images, Stop: policy.StopLength}
	words := r.tokens
	switch {
	case r.stopped:
		out.Stop, words = policy.StopEnd, words[:len(words)-1]
	case r.stoppedByString:
		out.Stop = policy.StopString
	}
	out.Text = t.opened + m.tok.Decode(words, tokenizer.KeepSpecial)
	return out
}
