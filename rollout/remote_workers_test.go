package rollout_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// With run.workers: 0 all live environments of services are called at once, and two of this
// process; a number limits both.
func TestConcurrencyFollowsLiveEpisodesOfServices(t *testing.T) {
	for _, c := range []struct {
		workers int
		remote  bool
		most    int64
	}{{0, true, 40}, {0, false, 2}, {3, true, 3}, {3, false, 3}} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{delay: func(int64, string) time.Duration { return time.Second }}
			p := player(t, w, &parrot{})
			p.SetWorkers(c.workers)
			if c.remote {
				p.Envs.SetRemote("fake")
			}
			settled(t, w, p, episodes(40))
			require.Equal(t, c.most, w.busiest.Load(), "%+v", c)
		})
	}
}
