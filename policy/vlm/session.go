package vlm

import (
	"context"
	"fmt"
	"slices"

	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// session is a batch of conversations that share a cache and advance together.
//
// All rows write to the same slots. Where a row has nothing to write its slot is
// marked invalid and hidden from attention; positions are counted per row, so
// holes change nothing. Keys and values of the current response go to a short
// recent stretch, so that a decoding step copies little; they move to the long
// prefix when the conversation goes on.
type session struct {
	net   *net
	rows  []*lane // as many as the cache has rows; nil is a free row
	slots int     // length of the prefix
	used  int     // slots of the prefix that may hold something

	minSlots int // the prefix has at least this length

	prefix []*device.Array // keys of each layer, then values
	allow  []bool          // [rows·slots]

	recent      []*device.Array
	recentLen   int
	recentUsed  int
	recentAllow []bool // [rows·recentLen]
}

// lane is one conversation in a session.
type lane struct {
	next    int32 // position of the next token
	pending int32 // last sampled token, not yet in the cache; −1 for none
	length  int   // tokens so far, pending included
}

// request asks a lane to read tokens and write a response.
type request struct {
	row    int
	tokens []int32 // context to read first
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

func (s *session) free() {
	device.FreeAll(s.prefix...)
	device.FreeAll(s.recent...)
	s.prefix, s.recent = nil, nil
}

// turn is the state of one call of generate.
type turn struct {
	*session
	w       *parts
	sampler model.Sampler
	params  *device.Array
	seeds   *device.Array
	reqs    []*request // by row; nil for rows that take no part
	replies []*reply
	scope   scope
}

// generate reads each request's context and samples its response.
func (s *session) generate(ctx context.Context, w *parts, reqs []*request, o policy.Sampling, end []int32, recentLen int) ([]*reply, error) {
	t := &turn{session: s, w: w, reqs: make([]*request, len(s.rows)), replies: make([]*reply, len(s.rows))}
	t.scope.dev = s.net.dev
	defer t.scope.free()
	longest := 0
	seeds := make([]uint32, 2*len(s.rows))
	for _, r := range reqs {
		t.reqs[r.row], t.replies[r.row] = r, &reply{}
		seeds[2*r.row], seeds[2*r.row+1] = uint32(r.seed), uint32(r.seed>>32)
		longest = max(longest, r.max)
	}
	t.sampler = model.Sampler{Greedy: o.Temperature == 0, TopK: o.TopK > 0, TopP: o.TopP > 0 && o.TopP < 1, MinP: o.MinP > 0}
	params := make([]float32, model.SampleParams)
	params[model.SampleTemperature] = float32(o.Temperature)
	if t.sampler.Greedy {
		params[model.SampleTemperature] = 1
	}
	params[model.SampleTopK], params[model.SampleTopP], params[model.SampleMinP] = float32(o.TopK), float32(o.TopP), float32(o.MinP)
	t.params, t.seeds = upload(&t.scope, params), upload(&t.scope, seeds, len(s.rows), 2)
	if t.scope.err != nil {
		return nil, t.scope.err
	}
	ids, err := t.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.startRecent(min(longest, recentLen)); err != nil {
		return nil, err
	}
	if err := t.write(ctx, ids, end); err != nil {
		return nil, err
	}
	out := make([]*reply, len(reqs))
	for i, r := range reqs {
		out[i] = t.replies[r.row]
	}
	return out, nil
}

// read appends the requests' contexts, each behind its row's pending token, and
// samples the first token of every response.
func (t *turn) read(ctx context.Context) (*device.Array, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := t.session
	length := 0
	for row, r := range t.reqs {
		if r != nil {
			length = max(length, len(s.rows[row].take(r.tokens)))
		}
	}
	if length == 0 {
		return nil, fmt.Errorf("vlm: generate: a conversation needs at least one token")
	}
	length = contextLength(length)
	p := t.places()
	in, err := t.layOut(p, length)
	if err != nil {
		return nil, err
	}
	if err := s.makeRoom(length); err != nil {
		return nil, err
	}
	open := s.prefix == nil
	if !open {
		cache, err := t.cacheInputs(s.used, s.used+s.recentUsed)
		if err != nil {
			return nil, err
		}
		in = append(in, cache...)
	}
	out, err := t.net.appendTokens(open, p.vision != nil, s.slots, t.sampler).Run(in)
	if err != nil {
		return nil, err
	}
	t.scope.own(out[0], out[1])
	cache := out[2:]
	if p.copies() {
		if cache, err = t.spread(cache, p); err != nil {
			return nil, err
		}
	}
	s.adopt(cache, open, length, p.freshRows(length))
	for row, r := range t.reqs {
		if r != nil {
			s.rows[row].read(r, p.next[p.place[row]])
		}
	}
	return out[0], t.collect(out[0], out[1], nil)
}

// take returns what the lane has to read: the pending token and the context.
func (l *lane) take(context []int32) []int32 {
	if l.pending < 0 {
		return context
	}
	return append([]int32{l.pending}, context...)
}

// read notes that the lane has read its request.
func (l *lane) read(r *request, next int32) {
	l.length += len(r.tokens)
	l.next, l.pending = next, -1
}

// contextLength rounds the length of a context up, so that few sizes occur.
func contextLength(n int) int { return (bucket(n) + 3) / 4 * 4 }

// cacheInputs lists the cache as the programs take it.
func (t *turn) cacheInputs(at, recentAt int) ([]*device.Array, error) {
	s := t.session
	b := len(s.rows)
	in := append(append([]*device.Array{}, s.prefix...), s.recent...)
	allow := upload(&t.scope, s.allow, b, s.slots)
	recent := upload(&t.scope, s.recentAllow, b, s.recentLen)
	if t.scope.err != nil {
		return nil, t.scope.err
	}
	x, err := device.Scalar(t.net.dev, int32(at))
	if err != nil {
		return nil, err
	}
	t.scope.own(x)
	y, err := device.Scalar(t.net.dev, int32(recentAt))
	if err != nil {
		return nil, err
	}
	t.scope.own(y)
	return append(in, allow, recent, x, y), nil
}

// adopt replaces the prefix by the one that the append program returned (keys
// and values alternate), in which the recent stretch and length new slots stand
// behind what was used before.
func (s *session) adopt(arrays []*device.Array, open bool, length int, fresh []bool) {
	half := len(arrays) / 2
	sorted := make([]*device.Array, len(arrays))
	for i := range half {
		sorted[i], sorted[half+i] = arrays[2*i], arrays[2*i+1]
	}
	device.FreeAll(s.prefix...)
	s.prefix = sorted
	if open {
		s.allow = make([]bool, len(s.rows)*s.slots)
	} else {
		s.keepRecent()
	}
	for row := range s.rows {
		copy(s.allow[row*s.slots+s.used:], fresh[row*length:(row+1)*length])
	}
	s.used += length
}

// keepRecent marks the recent slots as part of the prefix.
func (s *session) keepRecent() {
	for row := range s.rows {
		copy(s.allow[row*s.slots+s.used:], s.recentAllow[row*s.recentLen:row*s.recentLen+s.recentUsed])
	}
	s.used += s.recentUsed
	s.recentUsed = 0
	clear(s.recentAllow)
}

// makeRoom grows the prefix so that the recent stretch and length more slots fit.
func (s *session) makeRoom(length int) error {
	need := s.used + max(s.recentUsed+length, s.recentLen)
	if s.slots >= need {
		return nil
	}
	slots := cacheLength(max(need, s.minSlots))
	if s.prefix != nil {
		out, err := s.net.grow(slots).Run(s.prefix)
		if err != nil {
			return err
		}
		device.FreeAll(s.prefix...)
		s.prefix = out
		allow := make([]bool, len(s.rows)*slots)
		for row := range s.rows {
			copy(allow[row*slots:], s.allow[row*s.slots:(row+1)*s.slots])
		}
		s.allow = allow
	}
	s.slots = slots
	return nil
}

// cacheLength rounds the length of the prefix up to 64, 128, 192, 256, 384, ….
func cacheLength(n int) int {
	if n <= 256 {
		return (n + 63) / 64 * 64
	}
	size := 256
	for size < n {
		size *= 2
	}
	if n <= size*3/4 {
		return size * 3 / 4
	}
	return size
}

// startRecent gets an empty recent stretch of the given length.
func (t *turn) startRecent(length int) error {
	s := t.session
	length = max(8, (length+7)/8*8)
	s.recentUsed = 0
	if s.recent != nil && s.recentLen == length {
		clear(s.recentAllow)
		return nil
	}
	device.FreeAll(s.recent...)
	var err error
	if s.recent, err = t.net.emptyCache(len(s.rows), length); err != nil {
		return err
	}
	s.recentLen, s.recentAllow = length, make([]bool, len(s.rows)*length)
	return nil
}

// write samples until every response has ended.
func (t *turn) write(ctx context.Context, ids *device.Array, end []int32) error {
	s := t.session
	live := t.settle(end)
	for n := uint32(1); live > 0; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.recentUsed == s.recentLen {
			if err := t.flushRecent(); err != nil {
				return err
			}
		}
		in, sampler, err := t.stepInputs(ids, n)
		if err != nil {
			return err
		}
		out, err := t.net.step(sampler).Run(in)
		if err != nil {
			return err
		}
		t.scope.own(out[0], out[1])
		half := (len(out) - 2) / 2
		device.FreeAll(s.recent...)
		for i := range half {
			s.recent[i], s.recent[half+i] = out[2+2*i], out[3+2*i]
		}
		s.recentUsed++
		ids = out[0]
		if err := t.collect(out[0], out[1], end); err != nil {
			return err
		}
		live = t.settle(end)
	}
	return nil
}

// stepInputs feeds each live row's pending token.
func (t *turn) stepInputs(ids *device.Array, n uint32) ([]*device.Array, model.Sampler, error) {
	s := t.session
	b := len(s.rows)
	pos, count, forced := make([]int32, 3*b), make([]uint32, b), make([]int32, b)
	for row, r := range t.replies {
		count[row], forced[row] = n, -1
		if r == nil || s.rows[row].pending < 0 || t.ended(row) {
			continue
		}
		l := s.rows[row]
		for k := range 3 {
			pos[3*row+k] = l.next
		}
		forced[row] = t.reqs[row].think.next()
		l.next++
		l.pending = -1
		s.recentAllow[row*s.recentLen+s.recentUsed] = true
	}
	u := &t.scope
	in := append(t.net.genArrays(t.w), ids, upload(u, pos, b, 3), t.seeds, upload(u, count), t.params)
	sampler := t.sampler
	if sampler.Forced = slices.ContainsFunc(forced, func(id int32) bool { return id >= 0 }); sampler.Forced {
		in = append(in, upload(u, forced))
	}
	if u.err != nil {
		return nil, sampler, u.err
	}
	cache, err := t.cacheInputs(s.recentUsed, 0)
	return append(in, cache...), sampler, err
}

// collect appends sampled tokens to the replies that have not ended.
func (t *turn) collect(ids, logProbs *device.Array, end []int32) error {
	id, err := device.ReadNew[int32](ids)
	if err != nil {
		return err
	}
	lp, err := device.ReadNew[float32](logProbs)
	if err != nil {
		return err
	}
	for row, r := range t.replies {
		if r == nil || t.ended(row) {
			continue
		}
		r.tokens, r.logProbs = append(r.tokens, id[row]), append(r.logProbs, lp[row])
		t.rows[row].pending = id[row]
		t.rows[row].length++
		r.halted = t.reqs[row].stop.add(id[row])
		if t.reqs[row].think.add(id[row]) {
			r.forced = append(r.forced, len(r.tokens)-1)
		}
		if watch := t.reqs[row].watch; watch != nil {
			watch(id[row])
		}
	}
	return nil
}

// ended reports whether a row's response is complete.
func (t *turn) ended(row int) bool {
	r := t.replies[row]
	return r.stopped || r.halted || r.vision || len(r.tokens) >= t.reqs[row].max
}

// settle marks replies that ended with an end-of-turn token and returns how many
// are still being written.
func (t *turn) settle(end []int32) int {
	live := 0
	for row, r := range t.replies {
		if r == nil {
			continue
		}
		if n := len(r.tokens); n > 0 && !r.stopped {
			for _, e := range end {
				r.stopped = r.stopped || r.tokens[n-1] == e
			}
			r.vision = t.net.cfg.Vision != nil && (r.tokens[n-1] == t.net.cfg.ImageToken || r.tokens[n-1] == t.net.cfg.VideoToken)
		}
		if !t.ended(row) {
			live++
		}
	}
	return live
}

// flushRecent moves a full recent stretch into the prefix.
func (t *turn) flushRecent() error {
	s := t.session
	if err := s.makeRoom(0); err != nil {
		return err
	}
	at, err := device.Scalar(t.net.dev, int32(s.used))
	if err != nil {
		return err
	}
	defer at.Free()
	out, err := t.net.flush().Run(append(append(append([]*device.Array{}, s.prefix...), s.recent...), at))
	if err != nil {
		return err
	}
	device.FreeAll(s.prefix...)
	s.prefix = out
	s.keepRecent()
	return nil
}
