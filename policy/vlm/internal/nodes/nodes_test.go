package nodes

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy/vlm/internal/mpi/mpitest"
)

// joined connects ranks in this process.
func joined(t *testing.T, count int, change func(rank int, c *Config)) ([]*Communicator, []*mpitest.World, []error) {
	t.Helper()
	groups, errs := make([]*Communicator, count), make([]error, count)
	worlds := mpitest.Worlds(count)
	var wg sync.WaitGroup
	for rank, w := range worlds {
		c := Config{World: w, Timeout: 20 * time.Second, Facts: []Fact{{"devices", "2"}}}
		if change != nil {
			change(rank, &c)
		}
		wg.Go(func() { groups[rank], errs[rank] = Join(t.Context(), c) })
	}
	wg.Wait()
	return groups, worlds, errs
}

// all calls f for every rank at the same time.
func all(groups []*Communicator, f func(g *Communicator) error) []error {
	errs := make([]error, len(groups))
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() { errs[i] = f(g) })
	}
	wg.Wait()
	return errs
}

// exchange sends data in all directions.
func exchange(ctx context.Context, g *Communicator) error { return exchangeOf(ctx, g, 2) }

// exchangeOf swaps length numbers.
func exchangeOf(ctx context.Context, g *Communicator, length int) error {
	got, err := g.Gather(ctx, []byte{byte(g.ID())}, 1)
	for rank, x := range got {
		if len(x) != 1 || int(x[0]) != rank {
			return fmt.Errorf("rank %d sent %v: %w", rank, x, err)
		}
	}
	if err != nil {
		return err
	}
	partner := g.ID() ^ 1
	numbers, theirs := make([]float32, length), make([]float32, length)
	numbers[length-1] = float32(g.ID())
	err = g.Swap(ctx, partner,
		func(ctx context.Context, l *Link) error { return l.SendFloats(ctx, numbers) },
		func(ctx context.Context, l *Link) error { return l.ReceiveFloats(ctx, theirs) })
	if err == nil && theirs[length-1] != float32(partner) {
		err = fmt.Errorf("got %v", theirs[length-1])
	}
	return err
}

func TestRanksExchangeInAllDirections(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, count := range []int{2, 4, 8} {
		groups, _, errs := joined(t, count, nil)
		require.NoError(t, errors.Join(errs...))
		facts, length := groups[0].Sent(), 2
		if count == 2 {
			length = piece/4 + 1 // two messages
		}
		require.NoError(t, errors.Join(all(groups, func(g *Communicator) error {
			return exchangeOf(t.Context(), g, length)
		})...))
		require.Equal(t, int64(count-1+4*length), groups[0].Sent()-facts)
		errs = all(groups, func(g *Communicator) error {
			if g.ID() == 0 {
				return errors.Join(g.Command(t.Context(), []byte("order")), g.Close())
			}
			got, err := g.Next(t.Context())
			if string(got) != "order" {
				return fmt.Errorf("got %q, %w", got, err)
			}
			if _, err = g.Next(t.Context()); !errors.Is(err, ErrEnded) {
				return fmt.Errorf("no end: %w", err)
			}
			return g.Close()
		})
		require.NoError(t, errors.Join(errs...))
	}
	// Eventually has a goroutine of its own.
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, 10*time.Millisecond,
		"goroutines are left")
}

// wait takes part in no exchange: rank 0 as if it played, the others as if it did.
func wait(ctx context.Context, g *Communicator) error {
	if g.ID() == 0 {
		<-g.life.Done()
		return g.Err()
	}
	_, err := g.Next(ctx)
	return err
}

// TestOneRankEndsAll: one that fails, one of which nothing is heard, one that does not take part, and one that is
// interrupted or closes its group.
func TestOneRankEndsAll(t *testing.T) {
	t.Parallel()
	quick := func(rank int, c *Config) { c.Timeout = time.Second }
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		is     error // of the other ranks' errors
		says   string
		change func(rank int, c *Config)
		end    func(g *Communicator, w *mpitest.World) error
		others func(ctx context.Context, g *Communicator) error
	}{
		"fails": {
			is: ErrFailed, says: "rank 2: it failed: no memory", others: wait,
			end: func(g *Communicator, _ *mpitest.World) error { return g.Fail(errors.New("no memory")) },
		},
		"is cut off": {
			is: ErrLost, says: "rank 2 gave no sign of life for 1s", change: quick, others: wait,
			end: func(g *Communicator, w *mpitest.World) error { w.Cut(); return wait(t.Context(), g) },
		},
		"hangs while it lives": {
			is: nil, says: "rank 2: it did nothing for 1s", change: quick, others: exchange,
			end: func(g *Communicator, _ *mpitest.World) error { <-g.life.Done(); return g.Err() },
		},
		"is interrupted": {
			is: ErrFailed, says: "context canceled", others: exchange,
			end: func(g *Communicator, _ *mpitest.World) error { return exchange(canceled, g) },
		},
		"closes": {
			is: ErrFailed, says: "rank 2 has closed the group", others: wait,
			end: func(g *Communicator, _ *mpitest.World) error { return errors.Join(g.Close(), g.Err()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			groups, worlds, errs := joined(t, 4, c.change)
			require.NoError(t, errors.Join(errs...))
			for rank, err := range all(groups, func(g *Communicator) error {
				if g.ID() == 2 {
					return c.end(g, worlds[2])
				}
				return c.others(t.Context(), g)
			}) {
				require.Error(t, err, "rank %d", rank)
				require.ErrorIs(t, err, groups[rank].Fail(errors.New("another")), "the first error stays")
				if rank != 2 && c.is != nil {
					require.True(t, errors.Is(err, c.is) || errors.Is(err, ErrFailed), "rank %d: %v", rank, err)
				}
				if rank != 2 {
					require.ErrorContains(t, err, c.says, "rank %d", rank)
				}
			}
		})
	}
}

// TestRanksWaitLongerThanTheTimeoutForACommand: rank 0 lives.
func TestRanksWaitLongerThanTheTimeoutForACommand(t *testing.T) {
	t.Parallel()
	const timeout = 200 * time.Millisecond
	groups, _, errs := joined(t, 2, func(_ int, c *Config) { c.Timeout = timeout })
	require.NoError(t, errors.Join(errs...))
	require.NoError(t, errors.Join(all(groups, func(g *Communicator) error {
		if g.ID() == 1 {
			_, err := g.Next(t.Context())
			return err
		}
		time.Sleep(3 * timeout)
		return g.Command(t.Context(), nil)
	})...))
	all(groups, func(g *Communicator) error { return g.Fail(ErrEnded) })
}

func TestRanksThatDifferAreRefused(t *testing.T) {
	_, _, errs := joined(t, 4, func(rank int, c *Config) {
		if rank == 1 {
			c.Facts = []Fact{{"devices", "4"}}
		}
		if rank == 3 {
			c.Facts = nil
		}
	})
	for _, err := range errs {
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, "devices is 2 on rank 0 and 4 on rank 1, must be the same")
		require.ErrorContains(t, err, "devices is 2 on rank 0 and nothing on rank 3, must be the same")
	}
	_, _, errs = joined(t, 2, func(_ int, c *Config) { c.Timeout = -1 })
	require.ErrorContains(t, errs[0], "Timeout -1ns, must be positive")
}

// TestARankThatIsMissingIsNamed: it never joins.
func TestARankThatIsMissingIsNamed(t *testing.T) {
	_, err := Join(t.Context(), Config{World: mpitest.Worlds(2)[0], Timeout: 100 * time.Millisecond})
	testkit.Error(t, err, ErrLost, "rank 1: it did nothing for 100ms")
}

// TestWhatDoesNotFitIsRefused: sizes and kinds of frames.
func TestWhatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	for says, receive := range map[string]transfer{
		"rank 0 sent 8 bytes, at most 7 are allowed": func(ctx context.Context, l *Link) error {
			_, err := l.Receive(ctx, 7)
			return err
		},
		"rank 0 sent 8 bytes, expected 4": func(ctx context.Context, l *Link) error {
			return l.ReceiveFloats(ctx, make([]float32, 1))
		},
		"rank 0 sent a frame of kind 1 and 8 bytes, expected kind 2": func(ctx context.Context, l *Link) error {
			_, err := l.header(ctx, command, 0)
			return err
		},
	} {
		groups, _, errs := joined(t, 2, nil)
		require.NoError(t, errors.Join(errs...))
		errs = all(groups, func(g *Communicator) error {
			send := func(ctx context.Context, l *Link) error { return l.SendFloats(ctx, []float32{1, 2}) }
			return g.Broadcast(t.Context(), send, receive)
		})
		testkit.Error(t, errs[1], ErrProtocol, says)
	}
}
