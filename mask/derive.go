package mask

// Options switches masks off. The zero value has both masks on: only tokens that the model
// wrote are trained on and are steps of the recursion. The switches are independent. Both
// masks are derived from the response mask; a mask that is off covers every token, as in
// the original systems, which then use the attention mask.
type Options struct {
	// NoLossMask includes context tokens in the policy and value losses
	// (use_loss_mask: false).
	NoLossMask bool
	// NoGAEMask includes context tokens in the advantage recursion of the masked
	// estimator (use_gae_mask: false).
	NoGAEMask bool
	// ValueAtTurnEnd trains the critic on turn ends only, as turn-wise advantages
	// require (critic.use_reward_mask).
	ValueAtTurnEnd bool
}

// Kinds appends the kind of every token.
func (s *Sequence) Kinds(dst []Kind) []Kind {
	start := 0
	for _, g := range s.segments {
		for range g.end - start {
			dst = append(dst, g.kind)
		}
		start = g.end
	}
	return dst
}

// TurnIndex appends the turn of every token, -1 for context.
func (s *Sequence) TurnIndex(dst []int32) []int32 {
	for p := range s.Pieces {
		for range p.End - p.Start {
			dst = append(dst, int32(p.Turn))
		}
	}
	return dst
}

// Response appends the response mask: the tokens that the model wrote.
func (s *Sequence) Response(dst []bool) []bool {
	start := 0
	for _, g := range s.segments {
		dst = fill(dst, g.end-start, g.kind == Response)
		start = g.end
	}
	return dst
}

// Loss appends the loss mask: the tokens whose policy loss counts. It excludes forced
// tokens, which the model did not choose.
func (s *Sequence) Loss(dst []bool, o Options) []bool {
	if o.NoLossMask {
		return s.Attention(dst)
	}
	n := len(dst)
	dst = s.Response(dst)
	for _, p := range s.spans {
		if p.name == Forced {
			clear(dst[n+p.start : n+p.end])
		}
	}
	return dst
}

// Advantage appends the advantage (GAE) mask: the tokens that are steps of the
// masked advantage recursion.
func (s *Sequence) Advantage(dst []bool, o Options) []bool {
	if o.NoGAEMask {
		return s.Attention(dst)
	}
	return s.Response(dst)
}

// Value appends the value mask: turn ends if the critic learns turn by turn, otherwise
// the response mask, or every token without a loss mask. It includes forced tokens,
// because the state after them has a value like any other. An estimator that supervises
// other positions publishes its own value mask.
func (s *Sequence) Value(dst []bool, o Options) []bool {
	switch {
	case o.ValueAtTurnEnd:
		return s.TurnEnd(dst)
	case o.NoLossMask:
		return s.Attention(dst)
	}
	return s.Response(dst)
}

// TurnEnd appends the mask of turn ends: the last token of each response.
func (s *Sequence) TurnEnd(dst []bool) []bool {
	start := 0
	for _, g := range s.segments {
		dst = fill(dst, g.end-start-1, false)
		dst = append(dst, g.kind == Response)
		start = g.end
	}
	return dst
}

// Attention appends true for every token.
func (s *Sequence) Attention(dst []bool) []bool { return fill(dst, s.Len(), true) }

// LastResponse returns the position of the last token that the model wrote, -1 if there
// is none.
func (s *Sequence) LastResponse() int {
	for i := len(s.segments) - 1; i >= 0; i-- {
		if s.segments[i].kind == Response {
			return s.segments[i].end - 1
		}
	}
	return -1
}

func fill(dst []bool, n int, v bool) []bool {
	dst = append(dst, make([]bool, n)...)
	if v {
		for i := len(dst) - n; i < len(dst); i++ {
			dst[i] = true
		}
	}
	return dst
}
