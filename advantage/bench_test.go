package advantage

import "fmt"

// shape is a batch of rows built from a formula, so that other languages can
// build the same one. A row is 256 tokens of environment, then ten turns of 192
// response tokens with 160 environment tokens between them, counted in 4096ths
// of its length, then padding that attention leaves out. Ragged rows have
// lengths from a quarter to the whole.
type shape struct {
	rows, tokens int
	ragged       bool
}

func (s shape) String() string {
	if s.ragged {
		return fmt.Sprintf("%dx%d-ragged", s.rows, s.tokens)
	}
	return fmt.Sprintf("%dx%d", s.rows, s.tokens)
}

var shapes = []shape{{128, 4096, false}, {1024, 8192, false}, {1024, 8192, true}}

func (s shape) length(row int) int {
	if !s.ragged {
		return s.tokens
	}
	return s.tokens/4 + (row*7919)%(s.tokens-s.tokens/4+1)
}

func (s shape) batch() *Batch {
	b := &Batch{Offsets: []int{0}}
	for row := range s.rows {
		b.Offsets = append(b.Offsets, b.Offsets[row]+s.length(row))
	}
	n := b.Offsets[s.rows]
	b.Rewards, b.Values = make([]float32, n), make([]float32, n)
	b.Attention, b.Loss, b.TurnEnd = make([]bool, n), make([]bool, n), make([]bool, n)
	for row := range s.rows {
		s.fill(b, row)
		b.Group = append(b.Group, row/8)
		b.Trajectory = append(b.Trajectory, row%8/2) // two rows an episode
		b.Turn = append(b.Turn, row%2)
		b.Baselines = append(b.Baselines, 0.25*float32(row%4))
	}
	b.GAE = b.Loss
	b.LogProbs, b.SumPiSquared = b.Rewards, b.Rewards // of no meaning, but as many
	return b
}

func (s shape) fill(b *Batch, row int) {
	lo, hi := b.Row(row)
	n := hi - lo
	part := func(x int) int { return max(1, x*n/4096) }
	attend := func(from, to int, wrote bool) {
		for t := from; t < to; t++ {
			b.Attention[lo+t], b.Loss[lo+t] = true, wrote
		}
	}
	pos := part(256)
	attend(0, pos, false)
	for turn := range 10 {
		end := min(n, pos+part(192))
		if end <= pos {
			break
		}
		attend(pos, end, true)
		b.TurnEnd[lo+end-1] = true
		b.Rewards[lo+end-1] = 0.5 * float32(((row+1)*(turn+2))%7)
		b.States, b.Next = append(b.States, uint64(turn)), append(b.Next, uint64(turn)+1)
		pos = end
		if turn < 9 {
			end = min(n, pos+part(160))
			attend(pos, end, false)
			pos = end
		}
	}
	for t := range n {
		if b.Attention[lo+t] {
			b.Values[lo+t] = float32((131*row+17*t)%1000)/500 - 1
			b.Rewards[lo+t] -= 0.001 * float32((7*row+13*t)%100) / 100
		}
	}
}
