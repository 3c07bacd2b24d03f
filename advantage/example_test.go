package advantage_test

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"vagen/advantage"
	"vagen/mask"
)

// small is one row: a prompt token, a turn of two tokens paid 0.5, an
// observation, and a turn of two tokens paid 1.
func small() *advantage.Batch {
	var s mask.Sequence
	err := errors.Join(
		s.AppendContext(mask.Prompt, 11),
		s.AppendResponse(21, 22),
		s.AppendContext(mask.Observation, 12),
		s.AppendResponse(23, 24),
	)
	rewards, placed := s.PlaceTurnRewards(nil, []float64{0.5, 1}, 0)
	b := new(advantage.Batch)
	err = errors.Join(err, placed, b.Append(&s, mask.Options{}, advantage.Row{
		Rewards: rewards,
		Values:  []float32{9, 0.2, 0.4, 9, 0.6, 0.8},
	}))
	if err != nil {
		panic(err)
	}
	return b
}

// group is four rows of one turn each, with scores 0, 1, 1 and 2, from one start.
func group() *advantage.Batch {
	b := new(advantage.Batch)
	for i, score := range []float32{0, 1, 1, 2} {
		var s mask.Sequence
		if err := errors.Join(s.AppendContext(mask.Prompt, 11), s.AppendResponse(21)); err != nil {
			panic(err)
		}
		if err := b.Append(&s, mask.Options{}, advantage.Row{Rewards: []float32{0, score}, Trajectory: i}); err != nil {
			panic(err)
		}
	}
	return b
}

// split is one episode in two rows of one turn each, paid 0.5 and 1.
func split() *advantage.Batch {
	b := new(advantage.Batch)
	for turn, reward := range []float32{0.5, 1} {
		var s mask.Sequence
		if err := errors.Join(s.AppendContext(mask.Prompt, 11), s.AppendResponse(21, 22)); err != nil {
			panic(err)
		}
		row := advantage.Row{Rewards: []float32{0, 0, reward}, Values: []float32{9, 0.2, 0.4}, Turn: turn}
		if err := b.Append(&s, mask.Options{}, row); err != nil {
			panic(err)
		}
	}
	return b
}

// show prints a batch, token by token and with | between its rows, and what an estimator makes of
// it.
func show(est advantage.Estimator, b *advantage.Batch) {
	written := make([]float32, len(b.Loss))
	for i, w := range b.Loss {
		if w {
			written[i] = 1
		}
	}
	fmt.Println("written   ", two(written, b.Offsets...))
	fmt.Println("rewards   ", two(b.Rewards, b.Offsets...))
	if b.Values != nil {
		fmt.Println("values    ", two(b.Values, b.Offsets...))
	}
	var out advantage.Result
	if err := est.Estimate(&out, b); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("advantages", two(out.Advantages, b.Offsets...))
	fmt.Println("returns   ", two(out.Returns, b.Offsets...))
}

// two prints numbers with two digits, and | before those at the offsets of rows.
func two(x []float32, offsets ...int) string {
	line := ""
	for i, v := range x {
		if i > 0 {
			line += " "
		}
		if i > 0 && slices.Contains(offsets, i) {
			line += "| "
		}
		line += fmt.Sprintf("%.2f", math.Round(float64(v)*100)/100+0) // + 0 turns −0 into 0
	}
	return line
}

// An embedding trainer needs three lines per step. The row is a prompt token, a turn of two tokens
// that is paid 0.5, an observation, and a turn of two tokens that is paid 1.
func Example() {
	var s mask.Sequence
	err := errors.Join(
		s.AppendContext(mask.Prompt, 11), s.AppendResponse(21, 22),
		s.AppendContext(mask.Observation, 12), s.AppendResponse(23, 24),
	)
	batch := new(advantage.Batch)
	err = errors.Join(err, batch.Append(&s, mask.Options{}, advantage.Row{
		Rewards: []float32{0, 0, 0.5, 0, 0, 1},
		Values:  []float32{9, 0.2, 0.4, 9, 0.6, 0.8},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}

	est := advantage.BiLevel{Gamma: 1, Lambda: 1, TurnGamma: 0.95, Whiten: true}
	var out advantage.Result
	if err := est.Estimate(&out, batch); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(two(out.Advantages))
	fmt.Println(two(out.Returns))
	// Output:
	// -1.44 1.04 0.64 -1.44 -0.64 -1.04
	// 0.00 1.45 1.45 0.00 1.00 1.00
}

func ExampleGAE() {
	show(advantage.GAE{Gamma: 0.9, Lambda: 0.5}, small())
	// Output:
	// written    0.00 1.00 1.00 0.00 1.00 1.00
	// rewards    0.00 0.00 0.50 0.00 0.00 1.00
	// values     9.00 0.20 0.40 9.00 0.60 0.80
	// advantages -7.85 2.16 4.44 -8.37 0.21 0.20
	// returns    1.15 2.36 4.84 0.63 0.81 1.00
}

func ExampleMasked() {
	show(advantage.Masked{Gamma: 0.9, Lambda: 0.5}, small())
	// Output:
	// written    0.00 1.00 1.00 0.00 1.00 1.00
	// rewards    0.00 0.00 0.50 0.00 0.00 1.00
	// values     9.00 0.20 0.40 9.00 0.60 0.80
	// advantages 0.00 0.49 0.73 0.00 0.21 0.20
	// returns    0.00 0.69 1.13 0.00 0.81 1.00
}

func ExampleBiLevel() {
	show(advantage.BiLevel{Gamma: 0.9, Lambda: 0.5, TurnGamma: 0.5}, small())
	// Output:
	// written    0.00 1.00 1.00 0.00 1.00 1.00
	// rewards    0.00 0.00 0.50 0.00 0.00 1.00
	// values     9.00 0.20 0.40 9.00 0.60 0.80
	// advantages 0.00 0.41 0.55 0.00 0.21 0.20
	// returns    0.00 0.61 0.95 0.00 0.81 1.00
}

func ExampleTurnWise() {
	show(advantage.TurnWise{TurnGamma: 0.5, Lambda: 0.5}, small())
	// Output:
	// written    0.00 1.00 1.00 0.00 1.00 1.00
	// rewards    0.00 0.00 0.50 0.00 0.00 1.00
	// values     9.00 0.20 0.40 9.00 0.60 0.80
	// advantages 0.00 0.55 0.55 0.00 0.20 0.20
	// returns    0.00 0.00 0.95 0.00 0.00 1.00
}

func ExampleLite() {
	show(advantage.Lite{Gamma: 0.9, Lambda: 0.5}, small())
	// Output:
	// written    0.00 1.00 1.00 0.00 1.00 1.00
	// rewards    0.00 0.00 0.50 0.00 0.00 1.00
	// values     9.00 0.20 0.40 9.00 0.60 0.80
	// advantages 0.49 0.49 0.73 0.21 0.21 0.20
	// returns    9.49 0.69 1.13 9.21 0.81 1.00
}

func ExampleGRPO() {
	show(advantage.GRPO{NormByStd: true}, group())
	// Output:
	// written    0.00 1.00 | 0.00 1.00 | 0.00 1.00 | 0.00 1.00
	// rewards    0.00 0.00 | 0.00 1.00 | 0.00 1.00 | 0.00 2.00
	// advantages 0.00 -1.22 | 0.00 0.00 | 0.00 0.00 | 0.00 1.22
	// returns    0.00 -1.22 | 0.00 0.00 | 0.00 0.00 | 0.00 1.22
}

func ExampleRLOO() {
	show(advantage.RLOO{}, group())
	// Output:
	// written    0.00 1.00 | 0.00 1.00 | 0.00 1.00 | 0.00 1.00
	// rewards    0.00 0.00 | 0.00 1.00 | 0.00 1.00 | 0.00 2.00
	// advantages 0.00 -1.33 | 0.00 0.00 | 0.00 0.00 | 0.00 1.33
	// returns    0.00 -1.33 | 0.00 0.00 | 0.00 0.00 | 0.00 1.33
}

func ExampleOPO() {
	show(advantage.OPO{}, group())
	// Output:
	// written    0.00 1.00 | 0.00 1.00 | 0.00 1.00 | 0.00 1.00
	// rewards    0.00 0.00 | 0.00 1.00 | 0.00 1.00 | 0.00 2.00
	// advantages 0.00 -1.00 | 0.00 0.00 | 0.00 0.00 | 0.00 1.00
	// returns    0.00 -1.00 | 0.00 0.00 | 0.00 0.00 | 0.00 1.00
}

// One row in four scored nothing, so the others count for 4/3.
func ExampleGPG() {
	show(advantage.GPG{}, group())
	// Output:
	// written    0.00 1.00 | 0.00 1.00 | 0.00 1.00 | 0.00 1.00
	// rewards    0.00 0.00 | 0.00 1.00 | 0.00 1.00 | 0.00 2.00
	// advantages 0.00 -1.33 | 0.00 0.00 | 0.00 0.00 | 0.00 1.33
	// returns    0.00 -1.33 | 0.00 0.00 | 0.00 0.00 | 0.00 1.33
}

// The best of two rows, whichever two of the four they are.
func ExamplePassK_two() {
	show(advantage.PassK{K: 2}, group())
	// Output:
	// written    0.00 1.00 | 0.00 1.00 | 0.00 1.00 | 0.00 1.00
	// rewards    0.00 0.00 | 0.00 1.00 | 0.00 1.00 | 0.00 2.00
	// advantages 0.00 0.00 | 0.00 0.17 | 0.00 0.17 | 0.00 0.67
	// returns    0.00 0.00 | 0.00 0.17 | 0.00 0.17 | 0.00 0.67
}

func ExamplePassK() {
	show(advantage.PassK{}, group())
	// Output:
	// written    0.00 1.00 | 0.00 1.00 | 0.00 1.00 | 0.00 1.00
	// rewards    0.00 0.00 | 0.00 1.00 | 0.00 1.00 | 0.00 2.00
	// advantages 0.00 0.00 | 0.00 0.00 | 0.00 0.00 | 0.00 1.00
	// returns    0.00 0.00 | 0.00 0.00 | 0.00 0.00 | 0.00 1.00
}

func ExampleReinforcePlusPlus() {
	show(advantage.ReinforcePlusPlus{Gamma: 0.5}, small())
	// Output:
	// written    0.00 1.00 1.00 0.00 1.00 1.00
	// rewards    0.00 0.00 0.50 0.00 0.00 1.00
	// values     9.00 0.20 0.40 9.00 0.60 0.80
	// advantages 0.00 0.25 0.50 0.00 0.50 1.00
	// returns    0.13 0.25 0.50 0.25 0.50 1.00
}

func ExampleReinforcePlusPlusBaseline() {
	show(advantage.ReinforcePlusPlusBaseline{Whiten: true}, group())
	// Output:
	// written    0.00 1.00 | 0.00 1.00 | 0.00 1.00 | 0.00 1.00
	// rewards    0.00 0.00 | 0.00 1.00 | 0.00 1.00 | 0.00 2.00
	// advantages 0.00 -1.22 | 0.00 0.00 | 0.00 0.00 | 0.00 1.22
	// returns    0.00 -1.22 | 0.00 0.00 | 0.00 0.00 | 0.00 1.22
}

func ExampleReMax() {
	b := small()
	b.Baselines = []float32{0.25}
	show(advantage.ReMax{}, b)
	// Output:
	// written    0.00 1.00 1.00 0.00 1.00 1.00
	// rewards    0.00 0.00 0.50 0.00 0.00 1.00
	// values     9.00 0.20 0.40 9.00 0.60 0.80
	// advantages 1.50 1.25 1.25 1.00 0.75 0.75
	// returns    1.50 1.50 1.50 1.00 1.00 1.00
}

// Rows one and three act in the same state, and so do the others.
func ExampleGiGPO() {
	b := group()
	b.States = []uint64{5, 6, 5, 6}
	show(advantage.GiGPO{Gamma: 1, StepWeight: 1}, b)
	// Output:
	// written    0.00 1.00 | 0.00 1.00 | 0.00 1.00 | 0.00 1.00
	// rewards    0.00 0.00 | 0.00 1.00 | 0.00 1.00 | 0.00 2.00
	// advantages 0.00 -1.50 | 0.00 -0.50 | 0.00 0.50 | 0.00 1.50
	// returns    0.00 -1.50 | 0.00 -0.50 | 0.00 0.50 | 0.00 1.50
}

func ExampleNoConcat() {
	show(advantage.NoConcat{Gamma: 0.9, Lambda: 0.5}, split())
	// Output:
	// written    0.00 1.00 1.00 | 0.00 1.00 1.00
	// rewards    0.00 0.00 0.50 | 0.00 0.00 1.00
	// values     9.00 0.20 0.40 | 9.00 0.20 0.40
	// advantages 0.00 0.84 0.84 | 0.00 0.80 0.80
	// returns    -100.00 1.04 -100.00 | -100.00 1.00 -100.00
}

func ExampleTrajectoryOutcome() {
	show(advantage.TrajectoryOutcome{Gamma: 0.9, Lambda: 0.5}, split())
	// Output:
	// written    0.00 1.00 1.00 | 0.00 1.00 1.00
	// rewards    0.00 0.00 0.50 | 0.00 0.00 1.00
	// values     9.00 0.20 0.40 | 9.00 0.20 0.40
	// advantages 0.00 0.19 0.07 | 0.00 0.65 1.10
	// returns    0.00 0.39 0.47 | 0.00 0.86 1.50
}

func ExampleTrajectoryToken() {
	show(advantage.TrajectoryToken{Gamma: 0.9, Lambda: 0.5}, split())
	// Output:
	// written    0.00 1.00 1.00 | 0.00 1.00 1.00
	// rewards    0.00 0.00 0.50 | 0.00 0.00 1.00
	// values     9.00 0.20 0.40 | 9.00 0.20 0.40
	// advantages 0.00 0.37 0.47 | 0.00 0.43 0.60
	// returns    0.00 0.57 0.87 | 0.00 0.63 1.00
}

func ExampleTrajectoryTurn() {
	show(advantage.TrajectoryTurn{Gamma: 0.9, Lambda: 0.5}, split())
	// Output:
	// written    0.00 1.00 1.00 | 0.00 1.00 1.00
	// rewards    0.00 0.00 0.50 | 0.00 0.00 1.00
	// values     9.00 0.20 0.40 | 9.00 0.20 0.40
	// advantages 0.00 0.84 0.84 | 0.00 0.80 0.80
	// returns    -100.00 1.04 -100.00 | -100.00 1.00 -100.00
}

func ExampleTrajectoryBiLevel() {
	show(advantage.TrajectoryBiLevel{TurnGamma: 0.95, TurnLambda: 0.95, TokenLambda: 1, Mix: 0.75}, split())
	// Output:
	// written    0.00 1.00 1.00 | 0.00 1.00 1.00
	// rewards    0.00 0.00 0.50 | 0.00 0.00 1.00
	// values     9.00 0.20 0.40 | 9.00 0.20 0.40
	// advantages 0.00 1.23 1.03 | 0.00 0.80 0.60
	// returns    0.00 1.43 1.43 | 0.00 1.00 1.00
}

func ExampleTrajectoryTwoPass() {
	show(advantage.TrajectoryTwoPass{Gamma: 0.9, Lambda: 0.5, TurnGamma: 0.5}, split())
	// Output:
	// written    0.00 1.00 1.00 | 0.00 1.00 1.00
	// rewards    0.00 0.00 0.50 | 0.00 0.00 1.00
	// values     9.00 0.20 0.40 | 9.00 0.20 0.40
	// advantages 0.00 0.36 0.45 | 0.00 0.43 0.60
	// returns    0.00 0.56 0.85 | 0.00 0.63 1.00
}

func ExampleTrajectoryGRPO() {
	show(advantage.TrajectoryGRPO{NormByStd: true}, group())
	// Output:
	// written    0.00 1.00 | 0.00 1.00 | 0.00 1.00 | 0.00 1.00
	// rewards    0.00 0.00 | 0.00 1.00 | 0.00 1.00 | 0.00 2.00
	// advantages 0.00 -1.41 | 0.00 0.00 | 0.00 0.00 | 0.00 1.41
	// returns    0.00 -1.41 | 0.00 0.00 | 0.00 0.00 | 0.00 1.41
}

func ExampleNew() {
	est, err := advantage.New("bi_level_gae", advantage.DefaultParams())
	fmt.Printf("%+v %v\n", est, err)

	_, err = advantage.New("trajectory_bi_level_gae", advantage.Params{Gamma: 0.99})
	fmt.Println(err)
	// Output:
	// {Gamma:1 Lambda:1 TurnGamma:0.99 Whiten:true} <nil>
	// advantage: trajectory_bi_level_gae: gamma: 0.99: parameter out of range (must be 1, because this estimator does not discount tokens)
}

func ExampleDescribe() {
	spec, err := advantage.Describe("turn_level_gae")
	fmt.Println(spec.Critic, spec.RowLocal, spec.TurnIDs, spec.ValueMask, err)
	// Output:
	// true false true true <nil>
}

// An estimator that a program adds to its own registry is not in any other.
func ExampleRegistry() {
	r := advantage.Builtin()
	err := r.Register(advantage.Spec{
		Name: "short_sighted", Mask: advantage.MaskGAE, Critic: true, RowLocal: true, Whitens: true,
		New: func(advantage.Params) advantage.Estimator { return advantage.Masked{} },
	})
	est, unknown := r.New("short_sighted", advantage.Params{})
	fmt.Printf("%+v %v %v\n", est, err, unknown)
	// Output:
	// {Gamma:0 Lambda:0 Whiten:false} <nil> <nil>
}

func ExampleWhitening_Apply() {
	x := []float32{1, 3, 5, 100}
	m, err := advantage.Whitening{}.Apply(x, x, []bool{true, true, true, false})
	fmt.Println(two(x), m.Mean, err)
	// Output:
	// -1.00 0.00 1.00 48.50 3 <nil>
}

func ExampleInterner() {
	var groups advantage.Interner
	fmt.Println(groups.IDs(nil, "seed-7", "seed-9", "seed-7"))
	// Output:
	// [0 1 0]
}
