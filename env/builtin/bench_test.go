package builtin

import (
	"context"
	"testing"
	"time"
)

// BenchmarkTurns plays five turns of two moves after each reset, with consecutive seeds,
// and reports turns and resets per second, which can be compared with VAGEN's Python
// classes.
func BenchmarkTurns(b *testing.B) {
	say := map[string]string{
		"frozenlake": "<think>go</think><answer>Left,Down</answer>",
		"sokoban":    "<observation>o</observation><think>t</think><answer>Left,Down</answer><prediction>p</prediction>",
	}
	for _, name := range []string{"frozenlake", "sokoban"} {
		for _, mode := range []string{"text", "vision"} {
			b.Run(name+"/"+mode, func(b *testing.B) {
				e, err := Registry().New(name, map[string]any{"render_mode": mode})
				if err != nil {
					b.Fatal(err)
				}
				ctx := context.Background()
				var resets, steps int
				var resetting, stepping time.Duration
				for seed := int64(1); b.Loop(); seed++ {
					start := time.Now()
					if _, err := e.Reset(ctx, seed); err != nil {
						b.Fatal(err)
					}
					resetting += time.Since(start)
					resets++
					start = time.Now()
					for range 5 {
						out, err := e.Step(ctx, say[name])
						if err != nil {
							b.Fatal(err)
						}
						steps++
						if out.Done {
							break
						}
					}
					stepping += time.Since(start)
				}
				b.ReportMetric(float64(steps)/stepping.Seconds(), "turns/s")
				b.ReportMetric(float64(resets)/resetting.Seconds(), "resets/s")
			})
		}
	}
}
