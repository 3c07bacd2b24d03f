package loss

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/floats"
)

// fuzzBatch reads a batch from bytes: per token 2 bytes of flags and turn, then
// five float32 of any bit pattern.
func fuzzBatch(data []byte) *Batch[float32] {
	b := &Batch[float32]{Offsets: []int{0}, Weight: []float32{}}
	for len(data) >= 22 {
		x := func(k int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(data[2+4*k:])) }
		b.add(data[0]&1 == 1, x(0), x(1), x(2), x(3), x(4), int32(data[1])-2)
		if data[0]&2 != 0 {
			b.Offsets = append(b.Offsets, len(b.Mask))
		}
		b.Seed = b.Seed*31 + uint64(data[0])
		data = data[22:]
	}
	b.Offsets = append(b.Offsets, len(b.Mask))
	return b
}

func seeds(f *testing.F) {
	for seed := range uint64(4) {
		b := narrow(randomBatch(seed))
		var data []byte
		for i := range b.Mask {
			flags := byte(0)
			if b.Mask[i] {
				flags |= 1
			}
			data = append(data, flags, byte(b.Turn[i]+2))
			for _, v := range []float32{b.LogProb[i], b.OldLogProb[i], b.Advantage[i], b.Weight[i], b.Ref[i]} {
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
			}
		}
		f.Add(uint8(seed), data)
	}
	f.Add(uint8(7), []byte{})
}

// For any numbers a loss is finite with a finite gradient that is zero outside the mask,
// or there is an error.
func FuzzEval(f *testing.F) {
	seeds(f)
	modes := []Mode{TokenMean, TokenSum, SeqMeanTokenSum, SeqMeanTokenMean, SeqMeanTokenSumNorm}
	f.Fuzz(func(t *testing.T, choice uint8, data []byte) {
		b := fuzzBatch(data)
		a := Aggregation{Mode: modes[int(choice)%len(modes)], Width: 3}
		for name, p := range everyPolicy() {
			var r Result
			if Eval(&r, p, a, b) != nil {
				continue
			}
			if !floats.Finite(r.Loss) {
				t.Fatalf("%s: loss %v", name, r.Loss)
			}
			for i, g := range r.Grad {
				if !floats.Finite(g) || (g != 0 && !b.Mask[i]) {
					t.Fatalf("%s: gradient[%d] = %v, mask %v", name, i, g, b.Mask[i])
				}
			}
			for metric, v := range r.Metrics.All() {
				if !floats.Finite(v) {
					t.Fatalf("%s: %s = %v", name, metric, v)
				}
			}
		}
	})
}

func FuzzValue(f *testing.F) {
	f.Add(uint8(20), float32(1), float32(0.5), float32(-3))
	f.Fuzz(func(t *testing.T, clip uint8, v, old, ret float32) {
		if !floats.Finite(v) || !floats.Finite(old) || !floats.Finite(ret) {
			return
		}
		l, slope, _ := Value{Clip: float64(clip) / 100}.Of(float64(v), float64(old), float64(ret))
		if !floats.Finite(l) || !floats.Finite(slope) {
			t.Fatalf("loss %v, slope %v", l, slope)
		}
	})
}

func FuzzCorrect(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, choice uint8, data []byte) {
		b := fuzzBatch(data)
		names := rejectionNames()
		rules, err := ParseRejections(names[int(choice)%len(names)], "1.5")
		require.NoError(t, err)
		c := Correction{Weight: []Level{NoWeight, TokenLevel, SequenceLevel}[choice%3], Threshold: 2,
			Lower: []float64{0, 0.5}[choice/3%2], Normalize: choice%2 == 0, Reject: rules}
		var r Corrected
		if Correct(&r, c, &CorrectionBatch[float32]{Offsets: b.Offsets, Mask: b.Mask, Trainer: b.LogProb,
			Rollout: b.OldLogProb}) != nil {
			return
		}
		for i, m := range r.Mask {
			if m && !b.Mask[i] {
				t.Fatalf("token %d was added to the mask", i)
			}
		}
		for i, w := range r.Weight {
			if !(w >= 0) || math.IsInf(float64(w), 0) {
				t.Fatalf("weight[%d] = %v", i, w)
			}
		}
		for name, v := range r.Metrics.All() {
			if !floats.Finite(v) {
				t.Fatalf("%s = %v", name, v)
			}
		}
	})
}

func FuzzParseRejections(f *testing.F) {
	f.Add("token_k1,seq_mean_k3", "0.5_2.0,0.01")
	f.Add(",,", "_")
	f.Fuzz(func(t *testing.T, names, limits string) {
		if lower, upper, err := ParseBounds(limits); err == nil && lower != 0 && !(lower > 0 && lower <= upper) {
			t.Fatalf("bounds %v and %v", lower, upper)
		}
		rules, err := ParseRejections(names, limits)
		if err != nil {
			return
		}
		for _, r := range rules {
			require.NoError(t, r.check(), "%+v", r)
		}
	})
}
