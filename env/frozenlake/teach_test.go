package frozenlake

import (
	"errors"
	"math/rand/v2"
	"testing"

	"vagen/env"
)

// TestTheTeacherSolvesLevelsUnlessItIsNoisy: without noise every lesson reaches the goal in the
// environment's format with correct statements, with much noise few do.
func TestTheTeacherSolvesLevelsUnlessItIsNoisy(t *testing.T) {
	solved := map[float64]int{}
	for _, noise := range []float64{0, 0.9} {
		for seed := range int64(30) {
			o := DefaultOptions(env.Lite)
			o.MaxActions = 1
			e, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Reset(t.Context(), seed); err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(uint64(seed), 1))
			for range 12 {
				text, err := e.Teach("shortest_path", noise, r)
				if err != nil {
					t.Fatal(err)
				}
				out, err := e.Step(t.Context(), text)
				if err != nil {
					t.Fatal(err)
				}
				if !out.Response.FormatCorrect || len(out.Response.Actions) != 1 {
					t.Fatalf("%q: format correct %v, actions %q", text, out.Response.FormatCorrect, out.Response.Actions)
				}
				if out.Success {
					solved[noise]++
				}
				if out.Done {
					break
				}
			}
		}
	}
	if solved[0] != 30 || solved[0.9] > 15 {
		t.Errorf("solved %d of 30 without noise and %d with noise 0.9, want 30 and at most 15", solved[0], solved[0.9])
	}
	e, err := New(DefaultOptions(env.Lite))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Teach("wizard", 0, nil); !errors.Is(err, env.ErrScript) {
		t.Errorf("an unknown script gives %v, want env.ErrScript", err)
	}
	var judged env.Teacher = env.Judged{Env: e}
	if len(judged.Scripts()) != 4 {
		t.Errorf("a judged environment has the scripts %q, want those of the environment", judged.Scripts())
	}
}
