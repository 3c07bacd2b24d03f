package generate

import (
	"context"
	"fmt"
	"slices"

	"github.com/gomlx/compute/support/xslices"

	"vagen/internal/dialogue"
	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

// Turn is a request to read tokens in a conversation and write a response.
type Turn struct {
	Tokens  []int32 // what a resumed conversation has read before, and context
	Images  []net.Picture
	seed    uint64
	Max     int // longest response
	stop    *dialogue.Stopper
	Think   *ThinkingLimiter
	Shared  string            // equal for requests with the same tokens and images; "" for none
	watch   func(token int32) // called with each token of the response; may be nil
	context []int32           // tokens of the prompt
	refs    []policy.Image    // of the context
	Opened  string            // the response's text that the chat template wrote
	refused error             // why there is no response
}

// Reply is the response to a request.
type Reply struct {
	Tokens          []int32
	LogProbs        []float32
	Stopped         bool  // ended by an end-of-turn token
	stoppedByString bool  // ended by a stop string
	forced          []int // indices in tokens that were not sampled
	err             error // the model's numbers were not finite: the row cannot be used
}

// Sequence is a conversation with a request in a call.
type Sequence struct {
	*Turn
	Reply
	state *Conversation
}

// ended reports whether the response is complete.
func (p *Sequence) ended() bool {
	return p.Stopped || p.stoppedByString || p.err != nil || len(p.Reply.Tokens) >= p.Max
}

// add appends a sampled token to the response. A token whose log-prob is not finite is
// not used, because its logits were not finite (see Sampler.Sample).
func (p *Sequence) add(c *Scheduler, id int32, logProb float32) {
	if logProb-logProb != 0 {
		p.err = fmt.Errorf("vlm: generate: token %d of the response: log-prob is %v, must be finite: %w", len(p.Reply.Tokens),
			logProb, net.ErrNotFinite)
		return
	}
	p.Reply.Tokens, p.LogProbs = append(p.Reply.Tokens, id), append(p.LogProbs, logProb)
	p.state.Pending = id
	p.state.Length++
	p.stoppedByString = p.stop.Add(id)
	if p.Think.Add(id) {
		p.forced = append(p.forced, len(p.Reply.Tokens)-1)
	}
	if p.watch != nil {
		p.watch(id)
	}
	p.Stopped = slices.Contains(c.end, id)
}

// DecodeBatch is a batch of rows that decode together: either a session with rows in place, or
// a gathered batch with the unfinished rows of one or several sessions.
type DecodeBatch struct {
	scheduler *Scheduler
	*Session
	Sequences []*Sequence // by row; nil for rows without a request
	gathered  bool
	seeds     *device.Array
	mask      *device.Array // the prefix's allow on the device; nil if it has changed
	ahead     [][]sample    // by row: tokens that follow the response, see drafts; nil for none
}

// Assign assigns a request to a row. The batch must not be gathered.
func (f *DecodeBatch) Assign(row int, r *Turn) *Sequence {
	p := &Sequence{Turn: r, state: f.Rows[row]}
	f.Sequences[row] = p
	if f.scheduler.DraftTokens > 0 {
		p.state.text = append(p.state.text, r.Tokens...)
	}
	return p
}

// unfinished returns the rows whose responses are not complete.
func (f *DecodeBatch) unfinished() []int {
	var rows []int
	for row, p := range f.Sequences {
		if p != nil && !p.ended() {
			rows = append(rows, row)
		}
	}
	return rows
}

// uploadSeeds uploads the seeds of each positions of every row.
func (f *DecodeBatch) uploadSeeds(own *net.Scope, each int) *device.Array {
	var seeds []uint32
	for _, p := range f.Sequences {
		two := make([]uint32, 2)
		if p != nil {
			two[0], two[1] = uint32(p.seed), uint32(p.seed>>32)
		}
		seeds = append(seeds, slices.Repeat(two, each)...)
	}
	return net.Upload(own, seeds, len(seeds)/2, 2)
}

// readContexts appends the requests' contexts, each after its row's pending token, and samples the
// first token of every response. The batch must not be gathered.
func (f *DecodeBatch) readContexts(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	own := &net.Scope{Dev: f.Net.Dev}
	defer own.Free()
	s, p := f.Session, f.PlanContexts()
	one, err := f.readPrefix(ctx, p)
	if err != nil {
		return err
	}
	defer one.Free()
	length, err := f.longestContext()
	if err != nil {
		return err
	}
	in, err := f.contextInputs(own, p, length)
	if err != nil {
		return err
	}
	if err := s.makeRoom(one, len(p.Readers), length); err != nil {
		return err
	}
	open := s.prefix == nil
	if !open {
		cache, err := s.cacheInputs(own, s.used, s.used+s.recentUsed)
		if err != nil {
			return err
		}
		in = append(in, cache...)
	}
	out, err := f.append(own, in, open, p.vision != nil)
	if err != nil {
		return err
	}
	own.Own(out[0], out[1])
	cache := out[2:]
	if p.SharesContexts() {
		if cache, err = f.copyShared(cache, p); err != nil {
			return err
		}
		if one != nil {
			s.widen(one)
		}
	}
	s.setPrefix(cache, open, length, p.freshRows(length))
	for row, seq := range f.Sequences {
		if seq != nil {
			seq.state.advance(seq.Turn, p.next[p.Index[row]])
		}
	}
	ids, logProbs, err := readSamples(out[0], out[1])
	if err != nil {
		return err
	}
	f.collect(ids, logProbs, 1)
	return s.startRecent(f.scheduler.RecentTokens)
}

// longestContext is the length of the longest context that is read, rounded.
func (f *DecodeBatch) longestContext() (int, error) {
	length := 0
	for _, p := range f.Sequences {
		if p != nil {
			length = max(length, len(p.state.unread(p.Turn.Tokens)))
		}
	}
	if length == 0 {
		return 0, fmt.Errorf("vlm: generate: a prompt has no tokens, must have at least one")
	}
	return contextLength(length), nil
}

// contextLength rounds the length of a context up, to limit the number of different sizes.
func contextLength(n int) int { return (net.Bucket(n) + 3) / 4 * 4 }

// step feeds each live row's pending token and samples the next one, several times in one
// program if the call does so and there is room for the keys and values. Then done, which
// is called between the tokens, can end the step: the tokens after it are discarded, so
// that a batch is regrouped at the same token as with one token per program.
func (f *DecodeBatch) step(ctx context.Context, done func() bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.recentUsed == f.RecentLen {
		f.dropMask()
		if err := f.flush(); err != nil {
			return err
		}
	}
	if f.ready() {
		f.addAhead(done)
		return nil
	}
	own := &net.Scope{Dev: f.Net.Dev}
	defer own.Free()
	if drafts := f.drafts(); drafts != nil {
		return f.stepDrafts(own, drafts, done)
	}
	n := f.stepTokens()
	f.scheduler.passes += len(f.unfinished())
	in, sampler, err := f.stepInputs(own)
	if err != nil {
		return err
	}
	ids, logProbs, err := f.sample(own, in, sampler, n)
	if err != nil {
		return err
	}
	for i := range n {
		if i > 0 {
			if len(f.unfinished()) == 0 || done() {
				break
			}
			f.scheduler.passes += len(f.unfinished())
			f.feed()
		}
		f.recentUsed++
		f.collect(ids[i:], logProbs[i:], n)
	}
	return nil
}

// sample is run that reads the ids and log-probs.
func (f *DecodeBatch) sample(
	own *net.Scope, in []*device.Array, s model.Sampler, n int,
) ([]int32, []float32, error) {
	out, err := f.run(own, in, s, n)
	if err != nil {
		return nil, nil, err
	}
	own.Own(out...)
	return readSamples(out[0], out[1])
}

// append runs the append program on its inputs after the weights.
func (f *DecodeBatch) append(own *net.Scope, in []*device.Array, open, images bool) ([]*device.Array, error) {
	if f.Net.appendsByLayer() {
		return f.appendByLayer(own, in, open, images)
	}
	in = append(f.Net.genArrays(f.scheduler.w), in...)
	return f.Net.appendTokens(open, images, f.Slots, f.scheduler.sampler).Run(in)
}

// run runs the program of n decoding steps on its inputs after the weights, and returns ids and log-probs. It replaces
// the cache's recent segments and states.
func (f *DecodeBatch) run(own *net.Scope, in []*device.Array, s model.Sampler, n int) ([]*device.Array, error) {
	if f.Net.byLayer() {
		return f.stepByLayer(own, in, s)
	}
	in = append(f.Net.genArrays(f.scheduler.decoding), in...)
	program := f.Net.step(s)
	if n > 1 {
		program = f.Net.steps(s, n)
	}
	donate := xslices.Iota(len(in)-2-len(f.recent), len(f.recent)) // the masks are last
	out, err := program.Run(in, donate...)
	if err != nil {
		return nil, err
	}
	f.recent = out[2:]
	return out[:2], nil
}

// stepTokens returns how many tokens the next program makes: as many as the call wants, or
// one if there is no room for them or the host may force one of them.
func (f *DecodeBatch) stepTokens() int {
	n := f.scheduler.TokensPerCall
	if n > f.RecentLen-f.recentUsed {
		return 1
	}
	for _, row := range f.unfinished() {
		if !f.Sequences[row].Think.Leaves(n) {
			return 1
		}
	}
	return n
}

// feed marks the pending tokens of the unfinished rows as written to the next recent slot.
func (f *DecodeBatch) feed() {
	for _, row := range f.unfinished() {
		l := f.Sequences[row].state
		f.scheduler.fed++
		l.next++
		l.Pending = -1
		f.recentAllow[row*f.RecentLen+f.recentUsed] = true
	}
}

// dropMask frees the mask on the device.
func (f *DecodeBatch) dropMask() {
	f.mask.Free()
	f.mask = nil
}

// describe sets the columns of a token that is fed, of which so many before it have no token in the response yet.
func (p *Sequence) describe(now []int32, token, forced int32, ahead int) {
	now[nowToken], now[nowForced], now[nowLive] = token, forced, 1
	now[nowCount] = int32(len(p.Reply.Tokens) + ahead)
	for k := range 3 {
		now[nowPosition+k] = p.state.next + int32(ahead)
	}
}

func (f *DecodeBatch) stepInputs(own *net.Scope) ([]*device.Array, model.Sampler, error) {
	b := len(f.Sequences)
	now := make([]int32, b*nowColumns)
	sampler := f.scheduler.sampler
	for row := range f.Sequences {
		now[row*nowColumns+nowForced] = -1
		now[row*nowColumns+nowSlot] = int32(f.recentUsed)
	}
	for _, row := range f.unfinished() {
		p := f.Sequences[row]
		forced := p.Think.Next()
		p.describe(now[row*nowColumns:], p.state.Pending, forced, 0)
		sampler.Forced = sampler.Forced || forced >= 0
	}
	f.feed()
	stay := &net.Scope{Dev: f.Net.Dev} // seeds are kept for the next steps
	if f.seeds == nil {
		f.seeds = f.uploadSeeds(stay, 1)
	}
	if stay.Err != nil {
		return nil, sampler, stay.Err
	}
	in, err := f.inputs(own, now, f.seeds, f.recentAllow)
	return in, sampler, err
}

// inputs are the inputs of a decoding step after the weights. The mask of the prefix is kept for the next steps.
func (f *DecodeBatch) inputs(
	own *net.Scope, now []int32, seeds *device.Array, recentAllow []bool,
) ([]*device.Array, error) {
	stay := &net.Scope{Dev: f.Net.Dev}
	if f.mask == nil {
		f.mask = net.Upload(stay, f.allow, len(f.Rows), f.Slots)
	}
	if stay.Err != nil {
		return nil, stay.Err
	}
	n := len(now) / nowColumns
	in := []*device.Array{net.Upload(own, now, n, nowColumns), seeds, f.scheduler.params}
	in = slices.Concat(in, f.prefix, f.recent)
	in = append(in, f.mask, net.Upload(own, recentAllow, n, f.RecentLen))
	return in, own.Err
}

// readSamples copies sampled tokens and their log-probs to the host.
func readSamples(ids, logProbs *device.Array) ([]int32, []float32, error) {
	id, err := device.ReadNew[int32](ids)
	if err != nil {
		return nil, nil, err
	}
	lp, err := device.ReadNew[float32](logProbs)
	return id, lp, err
}

// collect appends a sampled token to each reply that has not ended. Tokens of successive
// rows are stride apart.
func (f *DecodeBatch) collect(ids []int32, logProbs []float32, stride int) {
	for _, row := range f.unfinished() {
		f.Sequences[row].add(f.scheduler, ids[row*stride], logProbs[row*stride])
		f.listen(f.Sequences[row])
	}
}
