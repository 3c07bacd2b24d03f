package client

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/policy/chat"
	"vagen/reward/judge"
)

// TestTheJudgesDelayIsHonoured also where it is longer than an attempt may take.
func TestTheJudgesDelayIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := judge.DefaultStateReward()
		b.Service.Timeout, b.Service.StepBudget = 1, 0
		after, asked := time.Minute, 0
		c := newClient(b.Service, func(context.Context, []string) ([]string, []error, error) {
			if asked++; asked == 1 {
				return []string{""}, []error{&chat.Error{Err: chat.ErrBusy, RetryAfter: after}}, nil
			}
			return []string{"yes"}, []error{nil}, nil
		}, nil)
		c.check = func(string, string) error { return nil }
		begin := time.Now()
		var other sync.WaitGroup
		other.Go(func() {
			time.Sleep(10 * time.Second)
			_, _, err := c.Complete(t.Context(), []string{"c"})
			assert.NoError(t, err)
			assert.Equal(t, time.Minute, time.Since(begin), "another claim waits, too")
		})
		answers, errs, err := c.Complete(t.Context(), []string{"a"})
		other.Wait()
		require.NoError(t, err)
		require.NoError(t, errs[0])
		require.Equal(t, "yes", answers[0])
		require.Equal(t, time.Minute, time.Since(begin))

		after, asked = 24*time.Hour, 0
		_, errs, err = c.Complete(t.Context(), []string{"b"})
		require.NoError(t, err)
		require.Error(t, errs[0])
		require.Equal(t, 1, asked, "a day is not waited for")

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		begin = time.Now()
		_, errs, err = c.Complete(ctx, []string{"c"})
		require.NoError(t, err)
		require.ErrorContains(t, errs[0], string(Busy))
		require.Zero(t, time.Since(begin), "the hour that it asks for ends after the claim's time")
		require.Equal(t, 1, asked)
	})
}
