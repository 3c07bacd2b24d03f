package vlm

import (
	"context"
	"fmt"
	"slices"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// request asks a conversation to read tokens and write a response.
type request struct {
	row    int // in its session
	tokens []int32
	images []picture
	seed   uint64
	max    int // longest response
	stop   *stopper
	think  *thinker
	shared string            // equal for requests with the same tokens and images; "" for none
	watch  func(token int32) // told of each token of the response; may be nil
}

// reply is the response to a request.
type reply struct {
	tokens   []int32
	logProbs []float32
	stopped  bool  // ended by an end-of-turn token
	halted   bool  // ended by a stop string
	forced   []int // places in tokens that were not sampled
	vision   bool  // ended by a placeholder that stands for no image: the row is unusable
}

// seat is a conversation that takes part in a call.
type seat struct {
	*request
	reply
	lane *lane
	home *session // where its keys and values stay between calls
}

// ended reports whether the response is complete.
func (p *seat) ended() bool {
	return p.stopped || p.halted || p.vision || len(p.reply.tokens) >= p.max
}

// add appends a sampled token to the response.
func (p *seat) add(c *call, id int32, logProb float32) {
	p.reply.tokens, p.logProbs = append(p.reply.tokens, id), append(p.logProbs, logProb)
	p.lane.pending = id
	p.lane.length++
	p.halted = p.stop.add(id)
	if p.think.add(id) {
		p.forced = append(p.forced, len(p.reply.tokens)-1)
	}
	if p.watch != nil {
		p.watch(id)
	}
	p.stopped = slices.Contains(c.end, id)
	p.vision = c.net.cfg.Vision != nil && (id == c.net.cfg.ImageToken || id == c.net.cfg.VideoToken)
}

// flight is the rows that decode together: a session in which all of them are at
// home, or one that was gathered from several or from the rows of one that have
// not ended.
type flight struct {
	call *call
	*session
	seats    []*seat // by row; nil for rows that take no part
	gathered bool
	seeds    *device.Array
	mask     *device.Array // the prefix's allow, while it stays as it is
}

// sit gives a request its row. The flight is at home.
func (f *flight) sit(r *request) *seat {
	p := &seat{request: r, lane: f.rows[r.row], home: f.session}
	f.seats[r.row] = p
	return p
}

// live lists the rows whose responses are not complete.
func (f *flight) live() []int {
	var rows []int
	for row, p := range f.seats {
		if p != nil && !p.ended() {
			rows = append(rows, row)
		}
	}
	return rows
}

// uploadSeeds puts the seeds of the rows on the device.
func (f *flight) uploadSeeds(own *scope) *device.Array {
	seeds := make([]uint32, 2*len(f.seats))
	for row, p := range f.seats {
		if p != nil {
			seeds[2*row], seeds[2*row+1] = uint32(p.seed), uint32(p.seed>>32)
		}
	}
	return upload(own, seeds, len(f.seats), 2)
}

// read appends the requests' contexts, each behind its row's pending token, and
// samples the first token of every response. The flight is at home.
func (f *flight) read(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	own := &scope{dev: f.net.dev}
	defer own.free()
	s := f.session
	length := 0
	for _, p := range f.seats {
		if p != nil {
			length = max(length, len(p.lane.take(p.request.tokens)))
		}
	}
	if length == 0 {
		return fmt.Errorf("vlm: generate: a conversation needs at least one token")
	}
	length = contextLength(length)
	p := f.places()
	in, err := f.layOut(own, p, length)
	if err != nil {
		return err
	}
	if err := s.makeRoom(length); err != nil {
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
	if p.copies() {
		if cache, err = f.spread(own, cache, p); err != nil {
			return err
		}
	}
	s.adopt(cache, open, length, p.freshRows(length))
	for row, seat := range f.seats {
		if seat != nil {
			seat.lane.read(seat.request, p.next[p.place[row]])
		}
	}
	if err := f.collect(out[0], out[1]); err != nil {
		return err
	}
	return s.startRecent(f.call.recentTokens)
}

// contextLength rounds the length of a context up, so that few sizes occur.
func contextLength(n int) int { return (bucket(n) + 3) / 4 * 4 }

// step feeds each live row's pending token and samples the next one.
func (f *flight) step(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.recentUsed == f.recentLen {
		f.unmask()
		if err := f.flush(); err != nil {
			return err
		}
	}
	own := &scope{dev: f.net.dev}
	defer own.free()
	in, sampler, err := f.stepInputs(own)
	if err != nil {
		return err
	}
	out, err := f.net.step(sampler).Run(in, f.recentPlaces(len(in))...)
	if err != nil {
		return err
	}
	own.own(out[0], out[1])
	half := (len(out) - 2) / 2
	for i := range half {
		f.recent[i], f.recent[half+i] = out[2+2*i], out[3+2*i]
	}
	f.recentUsed++
	return f.collect(out[0], out[1])
}

// recentPlaces are those of the recent keys and values among a step's n inputs, in
// the order in which they come out again, so that they are written over.
func (f *flight) recentPlaces(n int) []int {
	half := len(f.recent) / 2
	first := n - 2 - len(f.recent) // the masks are last
	out := make([]int, 0, len(f.recent))
	for i := range half {
		out = append(out, first+i, first+half+i)
	}
	return out
}

// unmask forgets the mask on the device.
func (f *flight) unmask() {
	f.mask.Free()
	f.mask = nil
}

func (f *flight) stepInputs(own *scope) ([]*device.Array, model.Sampler, error) {
	b := len(f.seats)
	now := make([]int32, b*nowColumns)
	sampler := f.call.sampler
	for row := range f.seats {
		now[row*nowColumns+nowForced] = -1
		now[row*nowColumns+nowSlot] = int32(f.recentUsed)
	}
	for _, row := range f.live() {
		p := f.seats[row]
		l, here := p.lane, now[row*nowColumns:]
		here[nowToken], here[nowCount], here[nowForced] = l.pending, int32(len(p.reply.tokens)), p.think.next()
		for k := range 3 {
			here[nowPosition+k] = l.next
		}
		sampler.Forced = sampler.Forced || here[nowForced] >= 0
		l.next++
		l.pending = -1
		f.recentAllow[row*f.recentLen+f.recentUsed] = true
	}
	// Seeds and mask stay for the next steps.
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

// collect appends sampled tokens to the replies that have not ended.
func (f *flight) collect(ids, logProbs *device.Array) error {
	id, err := device.ReadNew[int32](ids)
	if err != nil {
		return err
	}
	lp, err := device.ReadNew[float32](logProbs)
	if err != nil {
		return err
	}
	for _, row := range f.live() {
		f.seats[row].add(f.call, id[row], lp[row])
	}
	return nil
}
