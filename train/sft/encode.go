package sft

import (
	"context"
	"fmt"
	"image"

	"vagen/policy"
	"vagen/train/config"
)

// encoding tokenises examples.
type encoding struct {
	config  *config.SFTConfig
	encode  policy.Encoder
	tools   map[string]policy.Encoder // by the definitions of tools
	limit   int                       // of the model in tokens; 0 is none
	dropped int                       // rows that are too long
	cut     int                       // rows
	idle    int                       // rows without a token to learn
}

// all tokenises examples.
func (e *encoding) all(ctx context.Context, from []source) ([]row, error) {
	var out []row
	for i := range from {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s := &from[i]
		rows := s.recorded
		if s.messages != nil {
			r, err := e.conversation(s)
			if err != nil {
				return nil, fmt.Errorf("sft: %s: %w: %w", s.where, ErrExample, err)
			}
			rows = []row{r}
		}
		for _, r := range rows {
			if e.selectTurns(&r); !r.learns() {
				e.idle++
				continue
			}
			r, ok, err := e.fit(r)
			if err != nil {
				return nil, fmt.Errorf("sft: %s: %w: %w", r.where, ErrExample, err)
			}
			if ok {
				r.turn, r.pictures = nil, nil
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// conversation tokenises a conversation. Messages after the assistant's last one are context of
// nothing and left out.
func (e *encoding) conversation(s *source) (row, error) {
	r := row{where: s.where}
	encode, err := e.with(s.tools)
	if err != nil {
		return r, err
	}
	msgs, all, err := e.load(encode, s.messages)
	if err != nil {
		return r, err
	}
	pieces, images, err := encode.Encode(msgs)
	if err != nil {
		return r, err
	}
	var weights []float64 // of the assistant's messages
	shown := 0
	for _, m := range s.messages {
		shown += len(m.pictures)
		if m.role == policy.Assistant {
			weights, r.pictures = append(weights, m.weight), append(r.pictures, shown)
		}
	}
	turn := 0
	for _, p := range pieces {
		w, k := float32(0), int32(-1)
		if p.Response {
			if turn >= len(weights) {
				return r, fmt.Errorf("the encoder returned more responses than the %d messages of the assistant", len(weights))
			}
			w, k = float32(weights[turn]), int32(turn)
			turn++
		}
		for range p.Tokens {
			r.weight, r.turn = append(r.weight, w), append(r.turn, k)
		}
		r.tokens = append(r.tokens, p.Tokens...)
	}
	if turn != len(weights) {
		return r, fmt.Errorf("the encoder returned %d responses for %d messages of the assistant", turn, len(weights))
	}
	if len(images) > len(all) {
		return r, fmt.Errorf("the encoder returned %d images for %d", len(images), len(all))
	}
	if len(images) > 0 {
		hashes := make([][32]byte, len(images))
		for i := range images {
			hashes[i] = images[i].Hash
		}
		r.images = func() ([]policy.Image, error) { return reload(all[:len(hashes)], hashes) }
	}
	return r, nil
}

// load reads the images of messages and renders their calls of tools. all are the images of
// the conversation in order.
func (e *encoding) load(encode policy.Encoder, msgs []message) (out []policy.Message, all []picture, err error) {
	turns := 0
	for _, m := range msgs {
		if m.role == policy.Assistant {
			turns++
		}
	}
	turn := 0
	for i, m := range msgs {
		one := policy.Message{Role: m.role, Text: m.text}
		if m.role == policy.Assistant {
			one.Unlearned = m.weight == 0 || !e.selects(turn, turns-1)
			turn++
		}
		if m.calls != "" || m.reasons {
			if one.Text, err = shown(encode, &m); err != nil {
				return nil, nil, fmt.Errorf("message %d: %w", i, err)
			}
		}
		for k, p := range m.pictures {
			im, err := p()
			if err != nil {
				return nil, nil, fmt.Errorf("message %d: image %d: %w", i, k, err)
			}
			one.Images, all = append(one.Images, im), append(all, p)
		}
		out = append(out, one)
	}
	return out, all, nil
}

// reload reads images again, with the hashes of the first time.
func reload(from []picture, hashes [][32]byte) ([]policy.Image, error) {
	out := make([]policy.Image, len(from))
	for i, p := range from {
		var im image.Image
		var err error
		if im, err = p(); err != nil {
			return nil, fmt.Errorf("image %d: %w", i, err)
		}
		out[i] = policy.Image{Hash: hashes[i], Image: im}
	}
	return out, nil
}

// fit applies the limits on the length of a row. ok is false if it is dropped.
func (e *encoding) fit(r row) (_ row, ok bool, err error) {
	most := e.config.MaxLength
	if e.limit > 0 && (most == 0 || most > e.limit) {
		if len(r.tokens) > e.limit && (most == 0 || e.config.Truncation == config.TruncationError) {
			return r, false, fmt.Errorf("it has %d tokens, the model allows %d: set sft.max_length and sft.truncation",
				len(r.tokens), e.limit)
		}
		most = e.limit
	}
	if most == 0 || len(r.tokens) <= most {
		return r, true, nil
	}
	switch e.config.Truncation {
	case config.TruncationError:
		return r, false, fmt.Errorf("it has %d tokens, sft.max_length is %d: set sft.truncation to drop or right, or a larger maximum", len(r.tokens), most)
	case config.TruncationDrop:
		e.dropped++
		return r, false, nil
	}
	to := 0 // the end of the last turn that fits
	for i := range min(most, len(r.tokens)-1) {
		if r.turn[i] >= 0 && r.turn[i+1] != r.turn[i] {
			to = i + 1
		}
	}
	if to == 0 || r.images != nil && r.pictures == nil { // it is not recorded which turn shows an image
		e.dropped++
		return r, false, nil
	}
	if r = r.truncate(to); !r.learns() { // the turns that sft.turns selects are cut off
		e.dropped++
		return r, false, nil
	}
	e.cut++
	return r, true, nil
}

// truncate returns the first n tokens of a row, which end with a turn.
func (r row) truncate(n int) row {
	if read := r.images; read != nil {
		shown := r.pictures[r.turn[n-1]]
		r.images = func() ([]policy.Image, error) {
			all, err := read()
			return all[:min(shown, len(all))], err
		}
	}
	r.tokens, r.weight, r.turn = r.tokens[:n:n], r.weight[:n:n], r.turn[:n:n]
	return r
}

// selectTurns removes the weights of the turns that sft.turns does not select.
func (e *encoding) selectTurns(r *row) {
	last := int32(-1)
	for _, k := range r.turn {
		last = max(last, k)
	}
	for i, k := range r.turn {
		if !e.selects(int(k), int(last)) {
			r.weight[i] = 0
		}
	}
}

// selects reports whether sft.turns selects a turn.
func (e *encoding) selects(turn, last int) bool {
	switch e.config.Turns {
	case config.TurnsFirst:
		return turn == 0
	case config.TurnsLast:
		return turn == last
	}
	return true
}

// learns reports whether a token after the first one has a weight.
func (r *row) learns() bool {
	for i, w := range r.weight {
		if i > 0 && w != 0 {
			return true
		}
	}
	return false
}
