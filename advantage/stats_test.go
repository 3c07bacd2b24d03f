package advantage

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

func TestMomentsAreThoseUnderTheMask(t *testing.T) {
	x := []float32{2, 100, 4, 9, -100}
	m := momentsOf(x, []bool{true, false, true, true, false})
	require.Equal(t, Moments{N: 3, Mean: 5, M2: 26}, m)
	require.Equal(t, 13.0, m.Variance())
	require.Equal(t, (Moments{N: 2, Mean: 2, M2: 2}), momentsOf([]float32{1, 3}, nil), "without mask")
}

func TestWhiteningByHand(t *testing.T) {
	x := []float32{1, 3, 7}
	in := []bool{true, true, false}
	dst := make([]float32, 3)
	m, err := Whitening{}.Apply(dst, x, in)
	require.NoError(t, err)
	require.Equal(t, 2.0, m.Mean)
	// Mean 2 and variance 2 under the mask; the third number is mapped along.
	const s = math.Sqrt2
	require.InDeltaSlice(t, []float64{-1 / s, 1 / s, 5 / s}, dst, 1e-6)
	_, err = Whitening{KeepMean: true}.Apply(dst, x, in)
	require.NoError(t, err)
	require.InDelta(t, 2-1/s, dst[0], 1e-6, "keeping the mean")
	_, err = Whitening{}.Apply(x, x, nil)
	require.NoError(t, err)
	require.InDelta(t, 0, x[0]+x[1]+x[2], 1e-6, "in place")
}

func TestWhiteningRefusesBadInput(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name   string
		w      Whitening
		dst, x []float32
		mask   []bool
		want   error
		word   string
	}{
		{"nothing", Whitening{}, nil, nil, nil, ErrEmptyMask, "0 of them"},
		{"one number", Whitening{}, make([]float32, 1), make([]float32, 1), nil, ErrEmptyMask, "1 of them"},
		{"empty mask", Whitening{}, make([]float32, 2), make([]float32, 2), make([]bool, 2), ErrEmptyMask, "0 of them"},
		{"short dst", Whitening{}, make([]float32, 1), make([]float32, 2), nil, ErrLength, "2 numbers"},
		{"short mask", Whitening{}, make([]float32, 2), make([]float32, 2), make([]bool, 1), ErrLength, "1 in mask"},
		{"NaN off the mask", Whitening{}, make([]float32, 3), []float32{1, 2, nan}, []bool{true, true, false}, ErrNotFinite,
			"position 2"},
		{"negative guard", Whitening{Guard: -1}, make([]float32, 2), make([]float32, 2), nil, ErrParameter, "guard"},
		{"infinite guard", Whitening{Guard: math.Inf(1)}, make([]float32, 2), make([]float32, 2), nil, ErrParameter, "guard"},
	} {
		_, err := c.w.Apply(c.dst, c.x, c.mask)
		testkit.Error(t, err, c.want, c.word)
	}
}

// TestWhiteningNeverStoresInfinity: if the numbers in the mask are equal, all numbers,
// also those outside it, are multiplied by ten thousand.
func TestWhiteningNeverStoresInfinity(t *testing.T) {
	x := []float32{3, 3, 3e38}
	_, err := Whitening{}.Apply(x, x, []bool{true, true, false})
	require.ErrorIs(t, err, ErrNotFinite)
	b := &Batch{
		Offsets: []int{0, 3}, Rewards: []float32{3e38, 3e38, 0}, Values: make([]float32, 3),
		GAE: []bool{true, true, false}, Loss: []bool{true, true, false}, TurnEnd: []bool{true, true, false},
	}
	for _, est := range []Estimator{Masked{Whiten: true}, BiLevel{Whiten: true}, TurnWise{Whiten: true}} {
		var out Result
		refuse(t, "far from zero", est.Estimate(&out, b), ErrNotFinite, "after whitening")
	}
	b.Rewards = []float32{1, 1, 3e38}
	b.Attention = []bool{true, true, false}
	var out Result
	refuse(t, "padding", GAE{Whiten: true}.Estimate(&out, b), ErrNotFinite, "row 0, position 2")
}

// TestSpreadIsTakenNearTheData: advantages of about ten million that differ by ones keep
// their spread, because each row's sums are shifted by one of its own numbers.
func TestSpreadIsTakenNearTheData(t *testing.T) {
	b := batchOf(newGenerator(1).episodes(3, 3, true))
	for i := range b.Rewards {
		b.Rewards[i], b.Values[i] = 2e7+float32(2*(i%3)), 1e7
	}
	for _, name := range Names() {
		spec, err := Describe(name)
		require.NoError(t, err)
		if !spec.Critic {
			continue
		}
		// Without discounts an advantage is a reward minus a value.
		est := named(t, name, Params{Mix: 0.75})
		raw := run(t, est, b).Advantages
		over := b.Loss
		switch name {
		case "gae":
			over = b.Attention
		case "turn_wise_gae":
			over = b.TurnEnd
		}
		got := run(t, named(t, name, Params{Mix: 0.75, Whiten: true}), b).Raw
		want := momentsOf(raw, over)
		// Storage of the raw advantages rounds those that are sums over turns.
		require.InEpsilon(t, want.M2, got.M2, 1e-6, name)
		require.InEpsilon(t, want.Mean, got.Mean, 1e-7, name)
	}
}
