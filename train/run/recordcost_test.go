package run

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/tinymodel"
	"vagen/internal/usage"
	"vagen/policy/vlm"
	"vagen/rollout/store"
	"vagen/train/config"
	"vagen/train/rundir"
	"vagen/train/track"
)

// BenchmarkRecording measures what recording adds to a training step: two runs that are
// equal but for what they record train in one process, in turn, one step each; which of them
// is first alternates. The times are CPU times of the whole process from the start of a step until
// its files are written, so other processes change them little. An iteration is a pair of
// steps. It prints the median of the paired differences in percent of the step without
// recording, with the interval of at least 95 % between two of the ordered differences, and
// the bytes of recorded scores per token of an episode and per token of a response.
//
// Scores adds trainer.rollout_data_scores to a run that records episodes and images; all
// compares recording episodes, images and scores with recording nothing.
func BenchmarkRecording(b *testing.B) {
	for _, c := range []struct {
		name          string
		without, with func(*config.Config, string)
	}{
		{"scores", recordEpisodes, recordScores},
		{"all", func(*config.Config, string) {}, recordScores},
	} {
		b.Run(c.name, func(b *testing.B) {
			without, with := startPaced(b, c.without), startPaced(b, c.with)
			for range 3 { // graphs are compiled for new shapes
				without.step(b)
				with.step(b)
			}
			var percent []float64
			var base []time.Duration
			for b.Loop() {
				pair := []*paced{without, with}
				if len(percent)%2 == 1 {
					slices.Reverse(pair)
				}
				pair[0].step(b)
				pair[1].step(b)
				base = append(base, without.took)
				percent = append(percent, 100*float64(with.took-without.took)/float64(without.took))
			}
			slices.Sort(percent)
			slices.Sort(base)
			k := intervalRank(len(percent))
			b.ReportMetric(median(percent), "median-%")
			b.ReportMetric(percent[k], "low-%")
			b.ReportMetric(percent[len(percent)-1-k], "high-%")
			b.ReportMetric(base[len(base)/2].Seconds(), "cpu-s/step")
			all, response := with.bytesPerToken(b)
			b.ReportMetric(all, "B/token")
			b.ReportMetric(response, "B/response-token")
		})
	}
}

func recordEpisodes(c *config.Config, dir string) {
	c.Trainer.RolloutDir = &dir
	c.Trainer.LogImage.Enable, c.Trainer.LogImage.Level = true, 1
}

func recordScores(c *config.Config, dir string) {
	recordEpisodes(c, dir)
	c.Trainer.RolloutScores = true
}

// median of ordered numbers.
func median(sorted []float64) float64 {
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// intervalRank is the largest k for which the k-th smallest and the k-th largest of n
// differences, counted from 0, contain the median with at least 95 %: the number below it
// has a binomial distribution. It is 0 if n is below 6, when the level is lower.
func intervalRank(n int) int {
	p, below := 1.0, 0.0
	for range n {
		p /= 2
	}
	k := 0
	for ; k < n/2; k++ {
		if below += p; below > 0.025 {
			break
		}
		p *= float64(n-k) / float64(k+1)
	}
	return max(0, k-1)
}

func TestTheIntervalOfAMedianIsThatOfTables(t *testing.T) {
	// Counted from 1: ranks of the sign test in tables of the binomial distribution.
	for n, rank := range map[int]int{1: 1, 5: 1, 6: 1, 8: 1, 9: 2, 12: 3, 20: 6, 30: 10, 40: 14} {
		require.Equal(t, rank, intervalRank(n)+1, "%d differences", n)
	}
	require.Equal(t, 2.5, median([]float64{1, 2, 3, 9}))
}

// paced is a run that trains one step at a time.
type paced struct {
	run           *Run
	dir           string
	reached, open chan struct{}
	ended         chan error
	took          time.Duration // CPU time of the last step
}

// startPaced starts a run at the quickstart's size with a fourth of its episodes.
func startPaced(b *testing.B, record func(*config.Config, string)) *paced {
	b.Helper()
	folder := b.TempDir()
	p := &paced{dir: filepath.Join(folder, "rollouts"), reached: make(chan struct{}), open: make(chan struct{}),
		ended: make(chan error, 1)}
	c := tinyRun("concat")
	c.Model.Backend, c.Model.CacheTokens, c.Model.MicroTokens = "auto", 256, 2240
	c.Env.Config["tile_size"], c.Env.Config["max_actions_per_step"] = 28, 2
	c.Algorithm.Estimator, c.Algorithm.TurnGamma = "bi_level_gae", 0.95
	c.Data.TrainBatch, c.Data.MaxResponse, c.Agent.Actor.MiniBatch, c.Agent.Actor.Epochs = 32, 24, 32, 2
	c.Rollout.Trajectories = 1
	c.Agent.Actor.UseKLLoss, c.Agent.Actor.Optim.Rate = true, 1e-5
	c.Trainer.Steps, c.Trainer.SaveFreq, c.Trainer.TestFreq, c.Trainer.ValBefore = 1<<20, -1, -1, false
	record(&c, p.dir)
	c.Agent.Model.Path = tinymodel.Create(b, vlm.Small(), lakeWords, 3)
	r, err := Open(b.Context(), c, Options{Dir: filepath.Join(folder, "run")})
	require.NoError(b, err)
	p.run = r
	ctx, stop := context.WithCancel(b.Context())
	pause := func() {
		select {
		case p.reached <- struct{}{}:
		case <-ctx.Done():
		}
		select {
		case <-p.open:
		case <-ctx.Done():
		}
	}
	r.Sinks = append(r.Sinks, track.SinkFunc(func(e track.Event) error {
		if e.Kind == track.KindStep {
			pause()
		}
		return nil
	}))
	go func() { p.ended <- r.Train(ctx) }()
	b.Cleanup(func() {
		stop()
		<-p.ended // training was stopped
		require.NoError(b, r.Close())
	})
	p.wait(b)
	return p
}

func (p *paced) wait(b *testing.B) {
	b.Helper()
	select {
	case <-p.reached:
	case err := <-p.ended:
		p.ended <- err
		require.FailNow(b, "training ended", "%v", err)
	}
}

// step lets the run train one step and waits until its files are written.
func (p *paced) step(b *testing.B) {
	b.Helper()
	runtime.GC() // each step starts with a heap that is collected
	begin := usage.CPUTime()
	p.open <- struct{}{}
	p.wait(b)
	if a := p.run.archives.of[rollouts]; a != nil {
		require.NoError(b, a.flush())
	}
	p.took = usage.CPUTime() - begin
}

// bytesPerToken is the size of all recorded scores per token, and per token of a response.
func (p *paced) bytesPerToken(b *testing.B) (all, response float64) {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(p.dir, "step_*.scores.parquet"))
	require.NoError(b, err)
	require.NotEmpty(b, files)
	var bytes int64
	tokens, written := 0, 0
	for i := range files {
		path := filepath.Join(p.dir, rundir.ScoresName(i+1))
		info, err := os.Stat(path)
		require.NoError(b, err)
		bytes += info.Size()
		scores, err := store.LoadScores(path)
		require.NoError(b, err)
		for k := range scores {
			tokens += scores[k].Len()
			for _, on := range scores[k].Scored {
				if on {
					written++
				}
			}
		}
	}
	return float64(bytes) / float64(tokens), float64(bytes) / float64(written)
}
