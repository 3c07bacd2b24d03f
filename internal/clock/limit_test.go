package clock

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLimit passes limits that are renewed, cleared, shortened and set again after the timer rang too early.
func TestLimit(t *testing.T) {
	type do struct {
		after time.Duration // since the one before
		set   time.Duration // 0 clears
	}
	for name, c := range map[string]struct {
		does []do
		ends time.Duration // since the start; 0 is never
	}{
		"one":               {[]do{{0, 10}}, 10},
		"cleared":           {[]do{{0, 10}, {5, 0}}, 0},
		"renewed":           {[]do{{0, 10}, {5, 10}}, 15},
		"renewed twice":     {[]do{{0, 10}, {9, 10}, {9, 10}}, 28},
		"shortened":         {[]do{{0, 100}, {5, 10}}, 15},
		"again":             {[]do{{0, 10}, {5, 0}, {20, 10}}, 35},
		"again before ring": {[]do{{0, 10}, {5, 0}, {1, 10}}, 16},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var ends atomic.Int64
				l := Limit{End: func() { require.Zero(t, ends.Swap(int64(time.Since(start))), "ended twice") }}
				for _, d := range c.does {
					time.Sleep(d.after)
					if d.set == 0 {
						l.Clear()
					} else {
						l.Set(d.set)
					}
				}
				time.Sleep(time.Hour)
				require.EqualValues(t, c.ends, ends.Load())
				l.Set(time.Second)
				l.Free()
				time.Sleep(time.Hour)
				require.EqualValues(t, c.ends, ends.Load(), "a freed limit ended")
			})
		})
	}
}
