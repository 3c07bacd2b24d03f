//go:build unix

package queue_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQueueChaos plays VAGEN_QUEUE episodes, 2,000 without the variable, of a stub through 8
// worker processes with up to 30 SIGKILLs of workers (3 without the variable, VAGEN_KILLS if
// that is set) and one of the trainer, and logs the rate.
func TestQueueChaos(t *testing.T) {
	n, kills := 2000, 3
	if v := os.Getenv("VAGEN_QUEUE"); v != "" {
		var err error
		n, err = strconv.Atoi(v)
		require.NoError(t, err)
		kills = 30
	}
	if v := os.Getenv("VAGEN_KILLS"); v != "" && n != 2000 {
		var err error
		kills, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	j := newJob(t, n, 1)
	j.Tries = many
	want := alone(t, j)
	r := rand.New(rand.NewPCG(1, 1))
	begin, killed, trainers, calls := time.Now(), 0, 0, 0
	every := 10 // ticks of 50 ms
	if n == 2000 {
		every = 4
	}
	out, deaths := supervise(t, j, 8, 16, func(trainer *exec.Cmd, workers []*exec.Cmd) {
		switch calls++; {
		case calls%every != 0:
		case killed < kills:
			killed++
			workers[r.IntN(len(workers))].Process.Kill()
			if trainers == 0 && killed > kills/3 {
				trainers++
				trainer.Process.Kill()
			}
		}
	})
	same(t, want, out.Sums)
	took := time.Since(begin).Seconds()
	var use syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &use))
	cpu := time.Duration(use.Utime.Nano() + use.Stime.Nano()).Seconds()
	t.Logf(
		"%d episodes in %.1f s, %.0f/s, with the starts of all processes; last trainer %.1f s; CPU time of trainers and workers %.1f s; %d processes killed; %v",
		n, took, float64(n)/took, out.Took, cpu, deaths, out.Gauges,
	)
}
