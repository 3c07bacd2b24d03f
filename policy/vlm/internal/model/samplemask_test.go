package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// Masked logits, as −Inf or as a huge negative number, leave the search for thresholds exact.
func TestMaskedLogitsDoNotSwitchRestrictionsOff(t *testing.T) {
	const rows, vocab = 96, 61
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		s := newSamplers(d)
		for _, masked := range []float64{math.Inf(-1), -1e30, -math.MaxFloat32} {
			for _, set := range []drawing{
				{temperature: 1, topK: 3}, {temperature: 1, topK: 60}, {temperature: 1, topP: 0.5},
				{temperature: 1.3, topK: 25, topP: 0.85, minP: 0.03},
			} {
				w := drawings(rows, vocab)
				w.temperature, w.topK, w.topP, w.minP = set.temperature, set.topK, set.topP, set.minP
				if !s.wants(w.sampler()) {
					continue
				}
				for i := range rows {
					for k := i % 7; k < vocab; k += 7 {
						w.logits[i*vocab+k] = masked
					}
				}
				ids, _ := s.draw(t, w)
				want, _, margin := w.plain()
				for i := range rows {
					if margin[i] >= 1e-4 {
						require.Equal(t, want[i], ids[i], "row %d of %+v, masked by %v", i, set, masked)
					}
				}
			}
		}
	})
}
