package advantage

import (
	"errors"
	"testing"

	"vagen/mask"
)

func TestAppendBuildsTheBatchThatEstimatorsRead(t *testing.T) {
	var b Batch
	for row := range 2 {
		var s mask.Sequence
		if err := errors.Join(
			s.AppendContext(mask.Prompt, 1, 2),
			s.AppendResponse(3, 4),
			s.AppendContext(mask.Observation, 5),
			s.AppendResponse(6),
		); err != nil {
			t.Fatal(err)
		}
		r := Row{Rewards: []float32{0, 0, 0, 0.5, 0, 1}, Values: []float32{9, 9, 0.1, 0.2, 9, 0.3}, Group: row}
		if err := b.Append(&s, mask.DefaultOptions(), r); err != nil {
			t.Fatal(err)
		}
	}
	var out Result
	if err := (BiLevel{Gamma: 0.9, Lambda: 0.8, TurnGamma: 0.7}).Estimate(&out, &b); err != nil {
		t.Fatal(err)
	}
	// H2 = 1 − 0.3, H1 = 0.5 + 0.7·0.3 − 0.2 + 0.56·H2, A1 = 0.9·0.2 − 0.1 + 0.72·H1.
	h2 := 0.7
	h1 := 0.5 + 0.7*0.3 - 0.2 + 0.56*h2
	want := []float64{0, 0, 0.9*0.2 - 0.1 + 0.72*h1, h1, 0, h2}
	for i, got := range out.Advantages {
		if d := float64(got) - want[i%6]; d > 1e-6 || d < -1e-6 {
			t.Errorf("position %d: got %v, want %v", i, got, want[i%6])
		}
	}
}

func TestAppendRefusesOtherLengths(t *testing.T) {
	var s mask.Sequence
	if err := s.AppendResponse(1, 2); err != nil {
		t.Fatal(err)
	}
	var b Batch
	if err := b.Append(&s, mask.DefaultOptions(), Row{Rewards: []float32{1}}); !errors.Is(err, ErrLength) {
		t.Errorf("one reward for two tokens: got %v, want ErrLength", err)
	}
	if b.Rows() != 0 || b.Tokens() != 0 {
		t.Errorf("a refused row was added: %+v", b)
	}
}
