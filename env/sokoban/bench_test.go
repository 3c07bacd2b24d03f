package sokoban

import (
	"context"
	"testing"

	"vagen/env"
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
	for name, change := range map[string]func(*Options){
		"6x6x1":   func(*Options) {},
		"7x7x2":   func(o *Options) { o.Room, o.Boxes = [2]int{7, 7}, 2 },
		"8x8x3":   func(o *Options) { o.Room, o.Boxes = [2]int{8, 8}, 3 },
		"solve":   func(o *Options) { o.MinSolution = &[2]int{1, 5} },
		"10x10x4": func(o *Options) { o.Room, o.Boxes = [2]int{10, 10}, 4 },
	} {
		b.Run(name, func(b *testing.B) {
			e := newBench(b, change)
			for i := range b.N {
				if _, err := e.Reset(context.Background(), int64(i%100)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkStepText(b *testing.B) {
	e := newBench(b, func(o *Options) { o.PromptFormat = "free_think" })
	for b.Loop() {
		if _, err := e.Step(context.Background(), "<think>down</think><answer>Left,Right</answer>"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDraw168(b *testing.B) {
	e := newBench(b, func(o *Options) { o.RenderMode = env.Vision })
	for b.Loop() {
		e.draw.draw(e.room)
	}
}

func BenchmarkSolve(b *testing.B) {
	e := newBench(b, func(*Options) {})
	for b.Loop() {
		e.room.Solve(200)
	}
}
