package mask_test

import (
	"testing"

	"vagen/mask"
)

// BenchmarkMasks derives all masks of a row of 4096 tokens: a prompt of 256,
// then ten turns of 192 with observations of 160 between them.
func BenchmarkMasks(b *testing.B) {
	s := new(mask.Sequence)
	if err := s.AppendContext(mask.Prompt, make([]int32, 256)...); err != nil {
		b.Fatal(err)
	}
	for turn := range 10 {
		if turn > 0 {
			if err := s.AppendContext(mask.Observation, make([]int32, 160)...); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.AppendResponse(make([]int32, 192)...); err != nil {
			b.Fatal(err)
		}
	}
	o := mask.Options{}
	var loss, gae, ends, values []bool
	b.SetBytes(int64(4 * s.Len()))
	b.ReportAllocs()
	for b.Loop() {
		loss, gae = s.Loss(loss[:0], o), s.Advantage(gae[:0], o)
		ends, values = s.TurnEnd(ends[:0]), s.Value(values[:0], o)
	}
}
