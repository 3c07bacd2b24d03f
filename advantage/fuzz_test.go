package advantage

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
)

// raw reads a batch from bytes. Most bytes become rewards and values of any bit pattern;
// the others become masks, identities and lengths, valid or not.
type raw struct{ rest []byte }

func (r *raw) byte() byte {
	if len(r.rest) == 0 {
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// number returns a small finite number, or any bit pattern of four bytes.
func (r *raw) number() float32 {
	b := r.byte()
	if b < 240 || len(r.rest) < 4 {
		return float32(int8(b)) / 16
	}
	x := math.Float32frombits(binary.LittleEndian.Uint32(r.rest))
	r.rest = r.rest[4:]
	return x
}

func (r *raw) batch() *Batch {
	present := r.byte()
	b := &Batch{Offsets: []int{0}}
	for range r.byte() % 6 {
		n := int(r.byte() % 8)
		b.Offsets = append(b.Offsets, len(b.Rewards)+n)
		for range n {
			flags := r.byte()
			b.Rewards, b.Values = append(b.Rewards, r.number()), append(b.Values, r.number())
			b.LogProbs, b.SumPiSquared = append(b.LogProbs, -b.Values[len(b.Values)-1]),
				append(b.SumPiSquared, b.Values[len(b.Values)-1])
			b.Attention = append(b.Attention, flags&3 != 0)
			b.Loss = append(b.Loss, flags&4 != 0)
			b.GAE = append(b.GAE, flags&8 != 0)
			b.TurnEnd = append(b.TurnEnd, flags&16 != 0)
			if flags&32 != 0 {
				b.States, b.Next = append(b.States, uint64(flags>>6)), append(b.Next, uint64(flags>>6)*SuccessState/3)
			}
		}
		id := r.byte()
		b.Group = append(b.Group, int(id%3))
		b.Trajectory = append(b.Trajectory, int(id/3%3))
		b.Turn = append(b.Turn, int(id/9))
		b.Baselines = append(b.Baselines, r.number())
	}
	drop := func(bit byte, wipe func()) {
		if present&bit != 0 {
			wipe()
		}
	}
	drop(1, func() { b.Values = nil })
	drop(2, func() { b.Attention = nil })
	drop(4, func() { b.Loss = nil })
	drop(8, func() { b.GAE = nil })
	drop(16, func() { b.Trajectory = nil })
	drop(32, func() { b.Turn = nil })
	drop(64, func() { b.TurnEnd = nil })
	if present&128 != 0 {
		b.spoil(r.byte())
	}
	return b
}

// spoil makes one length wrong.
func (b *Batch) spoil(which byte) {
	switch which % 8 {
	case 0:
		b.Values = append(b.Values, 1)
	case 1:
		b.Loss = append(b.Loss, true)
	case 2:
		b.Offsets = b.Offsets[1:]
	case 3:
		b.Offsets[len(b.Offsets)/2]--
	case 4:
		b.Group = append(b.Group, 1)
	case 5:
		b.Rewards = append(b.Rewards, 1)
	case 6:
		b.TurnEnd = append(b.TurnEnd, true)
	case 7:
		b.Turn = append(b.Turn, 1)
	}
}

var sentinels = []error{
	ErrLength, ErrNotFinite, ErrParameter, ErrEmptyMask, ErrNoCritic, ErrNoMask, ErrNoTurnEnd, ErrNoGroup,
	ErrConflict,
}

func known(err error) bool {
	return slices.ContainsFunc(sentinels, func(s error) bool { return errors.Is(err, s) })
}

// FuzzEstimate feeds any batch to every estimator. Either the error is one of
// the package's, or all results are finite, of the right length, and the same
// when the memory of other results is reused.
func FuzzEstimate(f *testing.F) {
	f.Add([]byte{0, 2, 3, 12, 1, 2, 12, 3, 4, 28, 5, 6, 0, 1, 2, 12, 1, 2, 28, 3, 4, 1, 1})
	f.Add([]byte{128, 1, 1, 255, 255, 255, 255, 255, 255})
	f.Add([]byte{64 + 32, 3, 2, 4, 1, 1, 4, 2, 2, 0, 0, 2, 4, 1, 1, 4, 2, 2, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &raw{data}
		b := r.batch()
		p := testParams()
		p.Whiten, p.NormByStd = r.byte()%2 == 0, r.byte()%2 == 0
		var shared Result
		for _, name := range Names() {
			est := named(t, name, p)
			var fresh Result
			err := est.Estimate(&fresh, b)
			again := est.Estimate(&shared, b)
			if (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
				t.Fatalf("%s: first %v, then %v", name, err, again)
			}
			if err != nil {
				if !known(err) {
					t.Fatalf("%s: an error of no kind: %v", name, err)
				}
				continue
			}
			check(t, name, &fresh, b)
			if !slices.Equal(fresh.Advantages, shared.Advantages) || !slices.Equal(fresh.Returns, shared.Returns) ||
				!slices.Equal(fresh.ValueMask, shared.ValueMask) || !slices.Equal(fresh.TurnID, shared.TurnID) {
				t.Fatalf("%s: reused memory shows", name)
			}
		}
	})
}

func check(t *testing.T, name string, out *Result, b *Batch) {
	t.Helper()
	n := b.Tokens()
	if len(out.Advantages) != n || len(out.Returns) != n ||
		out.ValueMask != nil && len(out.ValueMask) != n || out.TurnID != nil && len(out.TurnID) != n {
		t.Fatalf("%s: results for %d, %d, %d, %d of %d tokens", name,
			len(out.Advantages), len(out.Returns), len(out.ValueMask), len(out.TurnID), n)
	}
	if notFinite(out.Advantages) >= 0 || notFinite(out.Returns) >= 0 {
		t.Fatalf("%s: results %v, %v", name, out.Advantages, out.Returns)
	}
}

// FuzzStitch puts the rows of any batch together: every row is listed once or is
// a copy, and turn ids count up from 0 in each episode.
func FuzzStitch(f *testing.F) {
	f.Add([]byte{0, 4, 2, 4, 1, 1, 4, 2, 2, 0, 0, 2, 4, 1, 1, 4, 2, 2, 9, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		b := (&raw{data}).batch()
		episodes, err := b.Episodes()
		ids, idErr := b.TurnIDs(nil)
		if (err == nil) != (idErr == nil) {
			t.Fatalf("episodes: %v, turn ids: %v", err, idErr)
		}
		if err != nil {
			if !known(err) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		seen := make(map[int]bool)
		for _, rows := range episodes {
			next := int32(0)
			for _, row := range rows {
				if seen[row] {
					t.Fatalf("row %d is listed twice in %v", row, episodes)
				}
				seen[row] = true
				lo, hi := b.Row(row)
				for _, id := range ids[lo:hi] {
					if id > next || id < -1 {
						t.Fatalf("turn %d comes after turn %d", id, next-1)
					}
					next = max(next, id+1)
				}
			}
		}
	})
}

// FuzzWhitening whitens any numbers under any mask.
func FuzzWhitening(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6}, 0.0)
	f.Fuzz(func(t *testing.T, data []byte, guard float64) {
		r := &raw{data}
		var x []float32
		var in []bool
		for len(r.rest) > 0 {
			in = append(in, r.byte()%2 == 1)
			x = append(x, r.number())
		}
		dst := make([]float32, len(x))
		m, err := Whitening{Guard: guard}.Apply(dst, x, in)
		if err != nil {
			if !known(err) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if notFinite(dst) >= 0 || m != momentsOf(x, in) {
			t.Fatalf("whitened %v to %v with %+v", x, dst, m)
		}
	})
}

// FuzzByName looks up any name.
func FuzzByName(f *testing.F) {
	f.Add("grpo", 1.0, 0.5)
	f.Add("bi_level", math.NaN(), 2.0)
	f.Fuzz(func(t *testing.T, name string, gamma, lambda float64) {
		est, err := New(name, Params{Gamma: gamma, Lambda: lambda, NormByStd: true, Whiten: true})
		if (est == nil) == (err == nil) {
			t.Fatalf("got %v and %v", est, err)
		}
		if _, unknown := Describe(name); (unknown != nil) != errors.Is(err, ErrUnknown) {
			t.Fatalf("described: %v, made: %v", unknown, err)
		}
	})
}
