package frozenlake

import (
	"context"
	"testing"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/reward"
)

func newBench(b *testing.B, change func(*Options)) *Env {
	o := DefaultOptions(env.Lite)
	change(&o)
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
	e := newBench(b, func(*Options) {})
	for i := range b.N {
		if _, err := e.Reset(context.Background(), int64(i)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStepText(b *testing.B) {
	e := newBench(b, func(*Options) {})
	for b.Loop() {
		if _, err := e.Step(context.Background(), "<think>down</think><answer>Left,Right</answer>"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStepVision(b *testing.B) {
	e := newBench(b, func(o *Options) {
		o.RenderMode, o.Prompt, o.PromptFormat = env.Vision, options.Brief, reward.ObservePredict
		o.ObservationReward, o.PredictionReward, o.DescribeHoles = 0.05, 0.05, true
	})
	const response = "<think><observation>goal up right free none Down Right Up</observation>" +
		"<prediction>goal up right</prediction></think><answer>Left</answer>"
	for b.Loop() {
		if _, err := e.Step(context.Background(), response); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDraw112(b *testing.B) {
	m, err := Generate(env.Lite, 1, 4, 0.8)
	if err != nil {
		b.Fatal(err)
	}
	r := newRenderer(28, true, true)
	b.ReportAllocs()
	for b.Loop() {
		r.draw(m, m.Start())
	}
}
