package navigation

import (
	"context"
	"testing"

	"vagen/env"
)

func newBench(b *testing.B, mode string) *Env {
	o := DefaultOptions(env.Lite)
	o.RenderMode = mode
	e, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := e.Reset(context.Background(), 1); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	return e
}

func BenchmarkReset(b *testing.B) {
	e := newBench(b, env.Text)
	for i := range b.N {
		if _, err := e.Reset(context.Background(), int64(i)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	for _, mode := range []string{env.Text, env.Vision} {
		b.Run(mode, func(b *testing.B) {
			e := newBench(b, mode)
			for b.Loop() {
				if _, err := e.Step(context.Background(), "<think>on</think><action>turn_left|move_forward</action>"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
