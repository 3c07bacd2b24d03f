package advantage

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/mask"
)

// good is a batch that every estimator accepts.
func good() *Batch {
	rows := newGenerator(5).episodes(2, 3, true)
	for i := range rows {
		rows[i].traj = 100 + i
	}
	return batchOf(rows)
}

// onceEach runs a test for every estimator.
func onceEach(t *testing.T, check func(t *testing.T, spec Spec, est Estimator)) {
	t.Helper()
	for _, name := range Names() {
		spec, err := Describe(name)
		require.NoError(t, err)
		t.Run(name, func(t *testing.T) { check(t, spec, named(t, name, testParams())) })
	}
}

// refuse checks kind and text of an error.
func refuse(t *testing.T, what string, err, kind error, words ...string) {
	t.Helper()
	require.ErrorIs(t, err, kind, what)
	for _, w := range append(words, "advantage: ") {
		require.ErrorContains(t, err, w, what)
	}
}

func TestNilBatchesAndResultsAreErrors(t *testing.T) {
	onceEach(t, func(t *testing.T, _ Spec, est Estimator) {
		refuse(t, "no batch", est.Estimate(new(Result), nil), ErrNil, "batch: is nil")
		refuse(t, "no result", est.Estimate(nil, good()), ErrNil, "result: is nil")
	})
	var b Batch
	refuse(t, "no sequence", b.Append(nil, mask.Options{}, Row{}), ErrNil, "sequence: is nil")
	require.Zero(t, b.Rows(), "a refused row was added")
	refuse(t, "append to no batch", (*Batch)(nil).Append(new(mask.Sequence), mask.Options{}, Row{}), ErrNil,
		"batch: is nil")
	require.ErrorIs(t, (*Batch)(nil).Check(), ErrNil)
}

func TestWrongLengthsAreRefused(t *testing.T) {
	for _, c := range []struct {
		field string
		spoil func(b *Batch)
	}{
		{"offsets: none", func(b *Batch) { b.Offsets = nil }},
		{"offsets: first is 1", func(b *Batch) { b.Offsets[0] = 1 }},
		{"offsets: row 1: from ", func(b *Batch) { b.Offsets[2] = b.Offsets[1] - 1 }},
		{"offsets: last", func(b *Batch) { b.Offsets[len(b.Offsets)-1]++ }},
		{"values: length ", func(b *Batch) { b.Values = b.Values[1:] }},
		{"attention", func(b *Batch) { b.Attention = b.Attention[1:] }},
		{"loss", func(b *Batch) { b.Loss = append(b.Loss, true) }},
		{"gae", func(b *Batch) { b.GAE = b.GAE[1:] }},
		{"turn_end", func(b *Batch) { b.TurnEnd = b.TurnEnd[1:] }},
		{"group", func(b *Batch) { b.Group = b.Group[1:] }},
		{"trajectory", func(b *Batch) { b.Trajectory = append(b.Trajectory, 1) }},
		{"turn", func(b *Batch) { b.Turn = b.Turn[1:] }},
		{"baselines", func(b *Batch) { b.Baselines = b.Baselines[1:] }},
	} {
		for _, name := range Names() {
			b := good()
			c.spoil(b)
			var out Result
			refuse(t, name+": "+c.field, named(t, name, testParams()).Estimate(&out, b), ErrLength, name0(name), c.field)
		}
		b := good()
		c.spoil(b)
		_, err := b.Episodes()
		refuse(t, "episodes: "+c.field, err, ErrLength, c.field)
		_, err = b.TurnIDs(nil)
		refuse(t, "turn ids: "+c.field, err, ErrLength, c.field)
	}
}

// name0 is an estimator's name in errors: a name that is a preset of another estimator
// has that one's.
func name0(name string) string {
	switch name {
	case "masked_grpo", "lite_grpo":
		return "grpo"
	case "bi_level_gae_varlam":
		return "trajectory_bi_level_gae"
	case "no_concat_gae_first", "no_concat_gae_last":
		return "no_concat_gae"
	}
	return name
}

// TestNotFiniteInputsAreRefused puts NaN and infinities at every position of the
// second row, model tokens and context alike.
func TestNotFiniteInputsAreRefused(t *testing.T) {
	onceEach(t, func(t *testing.T, spec Spec, est Estimator) {
		lo, hi := good().Row(1)
		for _, x := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			for at := lo; at < hi; at++ {
				b := good()
				b.Rewards[at] = x
				var out Result
				position := fmt.Sprintf("row 1, position %d: ", at-lo)
				refuse(t, "reward", est.Estimate(&out, b), ErrNotFinite, "rewards: "+position)
				if spec.Critic {
					b := good()
					b.Values[at] = x
					refuse(t, "value", est.Estimate(&out, b), ErrNotFinite, "values: "+position)
				}
			}
			if spec.Baselines {
				b := good()
				b.Baselines[2] = x
				var out Result
				refuse(t, "baseline", est.Estimate(&out, b), ErrNotFinite, "baselines: row 2")
			}
		}
	})
}

// TestUnreadInputsMayBeAnything: inputs that an estimator does not read cannot change
// its result.
func TestUnreadInputsMayBeAnything(t *testing.T) {
	onceEach(t, func(t *testing.T, spec Spec, est Estimator) {
		if spec.Critic {
			return
		}
		b := good()
		b.Values[3] = float32(math.NaN())
		run(t, est, b)
		b.Values = nil
		run(t, est, b)
	})
}

// TestOverflowingResultsAreRefused: inputs at the edge of float32 are legal, a
// result beyond it is not stored as infinity.
func TestOverflowingResultsAreRefused(t *testing.T) {
	onceEach(t, func(t *testing.T, spec Spec, _ Estimator) {
		if _, ok := spec.New(testParams()).(MaxRL); ok || spec.Name == "gdpo_trl" {
			return // quotients of large scores are not large
		}
		p := testParams()
		p.Gamma, p.Lambda, p.Whiten, p.NormByStd = 1, 1, false, false
		p.TurnGamma, p.TurnLambda, p.TokenLambda = 1, 1, 1
		b := good()
		for i := range b.Rewards {
			b.Rewards[i], b.Values[i] = -math.MaxFloat32, 0
			if i < b.Offsets[1] {
				b.Rewards[i] = math.MaxFloat32
			}
		}
		for i := range b.Baselines {
			b.Baselines[i] = -math.MaxFloat32
		}
		for i := range b.Group {
			b.Group[i], b.Trajectory[i] = 0, i
		}
		var out Result
		refuse(t, spec.Name, named(t, spec.Name, p).Estimate(&out, b), ErrNotFinite, "row ")
	})
}

// TestLargeButStorableResultsAreKept: the check for overflow does not refuse results that
// fit float32.
func TestLargeButStorableResultsAreKept(t *testing.T) {
	b := &Batch{
		Offsets: []int{0, 2}, Rewards: []float32{0, 2e38}, Values: []float32{1e38, 0},
		GAE: []bool{true, true}, Loss: []bool{true, true}, TurnEnd: []bool{false, true},
	}
	for _, est := range []Estimator{
		Masked{Gamma: 1, Lambda: 1}, GAE{Gamma: 1, Lambda: 1}, Lite{Gamma: 1, Lambda: 1},
		BiLevel{Gamma: 1, Lambda: 1, TurnGamma: 1}, TrajectoryToken{Gamma: 1, Lambda: 1},
	} {
		out := run(t, est, b)
		require.Equal(t, []float32{1e38, 2e38}, []float32{out.Advantages[0], out.Returns[0]}, "%T", est)
	}
}

func TestMissingInputsAreRefused(t *testing.T) {
	onceEach(t, func(t *testing.T, spec Spec, est Estimator) {
		var out Result
		check := func(needed bool, what string, kind error, spoil func(b *Batch)) {
			b := good()
			spoil(b)
			if err := est.Estimate(&out, b); needed {
				refuse(t, what, err, kind)
			} else {
				require.NoError(t, err, what)
			}
		}
		check(spec.Critic, "values", ErrNoCritic, func(b *Batch) { b.Values = nil })
		check(spec.Mask == MaskGAE, "gae", ErrNoMask, func(b *Batch) { b.GAE = nil })
		check(spec.TurnEnds, "turn_end", ErrNoMask, func(b *Batch) { b.TurnEnd = nil })
		check(spec.Groups, "group", ErrNoGroup, func(b *Batch) { b.Group = nil })
		check(spec.States, "states", ErrNoGroup, func(b *Batch) { b.States = nil })
		check(spec.Next, "next", ErrNoGroup, func(b *Batch) { b.Next = nil })
		check(spec.Baselines, "baselines", ErrNoGroup, func(b *Batch) { b.Baselines = nil })
	})
}

func TestTurnsWithoutEndAreRefused(t *testing.T) {
	est := BiLevel{Gamma: 1, Lambda: 1, TurnGamma: 1, Whiten: true}
	for _, c := range []struct {
		name      string
		loss, end []bool
		ok        bool
	}{
		{"no end", []bool{true, true, false}, []bool{false, false, false}, false},
		{"last token without end", []bool{true, true, true}, []bool{true, true, false}, false},
		{"end after the last token", []bool{true, true, false}, []bool{false, true, true}, false},
		{"end without token", []bool{false, false, false}, []bool{false, true, false}, false},
		{"first token alone", []bool{true, false, false}, []bool{false, false, false}, false},
		{"end in the context between", []bool{true, false, true}, []bool{false, true, true}, true},
		{"first turn runs on", []bool{true, false, true}, []bool{false, false, true}, true},
	} {
		b := &Batch{
			Offsets: []int{0, 2, 5}, Rewards: make([]float32, 5), Values: make([]float32, 5),
			Loss: append([]bool{true, true}, c.loss...), TurnEnd: append([]bool{false, true}, c.end...),
		}
		var out Result
		if err := est.Estimate(&out, b); c.ok {
			require.NoError(t, err, c.name)
		} else {
			refuse(t, c.name, err, ErrNoTurnEnd, "row 1")
		}
	}
}

// TestParametersOutOfRangeAreRefused: each number of each estimator. Discounts and shares are at most 1.
func TestParametersOutOfRangeAreRefused(t *testing.T) {
	onceEach(t, func(t *testing.T, _ Spec, est Estimator) {
		for i := range reflect.TypeOf(est).NumField() {
			bad := reflect.New(reflect.TypeOf(est)).Elem()
			bad.Set(reflect.ValueOf(est))
			field, name := bad.Field(i), reflect.TypeOf(est).Field(i).Name
			refused := func(words ...string) {
				err := bad.Interface().(Estimator).Estimate(new(Result), good())
				refuse(t, name, err, ErrParameter, words...)
			}
			switch share := regexp.MustCompile("Gamma|Lambda|Mix").MatchString(name); {
			case field.Kind() == reflect.Int:
				field.SetInt(-1)
				refused()
			case share:
				for _, x := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
					field.SetFloat(x)
					refused("[0, 1]")
				}
			case field.Kind() == reflect.Float64:
				for _, x := range []float64{-1, math.NaN(), math.Inf(1)} {
					field.SetFloat(x)
					refused()
				}
			}
		}
	})
}

// TestLowestBadRowIsReported, of several.
func TestLowestBadRowIsReported(t *testing.T) {
	b := shape{96, 2048, true}.batch()
	for _, row := range []int{90, 60, 5, 40} {
		b.Rewards[b.Offsets[row]+3] = float32(math.NaN())
	}
	for _, name := range Names() {
		var out Result
		refuse(t, name, named(t, name, testParams()).Estimate(&out, b), ErrNotFinite, "rewards: row 5, position 3: NaN")
	}
}

func TestDifferentRowsWithOneIdentityAreRefused(t *testing.T) {
	b := &Batch{
		Offsets: []int{0, 2, 4, 6}, Rewards: make([]float32, 6), Values: make([]float32, 6),
		Loss:  []bool{true, true, true, false, true, true},
		Group: []int{0, 0, 0}, Trajectory: []int{4, 3, 3}, Turn: []int{1, 2, 2}, States: []uint64{1, 1, 1},
		Next: []uint64{1, 1, 1},
	}
	onceEach(t, func(t *testing.T, spec Spec, est Estimator) {
		if spec.RowLocal {
			return
		}
		var out Result
		refuse(t, "conflict", est.Estimate(&out, b), ErrConflict, "rows 1 and 2", "turn 2")
	})
	_, err := b.Episodes()
	require.ErrorIs(t, err, ErrConflict, "episodes")
	_, err = b.TurnIDs(nil)
	require.ErrorIs(t, err, ErrConflict, "turn ids")
}

// TestResultsCanBeReusedAfterAnError: a refused batch does not affect the next result.
func TestResultsCanBeReusedAfterAnError(t *testing.T) {
	onceEach(t, func(t *testing.T, _ Spec, est Estimator) {
		var out Result
		bad := good()
		bad.Rewards[1] = float32(math.NaN())
		require.Error(t, est.Estimate(&out, bad))
		require.NoError(t, est.Estimate(&out, good()))
		want := run(t, est, good())
		require.Equal(t, want.Advantages, out.Advantages)
		require.Equal(t, want.Returns, out.Returns)
	})
}
