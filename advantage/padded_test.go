package advantage

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPaddedRowsGiveWhatTheirBatchGives takes a batch to rows of equal length and back.
func TestPaddedRowsGiveWhatTheirBatchGives(t *testing.T) {
	ragged := good()
	const length = 64
	pad := func(column []bool) (out []bool) {
		numbers := make([]float32, len(column))
		for i, on := range column {
			if on {
				numbers[i] = 1
			}
		}
		padded, err := ToPadded[float32](ragged, numbers, length, 0)
		require.NoError(t, err)
		for _, x := range padded {
			out = append(out, x == 1)
		}
		return out
	}
	rewards, err := ToPadded[float64](ragged, ragged.Rewards, length, 0)
	values, err2 := ToPadded[float64](ragged, ragged.Values, length, 0)
	require.NoError(t, errors.Join(err, err2))
	attention := slices.Repeat([]bool{true}, ragged.Tokens())
	padded, err := FromPadded(Padded[float64]{
		Length: length, Rewards: rewards, Values: values, Attention: pad(attention), Loss: pad(ragged.Loss),
		GAE: pad(ragged.GAE), TurnEnd: pad(ragged.TurnEnd),
		Group: ragged.Group, Trajectory: ragged.Trajectory, Turn: ragged.Turn,
	})
	require.NoError(t, err)
	est := Masked{Gamma: 0.9, Lambda: 0.8, Whiten: true}
	got, want := run(t, est, padded), run(t, est, ragged)
	shaped, err := ToPadded[float32](ragged, want.Advantages, length, 0)
	require.NoError(t, err)
	for i, on := range padded.Loss {
		if on {
			require.Equal(t, shaped[i], got.Advantages[i], "row %d, position %d", i/length, i%length)
		}
	}
}

func TestRowsOfExactlyTheirLength(t *testing.T) {
	b, err := FromPadded(Padded[float32]{Length: 1, Rewards: []float32{1, 2}})
	require.NoError(t, err)
	_, err = ToPadded[float32](b, b.Rewards, math.MaxInt, 0)
	require.ErrorIs(t, err, ErrLength)
	out, err := ToPadded[float32](b, b.Rewards, 1, 0)
	require.NoError(t, err)
	require.Equal(t, b.Rewards, out)
	b.Offsets = []int{0, 1, 3}
	_, err = ToPadded[float32](b, make([]float32, 3), 1, 0)
	refuse(t, "length", err, ErrLength, "row 1: 2 tokens")
}

func TestPaddedRowsOfOtherShapesAreRefused(t *testing.T) {
	for length, want := range map[int]string{
		0: "length: 0 tokens per row", 4: "must be above 0 and divide the 6 rewards", -3: "length: -3",
	} {
		_, err := FromPadded(Padded[float32]{Length: length, Rewards: make([]float32, 6)})
		refuse(t, "length", err, ErrLength, want)
	}
	_, err := FromPadded(Padded[float32]{Length: 3, Rewards: make([]float32, 6), Loss: make([]bool, 5)})
	refuse(t, "loss", err, ErrLength, "padded rows: loss: length 5")
	b := good()
	_, err = ToPadded[float32](b, b.Rewards, 1, 0)
	refuse(t, "long row", err, ErrLength, "row 0", "length is 1")
	_, err = ToPadded[float32](b, b.Rewards[1:], 99, 0)
	refuse(t, "short column", err, ErrLength, "column of")
	_, err = ToPadded[float32](nil, nil, 1, 0)
	refuse(t, "no batch", err, ErrNil)
}

// TestResizeMakesRoomForOtherEstimators: an estimator outside this package fills a Result
// that another one used before.
func TestResizeMakesRoomForOtherEstimators(t *testing.T) {
	b := good()
	out := run(t, TrajectoryTurn{Gamma: 1, Lambda: 1, Whiten: true}, b)
	out.Unread = 3
	out.Resize(2)
	if len(out.Advantages) != 2 || len(out.Returns) != 2 || out.ValueMask != nil || out.TurnID != nil ||
		out.Raw != (Moments{}) || out.Unread != 0 {
		t.Errorf("left over: %+v", out)
	}
}
