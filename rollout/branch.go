package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"vagen/env"
	"vagen/internal/rng"
	"vagen/mask"
	"vagen/policy"
)

// Branch is a recorded episode that is continued from one of its turns.
//
// What the policy has read and written before the turn are the recorded tokens and images.
// The limits are those of the player and of From's Episode, counted from the episode's
// start, so that the continuation has the turns and tokens that the episode had left.
// Package store does not keep MaxTokens and MaxObservation: the caller sets them again.
type Branch struct {
	From *Trajectory // must have the tokens of its conversations
	Turn int         // first turn to be played, counted from 0; one that From has

	// State is the environment's snapshot before the turn, see Player.Snapshots. With nil
	// the environment is reset to the episode's seed and gets the recorded responses. It
	// must show the recorded observations; otherwise the End is EndReplay.
	State []byte
	// Reseed restarts the environment's own randomness before the turn from a seed that
	// depends on Group, Index and Turn. An environment that is not an env.Reseeder draws
	// nothing after its Reset. Without Reseed the draws are the recorded ones.
	Reseed bool

	// Response is given as the turn's response: its Tokens, Text, LogProbs, Forced and
	// Stop are recorded as if the policy had written it now. nil LogProbs are recorded as
	// zeros, and all tokens as forced. With a nil Response the policy draws one.
	Response *policy.Completion

	// Group and Index identify the continuation: all sampling depends on them, on the
	// seed of Continue and on the number of the response in the episode only. Branches
	// with equal Group and Index share their random numbers turn by turn.
	Group, Index int
}

// Sentinels of Continue and Snapshots.
var (
	// ErrBranch means that a recorded episode cannot be continued as the Branch says.
	ErrBranch = errors.New("episode cannot be continued")
	// ErrReplay means that a repeated episode differs from the recorded one.
	ErrReplay = errors.New("replay differs from the recorded episode")
)

// Continue continues recorded episodes, each from the turn of its Branch, and returns one
// trajectory for each, in order: the recorded turns before the branch point and those that
// were played now. The trajectories have the branch's Group and Index.
//
// The player must have the harness and the limits that the episodes were recorded with;
// an episode whose next request differs ends with EndReplay, as one whose replay differs
// does. Errors are as in Play. It is also an error if the policy is not a policy.Resumer, if a
// Branch has no tokens or no such turn, and if EpisodeMean is set and a Branch has a State:
// the recorded rewards are averages then, and only a replay has those of the turns.
func (p *Player) Continue(ctx context.Context, branches []Branch, seed uint64) ([]*Trajectory, Timing, error) {
	if err := p.check(); err != nil {
		return nil, Timing{}, err
	}
	if _, ok := policy.As[policy.Resumer](p.Policy); !ok {
		return nil, Timing{}, fmt.Errorf(
			"rollout: continue: %w: the policy is a %T, which cannot resume recorded conversations", ErrBranch, p.Policy)
	}
	lives := make([]*live, len(branches))
	for i, b := range branches {
		from, err := p.branch(b)
		if err != nil {
			return nil, Timing{}, fmt.Errorf("rollout: continue: branch %d: %w", i, err)
		}
		lives[i] = &live{Trajectory: &Trajectory{Episode: from.episode}, batch: seed, from: from}
	}
	return p.play(ctx, lives)
}

// branch is a Branch with what is derived from it.
type branch struct {
	Branch
	episode   Episode
	rows      []Row          // before the turn's context
	responses int            // responses of the turn's conversation before the turn
	tokens    []int32        // of the conversation, up to the turn's response
	read      int            // how many of tokens are the turn's context
	images    []policy.Image // of tokens
	seen      int            // how many of images are before the turn's context
	total     int            // responses of the episode before the turn, with summaries

	averaged bool // the player averages rewards over the episode

	// before each turn of a replay
	visit func(ctx context.Context, l *live, turn int) error
}

// branch checks a Branch and finds its place in the recorded tokens.
func (p *Player) branch(b Branch) (*branch, error) {
	t := b.From
	switch {
	case t == nil:
		return nil, fmt.Errorf("%w: From is nil", ErrBranch)
	case b.Turn < 0 || b.Turn >= len(t.Turns):
		return nil, fmt.Errorf("%w: Turn is %d, the episode has %d turns", ErrBranch, b.Turn, len(t.Turns))
	case b.Response != nil && len(b.Response.Tokens) == 0:
		return nil, fmt.Errorf("%w: Response has no tokens", ErrBranch)
	case b.State != nil && len(p.EpisodeMean) > 0:
		return nil, fmt.Errorf("%w: State is set, but the player averages the reward parts %q; set State to nil", ErrBranch,
			p.EpisodeMean)
	}
	f := &branch{Branch: b, episode: t.Episode, averaged: len(p.EpisodeMean) > 0}
	f.episode.Group, f.episode.Index = b.Group, b.Index
	if f.episode.MaxTurns == 0 {
		f.episode.MaxTurns = p.MaxTurns
	}
	if f.episode.MaxTurns <= b.Turn {
		return nil, fmt.Errorf("%w: Turn is %d, MaxTurns of the episode is %d", ErrBranch, b.Turn, f.episode.MaxTurns)
	}
	if err := checkEpisodes([]Episode{f.episode}); err != nil {
		return nil, err
	}
	return f, f.find()
}

// find sets the fields that are derived from the recorded conversations.
func (f *branch) find() error {
	t, n := f.From, f.From.Turns[f.Turn].Row
	if n < 0 || n >= len(t.Rows) {
		return fmt.Errorf("%w: turn %d is in conversation %d, the episode has %d", ErrBranch, f.Turn, n, len(t.Rows))
	}
	row := &t.Rows[n]
	for _, turn := range t.Turns[:f.Turn] {
		if turn.Row == n {
			f.responses++
		}
	}
	start, _, ok := row.TurnAt(f.responses)
	if !ok || len(row.LogProbs) != row.Len() {
		return fmt.Errorf("%w: turn %d has no recorded tokens", ErrBranch, f.Turn)
	}
	f.tokens, f.read, f.total = row.Tokens()[:start], start, f.responses
	for i := range t.Rows[:n] {
		f.rows = append(f.rows, t.Rows[i].upTo(t.Rows[i].Turns(), len(t.Rows[i].Images)))
		f.total += t.Rows[i].Turns()
	}
	// Only the first turn of a conversation shows more images than its observation.
	shown := len(row.Images)
	for _, turn := range t.Turns[f.Turn+1:] {
		if turn.Row == n {
			shown -= len(turn.Observation.Images)
		}
	}
	if f.responses > 0 {
		f.seen = shown - len(t.Turns[f.Turn].Observation.Images)
	}
	if f.seen < 0 || shown < f.seen {
		return fmt.Errorf("%w: conversation %d has %d images, fewer than its turns show", ErrBranch, n, len(row.Images))
	}
	f.images = row.Images[:shown:shown]
	for i, im := range f.images {
		if im.Image == nil || im.Image.Bounds().Empty() {
			return fmt.Errorf("%w: image %d of conversation %d was not stored", ErrBranch, i, n)
		}
	}
	if f.responses > 0 {
		_, end, _ := row.TurnAt(f.responses - 1)
		f.read -= end
		f.rows = append(f.rows, row.upTo(f.responses, f.seen))
	}
	return nil
}

// upTo returns a copy of a row up to a number of responses.
func (r *Row) upTo(responses, images int) Row {
	_, end, _ := r.TurnAt(responses - 1)
	c := Row{Sequence: *r.Clone(), LogProbs: slices.Clone(r.LogProbs[:min(end, len(r.LogProbs))]),
		Images: slices.Clip(r.Images[:images])}
	c.Truncate(end)
	if c.EndsWithSummary() {
		c.Summary = r.Summary
	}
	return c
}

// before returns the conversation up to the response before the turn.
func (f *branch) before() policy.Recorded {
	return policy.Recorded{Tokens: f.tokens[:len(f.tokens)-f.read], Images: f.images[:f.seen]}
}

// context returns what the policy read for the turn.
func (f *branch) context() ([]int32, []policy.Image) {
	return f.tokens[len(f.tokens)-f.read:], f.images[f.seen:]
}

// given returns the response of the turn.
func (f *branch) given() policy.Completion {
	c := *f.Response
	c.Err = nil
	if c.LogProbs == nil {
		c.LogProbs, c.Forced = make([]float32, len(c.Tokens)), make([]int, len(c.Tokens))
		for i := range c.Forced {
			c.Forced[i] = i
		}
	}
	return c
}

// resume makes the policy continue a recorded conversation under the episode's key. It
// does nothing without tokens: the conversation has not been opened then.
func (p *Player) resume(l *live, c policy.Recorded) error {
	if len(c.Tokens) == 0 {
		return nil
	}
	c.Conversation = l.key
	resumer, _ := policy.As[policy.Resumer](p.Policy) // Continue has checked it
	if err := resumer.Resume(c); err != nil {
		return fmt.Errorf("rollout: turn %d: %w", len(l.Turns), err)
	}
	return nil
}

// rejoin compares the harness's request for the turn with the recorded one, and returns
// the prompt for the response to the recorded tokens. With a given response the prompt is
// not used: the policy reads the response with the next one.
func (p *Player) rejoin(l *live) (policy.Prompt, bool) {
	f, a := l.from, l.request
	images := 0
	for _, m := range a.Messages {
		images += len(m.Images)
	}
	limit := a.MaxTokens
	if limit == 0 {
		limit = p.Sampling.MaxTokens
	}
	var err error
	switch {
	case a.Summary:
		err = errors.New("the harness asks for a summary")
	case a.Open != (f.responses == 0):
		err = fmt.Errorf("the harness opens a conversation: %t, the recorded one: %t", a.Open, f.responses == 0)
	case images != len(f.images)-f.seen:
		err = fmt.Errorf("the harness shows %d images, the recorded one %d", images, len(f.images)-f.seen)
	case f.Response != nil && limit > 0 && len(f.Response.Tokens) > limit:
		err = fmt.Errorf("the given response has %d tokens, at most %d are allowed", len(f.Response.Tokens), limit)
	}
	if err != nil {
		l.failHarness(fmt.Errorf("%w: %w", ErrReplay, err))
		return policy.Prompt{}, false
	}
	c := policy.Recorded{Tokens: f.tokens, Images: f.images}
	if f.Response != nil {
		c.Tokens = slices.Concat(f.tokens, f.Response.Tokens)
	}
	if err := p.resume(l, c); err != nil {
		l.fail(EndPolicy, err)
		return policy.Prompt{}, false
	}
	prompt := l.prompt(a)
	prompt.Conversation, prompt.Messages = l.key, nil
	return prompt, true
}

// join sets the state of an episode whose environment is at the branch point.
func (l *live) join() {
	f := l.from
	turn := &f.From.Turns[f.Turn]
	repeated := l.Turns
	l.Turns, l.Rows = slices.Clone(f.From.Turns[:f.Turn]), slices.Clone(f.rows)
	for k := range repeated {
		if f.averaged { // the recorded rewards are averages
			l.Turns[k].Reward = repeated[k].Reward
		}
	}
	l.observation, l.cut, l.unchecked, l.total, l.resumes = turn.Observation, turn.Cut, false, f.total, true
	if n := len(l.Rows); n > 0 {
		row := &l.Rows[n-1]
		l.closed = row.EndsWithSummary()
		l.row = n - 1
		l.responses, l.opening, l.spent, l.growth = row.lengths()
	}
}

// lengths returns the number of responses of a row, and the lengths that State has of a
// conversation.
func (r *Row) lengths() (responses, opening, spent, growth int) {
	end := 0
	for start, next, ok := r.TurnAt(0); ok; start, next, ok = r.TurnAt(responses) {
		if responses == 0 {
			opening, spent = start, next-start
		} else {
			growth = next - end
			spent += growth
		}
		responses, end = responses+1, next
	}
	return responses, opening, spent, growth
}

// Recorded returns the response of a turn as it was recorded, for Branch.Response.
func (t *Trajectory) Recorded(turn int) (*policy.Completion, error) {
	t = cmp.Or(t, new(Trajectory))
	f := branch{Branch: Branch{From: t, Turn: turn}}
	if turn < 0 || turn >= len(t.Turns) {
		return nil, fmt.Errorf("rollout: %w: there is no turn %d, the episode has %d", ErrBranch, turn, len(t.Turns))
	}
	if err := f.find(); err != nil {
		return nil, fmt.Errorf("rollout: %w", err)
	}
	row := &t.Rows[t.Turns[turn].Row]
	start, end, _ := row.TurnAt(f.responses)
	c := &policy.Completion{Tokens: slices.Clone(row.Tokens()[start:end]), LogProbs: slices.Clone(row.LogProbs[start:end]),
		Text: t.Turns[turn].Response, Stop: t.Turns[turn].Stop, Version: t.Turns[turn].Version}
	for i, forced := range row.Span(nil, mask.Forced)[start:end] {
		if forced {
			c.Forced = append(c.Forced, i)
		}
	}
	return c, nil
}

// reseed restarts the environment's randomness, if the branch says so.
func (p *Player) reseed(ctx context.Context, l *live) error {
	if !l.from.Reseed {
		return nil
	}
	seed := rng.Derive(l.seed, rng.World, uint64(l.from.Turn))
	_, err := callEnv(ctx, p, l, "reseed", func(_ context.Context, e env.Env) (struct{}, error) {
		if r, ok := e.(env.Reseeder); ok {
			return struct{}{}, r.Reseed(seed)
		}
		return struct{}{}, nil
	})
	return err
}
