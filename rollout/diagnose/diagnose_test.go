package diagnose

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/floats"
	"vagen/internal/testkit"
	"vagen/reward"
)

// sample has two groups of two rows; the second token of each row is context
// and holds NaN.
func sample() *Batch {
	nan := float32(math.NaN())
	return &Batch{
		Group: []string{"a", "a", "b", "b"}, Score: []float64{0, 2, 1, 1}, Shaped: []float64{0, 1.9, 1, 0.9},
		Truncated: []bool{false, true, false, false}, MaxLength: 3,
		Offsets:   []int{0, 3, 7, 9, 11},
		Mask:      []bool{true, false, true, true, false, true, true, true, false, true, false},
		Advantage: []float32{1, nan, 1, -1, nan, -1, 0, 2, nan, -3, nan},
		Value:     []float32{0, nan, 0, 1, nan, 1, 2, 1, nan, 1, nan},
		Target:    []float32{0, nan, 0, 2, nan, 2, 2, 1, nan, 1, nan},
		Parts: []reward.Parts{
			{{Name: "format", Value: 1}, {Name: "success", Value: 0}},
			{{Name: "success", Value: 2}, {Name: "format", Value: 0.5}, {Name: "format", Value: 0.5}},
			{{Name: "format", Value: 1}},
			{{Name: "format", Value: 0.5}, {Name: "success", Value: 0.5}},
		},
	}
}

func measured(t *testing.T, m Metric, b *Batch) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	require.NoError(t, m(got, b))
	return got
}

func same(t *testing.T, got, want map[string]float64) {
	t.Helper()
	require.InDeltaMapValues(t, want, got, 1e-9)
}

func TestMetricsAreThoseOfTheirFormulas(t *testing.T) {
	b := sample()
	same(t, measured(t, RewardVariance, b), map[string]float64{
		"reward_variance": 0.5, "reward_variance/min": 0, "reward_variance/max": 1, "reward_variance/zero_share": 0.5,
	})
	// Targets 0 0 2 2 2 1 1 have variance 34/42 by n − 1, the errors 0 0 1 1 0 0 0 have 10/42.
	same(t, measured(t, ExplainedVariance, b), map[string]float64{"explained_variance": 1 - 10.0/42/(34.0/42+1e-5)})
	same(t, measured(t, ResponseLength, b), map[string]float64{
		"response_length/mean": 7.0 / 4, "response_length/min": 1, "response_length/max": 3, "response_length/p95": 3,
		"response_length/clip_ratio": 0.25, "response_length/truncated": 0.25,
		"prompt_length/mean": 1, "prompt_length/min": 1, "prompt_length/max": 1,
	})
}

// TestScoresAreThoseOfRollouts, as in VAGEN's main of summer 2026: a harness that splits rollouts into rows does not
// make them smaller.
func TestScoresAreThoseOfRollouts(t *testing.T) {
	b := &Batch{
		Score: []float64{0, 2, 1, 1}, Shaped: []float64{0, 1.5, 1, 0.5}, Trajectory: []string{"x", "y", "x", "z"},
	}
	same(t, measured(t, Data, b), map[string]float64{
		"critic/score/mean": 4.0 / 3, "critic/score/max": 2, "critic/score/min": 1,
		"critic/score/by_row/mean": 1, "critic/score/by_row/max": 2, "critic/score/by_row/min": 0,
		"critic/rewards/mean": 0.75, "critic/rewards/max": 1.5, "critic/rewards/min": 0,
	})
	rows := map[string]float64{
		"critic/score/mean": 1, "critic/score/max": 2, "critic/score/min": 0,
		"critic/rewards/mean": 0.75, "critic/rewards/max": 1.5, "critic/rewards/min": 0,
	}
	b.Trajectory = []string{"x", "y", "z", "w"}
	same(t, measured(t, Data, b), rows)
	b.Trajectory = nil
	same(t, measured(t, Data, b), rows)
}

func TestExplainedVarianceIsOneForAPerfectCritic(t *testing.T) {
	b := sample()
	b.Value = b.Target
	require.EqualValues(t, 1, measured(t, ExplainedVariance, b)["explained_variance"])
	b.ValueMask = make([]bool, len(b.Mask))
	b.ValueMask[0] = true
	require.Empty(t, measured(t, ExplainedVariance, b), "one position has no variance")
	b.ValueMask[3] = true
	b.Value = make([]float32, len(b.Mask)) // worth nothing: knows no more than a constant
	require.InDelta(t, 0, measured(t, ExplainedVariance, b)["explained_variance"], 1e-5)
}

func TestLongestFiveInAHundredAreBeyondP95(t *testing.T) {
	b := &Batch{Offsets: []int{0}}
	for n := range 100 {
		for range 100 - n {
			b.Mask = append(b.Mask, true)
		}
		b.Offsets = append(b.Offsets, len(b.Mask))
	}
	require.EqualValues(t, 95, measured(t, ResponseLength, b)["response_length/p95"], "of lengths 1 to 100")
}

func TestTheShareOfARewardPartIsWhatVariesInItsGroup(t *testing.T) {
	// Masses: 2, 2, 2, 3. Group a: only success varies. Group b: format and
	// success vary by the same amount.
	same(t, measured(t, AdvantageShare, sample()), map[string]float64{
		"advantage_share/success":     (2 + 2 + 1 + 1.5) / 9,
		"advantage_share/format":      (1 + 1.5) / 9,
		"advantage_share/unexplained": 0,
	})
}

func TestAdvantageWithoutVaryingPartsIsUnexplained(t *testing.T) {
	b := sample()
	b.Group = []string{"a", "a", "a", "b"} // the mean of three 0.1 is not 0.1 after rounding
	for row := range b.Parts {
		b.Parts[row] = reward.Parts{{Name: "format", Value: 0.1}}
	}
	same(t, measured(t, AdvantageShare, b),
		map[string]float64{"advantage_share/format": 0, "advantage_share/unexplained": 1})
}

func TestGroupsOfOneAreComparedWithTheBatch(t *testing.T) {
	b := sample()
	b.Group = []string{"a", "b", "c", "d"}
	got := measured(t, AdvantageShare, b)
	// Means over the batch: format 0.875, success 0.625.
	away := [][2]float64{{0.125, 0.625}, {0.125, 1.375}, {0.125, 0.625}, {0.375, 0.125}}
	var format float64
	for i, mass := range []float64{2, 2, 2, 3} {
		format += mass * away[i][0] / (away[i][0] + away[i][1]) / 9
	}
	same(t, got, map[string]float64{
		"advantage_share/format": format, "advantage_share/success": 1 - format, "advantage_share/unexplained": 0,
	})
	b.Group = nil // one group: the same means
	same(t, measured(t, AdvantageShare, b), got)
}

func TestAbsentColumnsWriteNothing(t *testing.T) {
	r := Builtin()
	for _, b := range []*Batch{{}, {Offsets: []int{0}},
		{Offsets: []int{0}, Group: []string{}, Score: []float64{}, Parts: []reward.Parts{}, Advantage: []float32{},
			Text: []string{}}} {
		got := map[string]float64{}
		require.NoError(t, r.Measure(got, b))
		require.Empty(t, got)
	}
}

func TestBatchesThatDoNotFitAreRefusedByEveryMetric(t *testing.T) {
	r := Builtin()
	for name, spoil := range map[string]func(*Batch){
		"mask":           func(b *Batch) { b.Mask = b.Mask[:5] },
		"offsets":        func(b *Batch) { b.Offsets = []int{0, 5, 3, 9, 11} },
		"first offset":   func(b *Batch) { b.Offsets[0] = 1 },
		"empty offsets":  func(b *Batch) { b.Offsets = []int{} },
		"score":          func(b *Batch) { b.Score = b.Score[:1] },
		"empty targets":  func(b *Batch) { b.Target = []float32{} },
		"value mask":     func(b *Batch) { b.ValueMask = []bool{true} },
		"parts":          func(b *Batch) { b.Parts = append(b.Parts, nil) },
		"too many texts": func(b *Batch) { b.Text = make([]string, 9) },
	} {
		b := sample()
		spoil(b)
		for _, metric := range r.Names() {
			measure, err := r.New(metric)
			require.NoError(t, err)
			require.ErrorIs(t, measure(map[string]float64{}, b), ErrLength, "%s, %s", name, metric)
		}
		require.ErrorIs(t, r.Measure(map[string]float64{}, b), ErrLength, name)
	}
	require.ErrorIs(t, r.Measure(map[string]float64{}, nil), ErrLength)
	require.ErrorContains(t, r.Measure(nil, sample()), "the map of results is nil")
}

func TestNumbersThatAreNotFiniteAreNamed(t *testing.T) {
	nan := math.NaN()
	for says, c := range map[string]struct {
		m     Metric
		spoil func(*Batch)
	}{
		"advantage of token 0":   {AdvantageShare, func(b *Batch) { b.Advantage[0] = float32(nan) }},
		"advantage of token 7":   {Data, func(b *Batch) { b.Advantage[7] = float32(nan) }},
		"target of token 0":      {ExplainedVariance, func(b *Batch) { b.Target[0] = float32(nan) }},
		"value of token 0":       {Data, func(b *Batch) { b.Value[0] = float32(nan) }},
		"score of row 2":         {Data, func(b *Batch) { b.Score[2] = nan }},
		`part "format" of row 0`: {AdvantageShare, func(b *Batch) { b.Parts[0][0].Value = nan }},
	} {
		b := sample()
		c.spoil(b)
		err := c.m(map[string]float64{}, b)
		testkit.Error(t, err, ErrNotFinite, says)
	}
	b := sample()
	b.Score[1] = nan
	require.Error(t, RewardVariance(map[string]float64{}, b))
}

func TestUsersMetricsRunNextToTheBuiltInOnes(t *testing.T) {
	r := Builtin()
	broken := errors.New("broken")
	for name, m := range map[string]Metric{
		"best":   func(dst map[string]float64, b *Batch) error { dst["best"] = max(b.Score[0], b.Score[1]); return nil },
		"broken": func(dst map[string]float64, b *Batch) error { dst["half"] = 0.5; return broken },
		"nan":    func(dst map[string]float64, b *Batch) error { dst["nan"] = math.NaN(); return nil },
	} {
		require.NoError(t, r.Register(name, m))
	}
	got := map[string]float64{"kept": 7}
	err := r.Measure(got, sample(), "best", "broken", "nan", "data", "dato")
	want := measured(t, Data, sample())
	want["kept"], want["best"], want["half"] = 7, 2, 0.5
	same(t, got, want)
	for _, e := range []error{broken, ErrNotFinite, ErrUnknown} {
		require.ErrorIs(t, err, e)
	}
	require.ErrorContains(t, err, `did you mean "data"?`)
	require.ErrorIs(t, r.Register("data", Data), ErrDuplicate)
	require.Error(t, r.Register("", Data))
	require.Error(t, r.Register("none", nil))
	var zero Registry
	require.NoError(t, zero.Register("data", Data))
}

func TestEqualBatchesGiveEqualBits(t *testing.T) {
	r := Builtin()
	var first map[string]float64
	for range 20 {
		b := sample()
		b.Text = []string{"the player is left of the box", "the box is near", "the player is up",
			"the box is left of the wall"}
		got := map[string]float64{}
		require.NoError(t, r.Measure(got, b))
		if first == nil {
			first = got
		}
		require.Equal(t, first, got)
	}
	require.GreaterOrEqual(t, len(first), 24)
}

// Whatever the bytes, metrics are finite or an error is returned.
func FuzzMeasure(f *testing.F) {
	f.Add([]byte("aabbccdd00112233"), "the box is left", uint8(2))
	f.Add([]byte{0, 255, 128, 7}, "", uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, text string, n uint8) {
		r := Builtin()
		require.NoError(t, r.Register("other", TemplateCollapse(int(n))))
		b := &Batch{Offsets: []int{0}}
		words := strings.Fields(text)
		for i, x := range data {
			v := math.Float32frombits(uint32(x)<<24 | uint32(i)<<13)
			b.Mask = append(b.Mask, x&1 == 0)
			b.Advantage = append(b.Advantage, v)
			b.Value, b.Target = append(b.Value, v), append(b.Target, float32(x))
			if x&6 != 0 {
				continue
			}
			b.Offsets = append(b.Offsets, i+1)
			b.Group = append(b.Group, fmt.Sprint(x%3))
			b.Score = append(b.Score, float64(v))
			b.Parts = append(b.Parts, reward.Parts{{Name: text, Value: float64(v)}})
			b.Text = append(b.Text, strings.Join(words[min(i, len(words)):], " "))
		}
		got := map[string]float64{}
		_ = r.Measure(got, b)
		for name, v := range got {
			if !floats.Finite(v) {
				t.Fatalf("%s = %v", name, v)
			}
			if strings.HasPrefix(name, "template/") && name != "template/index" && (v < 0 || v > 1) {
				t.Fatalf("%s = %v", name, v)
			}
		}
	})
}
