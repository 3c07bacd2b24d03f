package vlm

import (
	"context"
	"fmt"
	"slices"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// request is a request to read tokens in a conversation and write a response.
type request struct {
	row    int // in its session
	tokens []int32
	images []picture
	seed   uint64
	max    int // longest response
	stop   *stopDetector
	think  *thinkingLimiter
	shared string            // equal for requests with the same tokens and images; "" for none
	watch  func(token int32) // called with each token of the response; may be nil
}

// reply is the response to a request.
type reply struct {
	tokens          []int32
	logProbs        []float32
	stopped         bool  // ended by an end-of-turn token
	stoppedByString bool  // ended by a stop string
	forced          []int // indices in tokens that were not sampled
	err             error // the model's numbers were not finite: the row cannot be used
}

// sequence is a conversation with a request in a call.
type sequence struct {
	*request
	reply
	state   *rowState
	session *session // holds its keys and values between calls
}

// ended reports whether the response is complete.
func (p *sequence) ended() bool {
	return p.stopped || p.stoppedByString || p.err != nil || len(p.reply.tokens) >= p.max
}

// add appends a sampled token to the response. A token whose log-prob is not finite is
// not used, because its logits were not finite (see Sampler.Sample).
func (p *sequence) add(c *call, id int32, logProb float32) {
	if logProb-logProb != 0 {
		p.err = fmt.Errorf("vlm: generate: token %d of the response: log-prob is %v, must be finite: %w", len(p.reply.tokens), logProb, ErrNotFinite)
		return
	}
	p.reply.tokens, p.logProbs = append(p.reply.tokens, id), append(p.logProbs, logProb)
	p.state.pending = id
	p.state.length++
	p.stoppedByString = p.stop.add(id)
	if p.think.add(id) {
		p.forced = append(p.forced, len(p.reply.tokens)-1)
	}
	if p.watch != nil {
		p.watch(id)
	}
	p.stopped = slices.Contains(c.end, id)
}

// decodeBatch is a batch of rows that decode together: either a session with rows in place, or
// a gathered batch with the unfinished rows of one or several sessions.
type decodeBatch struct {
	call *call
	*session
	sequences []*sequence // by row; nil for rows without a request
	gathered  bool
	seeds     *device.Array
	mask      *device.Array // the prefix's allow on the device; nil if it has changed
}

// assign assigns a request to its row. The batch must not be gathered.
func (f *decodeBatch) assign(r *request) *sequence {
	p := &sequence{request: r, state: f.rows[r.row], session: f.session}
	f.sequences[r.row] = p
	return p
}

// unfinished returns the rows whose responses are not complete.
func (f *decodeBatch) unfinished() []int {
	var rows []int
	for row, p := range f.sequences {
		if p != nil && !p.ended() {
			rows = append(rows, row)
		}
	}
	return rows
}

// uploadSeeds uploads the seeds of the rows.
func (f *decodeBatch) uploadSeeds(own *scope) *device.Array {
	seeds := make([]uint32, 2*len(f.sequences))
	for row, p := range f.sequences {
		if p != nil {
			seeds[2*row], seeds[2*row+1] = uint32(p.seed), uint32(p.seed>>32)
		}
	}
	return upload(own, seeds, len(f.sequences), 2)
}

// readContexts appends the requests' contexts, each after its row's pending token, and samples the
// first token of every response. The batch must not be gathered.
func (f *decodeBatch) readContexts(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	own := &scope{dev: f.net.dev}
	defer own.free()
	s := f.session
	length := 0
	for _, p := range f.sequences {
		if p != nil {
			length = max(length, len(p.state.unread(p.request.tokens)))
		}
	}
	if length == 0 {
		return fmt.Errorf("vlm: generate: a prompt has no tokens, must have at least one")
	}
	length = contextLength(length)
	p := f.planContexts()
	in, err := f.contextInputs(own, p, length)
	if err != nil {
		return err
	}
	if err := s.growPrefix(length); err != nil {
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
	out, err := s.net.appendTokens(open, p.vision != nil, s.slots, f.call.sampler).Run(in)
	if err != nil {
		return err
	}
	own.own(out[0], out[1])
	cache := out[2:]
	if p.sharesContexts() {
		if cache, err = f.copyShared(own, cache, p); err != nil {
			return err
		}
	}
	s.setPrefix(cache, open, length, p.freshRows(length))
	for row, seq := range f.sequences {
		if seq != nil {
			seq.state.advance(seq.request, p.next[p.index[row]])
		}
	}
	ids, logProbs, err := readSamples(out[0], out[1])
	if err != nil {
		return err
	}
	f.collect(ids, logProbs, 1)
	return s.startRecent(f.call.recentTokens)
}

// contextLength rounds the length of a context up, to limit the number of different sizes.
func contextLength(n int) int { return (bucket(n) + 3) / 4 * 4 }

// step feeds each live row's pending token and samples the next one, several times in one
// program if the call does so and there is room for the keys and values. Then done, which
// is called between the tokens, can end the step: the tokens after it are discarded, so
// that a batch is regrouped at the same token as with one token per program.
func (f *decodeBatch) step(ctx context.Context, done func() bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.recentUsed == f.recentLen {
		f.dropMask()
		if err := f.flush(); err != nil {
			return err
		}
	}
	own := &scope{dev: f.net.dev}
	defer own.free()
	n := f.stepTokens()
	in, sampler, err := f.stepInputs(own)
	if err != nil {
		return err
	}
	program := f.net.step(sampler)
	if n > 1 {
		program = f.net.steps(sampler, n)
	}
	out, err := program.Run(in, f.inPlace(len(in))...)
	if err != nil {
		return err
	}
	own.own(out[0], out[1])
	recent := 0
	for i, x := range f.net.cache {
		if x.Slots {
			f.recent[recent] = out[2+i]
			recent++
		} else {
			f.prefix[i] = out[2+i]
		}
	}
	ids, logProbs, err := readSamples(out[0], out[1])
	if err != nil {
		return err
	}
	for i := range n {
		if i > 0 {
			if len(f.unfinished()) == 0 || done() {
				break
			}
			f.feed()
		}
		f.recentUsed++
		f.collect(ids[i:], logProbs[i:], n)
	}
	return nil
}

// stepTokens returns how many tokens the next program makes: as many as the call wants, or
// one if there is no room for them or the host may force one of them.
func (f *decodeBatch) stepTokens() int {
	n := f.call.tokensPerCall
	if n > f.recentLen-f.recentUsed {
		return 1
	}
	for _, row := range f.unfinished() {
		if !f.sequences[row].think.leaves(n) {
			return 1
		}
	}
	return n
}

// feed marks the pending tokens of the unfinished rows as written to the next recent slot.
func (f *decodeBatch) feed() {
	for _, row := range f.unfinished() {
		l := f.sequences[row].state
		l.next++
		l.pending = -1
		f.recentAllow[row*f.recentLen+f.recentUsed] = true
	}
}

// inPlace returns the indices of the recent segments and the states among a step's n inputs,
// in the order of the outputs, so that the step updates them in place.
func (f *decodeBatch) inPlace(n int) (out []int) {
	recent := n - 2 - len(f.recent) // the masks are last
	prefix := recent - len(f.prefix)
	for i, x := range f.net.cache {
		if x.Slots {
			out = append(out, recent)
			recent++
		} else {
			out = append(out, prefix+i)
		}
	}
	return out
}

// dropMask frees the mask on the device.
func (f *decodeBatch) dropMask() {
	f.mask.Free()
	f.mask = nil
}

func (f *decodeBatch) stepInputs(own *scope) ([]*device.Array, model.Sampler, error) {
	b := len(f.sequences)
	now := make([]int32, b*nowColumns)
	sampler := f.call.sampler
	for row := range f.sequences {
		now[row*nowColumns+nowForced] = -1
		now[row*nowColumns+nowSlot] = int32(f.recentUsed)
	}
	for _, row := range f.unfinished() {
		p := f.sequences[row]
		l, here := p.state, now[row*nowColumns:]
		here[nowToken], here[nowCount], here[nowForced], here[nowLive] = l.pending, int32(len(p.reply.tokens)), p.think.next(), 1
		for k := range 3 {
			here[nowPosition+k] = l.next
		}
		sampler.Forced = sampler.Forced || here[nowForced] >= 0
	}
	f.feed()
	// Seeds and mask are kept for the next steps.
	stay := &scope{dev: f.net.dev}
	if f.seeds == nil {
		f.seeds = f.uploadSeeds(stay)
	}
	if f.mask == nil {
		f.mask = upload(stay, f.allow, b, f.slots)
	}
	if stay.err != nil {
		return nil, sampler, stay.err
	}
	in := append(f.net.genArrays(f.call.w), upload(own, now, b, nowColumns), f.seeds, f.call.params)
	in = append(append(in, f.prefix...), f.recent...)
	in = append(in, f.mask, upload(own, f.recentAllow, b, f.recentLen))
	return in, sampler, own.err
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
func (f *decodeBatch) collect(ids []int32, logProbs []float32, stride int) {
	for _, row := range f.unfinished() {
		f.sequences[row].add(f.call, ids[row*stride], logProbs[row*stride])
	}
}
