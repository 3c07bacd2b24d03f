package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"vagen/internal/dialogue"
	"vagen/internal/unmade"
	"vagen/policy"
	"vagen/policy/vlm/tokenizer"
)

// Policy generates responses on a Fleet. Several policies may share a fleet; each has its
// own conversations. It is safe for concurrent use.
type Policy struct {
	fleet *Fleet
	codec *Codec

	mu    sync.Mutex
	chats map[uint64]*conversation
}

var (
	_ policy.Policy       = (*Policy)(nil)
	_ policy.Counter      = (*Policy)(nil)
	_ policy.Aligner      = (*Policy)(nil)
	_ policy.Resumer      = (*Policy)(nil)
	_ policy.ToolPrompter = (*Policy)(nil)
)

// conversation is the policy's state for a prompt's key.
type conversation struct {
	tokens   []int32 // read and written so far, with all placeholders
	pictures []picture
	ended    bool    // the last token is the end-of-turn token
	resumed  bool    // recorded tokens, for which nothing has been generated
	server   *server // that has the tokens in its prefix cache; nil for none
	dead     error   // why the conversation cannot be continued
}

var errPolicy = unmade.Error("engine.Policy", "NewPolicy of an open Fleet")

// NewPolicy returns a policy without conversations.
func NewPolicy(f *Fleet) *Policy {
	if f == nil || f.ctx == nil {
		return &Policy{} // whose methods return errPolicy
	}
	return &Policy{fleet: f, codec: f.codec, chats: map[uint64]*conversation{}}
}

// Generate implements policy.Policy. The prompts are sent concurrently. Turns of a
// conversation go to the same server as long as it is healthy and has room, because it has
// the earlier turns in its prefix cache.
//
// With TopK, TopP or MinP log-probs are those of the limited distribution, which servers
// report, not of the plain softmax. Thinking limits are refused. A stop string cuts the
// response off after it was generated.
//
// If the call fails, all conversations of its prompts end.
func (p *Policy) Generate(
	ctx context.Context, prompts []policy.Prompt, s policy.Sampling,
) ([]policy.Completion, error) {
	if p.fleet == nil {
		return nil, errPolicy
	}
	if err := checkSampling(s); err != nil {
		return nil, err
	}
	turns, err := p.read(prompts, s)
	if err != nil {
		return nil, err
	}
	if err := p.fleet.enter(ctx); err != nil {
		p.Forget(keys(prompts)...)
		return nil, err
	}
	defer p.fleet.change(func() { p.fleet.users-- })
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, t := range turns {
		if t.err == nil {
			wg.Go(func() {
				if t.err = p.answer(ctx, t, s); t.err != nil && fatal(t.err) {
					cancel(t.err)
				}
			})
		}
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		p.Forget(keys(prompts)...)
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]policy.Completion, len(prompts))
	for i, t := range turns {
		out[i] = p.complete(t, s)
	}
	return out, nil
}

func keys(prompts []policy.Prompt) []uint64 {
	out := make([]uint64, len(prompts))
	for i, q := range prompts {
		out[i] = q.Conversation
	}
	return out
}

func checkSampling(s policy.Sampling) error {
	if err := s.Check(); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if n := s.Thinking.Tokens; n != 0 {
		return fmt.Errorf("engine: %w: Thinking.Tokens is %d, but servers cannot insert tokens into a response",
			policy.ErrSampling, n)
	}
	return nil
}

// turn is one response of a conversation.
type turn struct {
	prompt   policy.Prompt
	chat     *conversation // nil if it opens with this turn
	context  []int32       // tokens since the last response
	pictures []picture     // of context
	opened   string        // the response's text that the chat template wrote
	max      int
	err      error // why this conversation cannot continue

	response *response
	server   *server
}

// all returns the tokens and images that the response follows.
func (t *turn) all() ([]int32, []picture) {
	if t.chat == nil {
		return t.context, t.pictures
	}
	return slices.Concat(t.chat.tokens, t.context), slices.Concat(t.chat.pictures, t.pictures)
}

// read converts the prompts' messages to tokens and images, on all processors.
func (p *Policy) read(prompts []policy.Prompt, s policy.Sampling) ([]*turn, error) {
	limits, err := s.Limits(prompts)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	turns := make([]*turn, len(prompts))
	p.mu.Lock()
	for i, q := range prompts {
		turns[i] = &turn{prompt: q, chat: p.chats[q.Conversation], max: limits[i]}
	}
	p.mu.Unlock()
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, t := range turns {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if t.pictures, t.err = p.codec.pictures(t.prompt.Messages); t.err == nil {
				t.context, t.opened, t.err = p.encode(t.prompt, t.chat, t.pictures)
			}
			if t.err == nil {
				t.err = p.room(t)
			}
		})
	}
	wg.Wait()
	return turns, nil
}

// encode returns the tokens of a prompt's messages, and the response's text that the chat template
// wrote.
func (p *Policy) encode(q policy.Prompt, c *conversation, pics []picture) (ids []int32, opened string, err error) {
	var past *dialogue.Past
	if c != nil {
		if c.dead != nil {
			return nil, "", fmt.Errorf("engine: conversation %d has ended: %w", q.Conversation, c.dead)
		}
		if past = (&dialogue.Past{Ended: c.ended}); c.resumed {
			past.Recorded = c.tokens
		}
	}
	if ids, opened, err = p.codec.text.Prompt(past, q.Messages, counts(pics)); err != nil {
		return nil, "", fmt.Errorf("engine: %w", err)
	}
	return ids, opened, nil
}

// room checks the length of a turn against the context of model and servers.
func (p *Policy) room(t *turn) error {
	length := len(t.context)
	if t.chat != nil {
		length += len(t.chat.tokens)
	}
	for _, most := range []int{p.codec.positions, p.fleet.length} {
		if most > 0 && t.max > most-length {
			return fmt.Errorf("engine: %w: %d tokens and %d of the response, model and servers allow %d", policy.ErrNoRoom,
				length, t.max, most)
		}
	}
	return nil
}

// answer requests the response of a turn.
func (p *Policy) answer(ctx context.Context, t *turn, s policy.Sampling) error {
	tokens, pics := t.all()
	r, err := p.fleet.request(tokens, pics)
	if err != nil {
		return fmt.Errorf("engine: conversation %d: %w: %w", t.prompt.Conversation, policy.ErrMessages, err)
	}
	r.seed, r.max, r.Sampling = t.prompt.Seed, t.max, s
	var preferred *server
	if t.chat != nil {
		preferred = t.chat.server
	}
	t.response, t.server, err = p.fleet.send(ctx, r, preferred, t.prompt.Conversation)
	return err
}

// complete stores a turn in its conversation and converts it to a completion. The mutex must
// be held.
func (p *Policy) complete(t *turn, s policy.Sampling) policy.Completion {
	if t.err != nil {
		if t.response == nil && t.chat != nil && t.chat.dead == nil && !errors.Is(t.err, policy.ErrNoRoom) {
			t.chat.dead = t.err
		}
		return policy.Completion{Err: t.err}
	}
	tokens, logProbs := t.response.tokens, t.response.logProbs
	stop, words := policy.StopLength, tokens
	last := len(tokens) - 1
	switch {
	case p.codec.vision(tokens[last]):
		stop = policy.StopVision
	case slices.Contains(p.codec.text.End, tokens[last]):
		stop, words = policy.StopEnd, tokens[:last]
	}
	if n := p.codec.cut(words, slices.Concat(s.StopStrings, t.prompt.StopStrings)); n > 0 {
		stop, tokens, logProbs, words = policy.StopString, tokens[:n], logProbs[:n], words[:n]
	}
	all, pics := t.all()
	c := &conversation{tokens: append(all[:len(all):len(all)], tokens...), pictures: pics, server: t.server}
	if c.ended = stop == policy.StopEnd && p.codec.ends(tokens[last]); stop == policy.StopVision {
		c.dead = errVision
	}
	p.chats[t.prompt.Conversation] = c
	out := policy.Completion{Context: t.context, Tokens: tokens, LogProbs: logProbs, Stop: stop}
	out.Text = t.opened + p.codec.text.Tok.Decode(words, tokenizer.KeepSpecial)
	if v := p.fleet.current; v != nil {
		out.Version = v.Step
	}
	for _, pic := range t.pictures {
		out.Images = append(out.Images, pic.ref)
	}
	return out
}

// errVision is why a conversation is dead whose response could not be read again.
var errVision = errors.New("its last response ends with an image placeholder for which there is no image")

// cut returns the number of tokens after which the text has one of the stop strings, 0 if
// it has none.
func (c *Codec) cut(tokens []int32, stops []string) int {
	return 1 + slices.IndexFunc(tokens, dialogue.NewStopper(c.text.Tok, stops).Add)
}

// Forget implements policy.Policy.
func (p *Policy) Forget(keys ...uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range keys {
		delete(p.chats, k)
	}
}

// Count implements policy.Counter.
func (p *Policy) Count(q policy.Prompt) (int, error) {
	if p.fleet == nil {
		return 0, errPolicy
	}
	p.mu.Lock()
	c := p.chats[q.Conversation]
	p.mu.Unlock()
	pics, err := p.codec.pictures(q.Messages)
	if err != nil {
		return 0, err
	}
	ids, _, err := p.encode(q, c, pics)
	return len(ids), err
}

// Ends implements policy.Aligner. A character of several tokens belongs to the last of them.
func (p *Policy) Ends(tokens []int32) []int {
	if p.codec == nil {
		return nil
	}
	return p.codec.Ends(tokens)
}

// ToolCalls implements policy.ToolPrompter.
func (p *Policy) ToolCalls(text, calls string) (string, error) {
	if p.codec == nil {
		return "", errPolicy
	}
	return p.codec.text.ToolCalls(text, calls)
}

// ToolSystem implements policy.ToolPrompter.
func (p *Policy) ToolSystem(text, tools string) (string, error) {
	if p.codec == nil {
		return "", errPolicy
	}
	return p.codec.text.ToolSystem(text, tools)
}

// Resume implements policy.Resumer.
func (p *Policy) Resume(conversations ...policy.Recorded) error {
	if p.fleet == nil {
		return errPolicy
	}
	fresh := make(map[uint64]*conversation, len(conversations))
	for _, r := range conversations {
		c, err := p.codec.resume(r)
		if err != nil {
			return fmt.Errorf("engine: resume: conversation %d: %w: %w", r.Conversation, policy.ErrResume, err)
		}
		fresh[r.Conversation] = c
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range fresh {
		if c, open := p.chats[key]; open && !c.resumed {
			return fmt.Errorf("engine: resume: conversation %d: %w: it is already open", key, policy.ErrResume)
		}
	}
	for key, c := range fresh {
		p.chats[key] = c
	}
	return nil
}

// resume checks a recorded conversation and encodes its images.
func (c *Codec) resume(r policy.Recorded) (*conversation, error) {
	if len(r.Tokens) == 0 {
		return nil, errors.New("it has no tokens")
	}
	if err := c.text.CheckTokens(r.Tokens); err != nil {
		return nil, err
	}
	out := &conversation{tokens: r.Tokens, resumed: true, ended: c.ends(r.Tokens[len(r.Tokens)-1])}
	for i, im := range r.Images {
		pic, err := c.picture(im)
		if err != nil {
			return nil, fmt.Errorf("image %d: %w", i, err)
		}
		out.pictures = append(out.pictures, pic)
	}
	_, _, err := c.collapse(r.Tokens, out.pictures)
	return out, err
}
