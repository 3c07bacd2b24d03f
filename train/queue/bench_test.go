package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/train/queue"
)

// BenchmarkEpisodes plays stub episodes through two workers in this process.
func BenchmarkEpisodes(b *testing.B) {
	o := options(b)
	o.Log = nil
	q := open(b, o)
	for range 2 {
		work(b, q.URL(), func(o *queue.WorkerOptions) {
			o.Slots, o.Open = 16, players(&traintest.Arena{}, traintest.Guesser())
		})
	}
	p := stubPlayer()
	p.Dealer = q
	b.ResetTimer()
	_, _, err := p.Play(b.Context(), stubEpisodes(b.N), 1)
	require.NoError(b, err)
}
