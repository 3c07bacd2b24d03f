package advantage

import (
	"fmt"
	"reflect"
)

// Batch holds training rows of different lengths back to back. Row i is the
// part [Offsets[i], Offsets[i+1]) of every per-token slice. Nothing is padded;
// Attention marks the padding of rows that were padded elsewhere.
//
// Only Offsets and Rewards are always needed. [Describe] lists the other
// columns that an estimator reads; it ignores the rest.
type Batch struct {
	// Offsets has one entry more than there are rows, starts with 0, does
	// not decrease, and ends with the number of tokens.
	Offsets []int

	// Per token.

	Rewards []float32 // of the token, penalties included
	Values  []float32 // critic's estimate at the state the token was chosen in; nil without a critic
	// Attention marks real tokens; nil means that all are.
	Attention []bool
	// Loss marks the tokens that train the policy, normally those that the model
	// wrote and chose; nil means without a loss mask.
	Loss []bool
	// Response marks the tokens that the model wrote. Estimators that work under the
	// loss mask read it in place of Loss, so that a reward on a forced token counts
	// (see mask.Forced); nil means Loss.
	Response []bool
	// GAE marks the tokens that are steps of the masked recursion; nil means
	// without an advantage mask.
	GAE []bool
	// TurnEnd marks the last token of each turn.
	TurnEnd []bool

	// LogProbs and SumPiSquared are the token's log-prob before the update and the sum of the squares of all tokens'
	// probabilities there, Weights its rollout weight (nil: 1), for OptimalBaseline.
	LogProbs, SumPiSquared, Weights []float32

	// Per row. Identities are arbitrary ints; [Interner] derives them from strings.

	Group      []int // rows with one start state, compared with each other
	Trajectory []int // rows of one episode; it needs to be unique within its group only
	Turn       []int // order of the rows of a trajectory, gaps allowed

	Baselines []float32 // score of the greedy response to the same prompt, for ReMax

	// Agent is each row's index into Running (nil: 0), the baselines that earlier batches left, for RAE.
	Agent   []int
	Running []float64

	// States has one key per turn, in the order of the rows and of the turns
	// within them. Turns of one group with equal keys started from the same
	// state, for GiGPO.
	States []uint64
	// Next has one key per turn like States: of the state that the turn led to, or
	// SuccessState, for GraphGPO.
	Next []uint64

	// Components are parts of the rows' rewards, for GDPO: for each component one number a row.
	// ComponentWeights has a number for each, or is empty: all 1.
	Components       [][]float32
	ComponentWeights []float64
}

// Rows returns the number of rows.
func (b *Batch) Rows() int { return max(0, len(b.Offsets)-1) }

// Tokens returns the number of tokens.
func (b *Batch) Tokens() int { return len(b.Rewards) }

// Row returns the start and end of row i in the per-token slices.
func (b *Batch) Row(i int) (start, end int) { return b.Offsets[i], b.Offsets[i+1] }

// Reset empties all slices, which all fields are, and keeps their memory.
func (b *Batch) Reset() {
	columns := reflect.ValueOf(b).Elem()
	for i := range columns.NumField() {
		columns.Field(i).SetLen(0)
	}
}

// Check checks that the lengths of all slices match. Optional slices may be
// empty. It does not check the numbers; every estimator checks those it
// reads.
func (b *Batch) Check() error {
	if b == nil {
		return fmt.Errorf("batch: %w", ErrNil)
	}
	if err := checkOffsets(b.Offsets, len(b.Rewards)); err != nil {
		return err
	}
	n, rows := len(b.Rewards), b.Rows()
	for _, f := range [...]struct {
		name      string
		got, want int
	}{
		{"values", len(b.Values), n}, {"attention", len(b.Attention), n}, {"loss", len(b.Loss), n},
		{"response", len(b.Response), n}, {"gae", len(b.GAE), n}, {"turn_end", len(b.TurnEnd), n},
		{"group", len(b.Group), rows}, {"trajectory", len(b.Trajectory), rows}, {"turn", len(b.Turn), rows},
		{"baselines", len(b.Baselines), rows}, {"agent", len(b.Agent), rows}, {"log_probs", len(b.LogProbs), n},
		{"sum_pi_squared", len(b.SumPiSquared), n}, {"weights", len(b.Weights), n},
	} {
		if f.got != 0 && f.got != f.want {
			return fmt.Errorf("%s: length %d: %w (must be 0 or %d)", f.name, f.got, ErrLength, f.want)
		}
	}
	return nil
}

func checkOffsets(offsets []int, tokens int) error {
	if len(offsets) == 0 {
		if tokens == 0 {
			return nil
		}
		return fmt.Errorf("offsets: none for %d tokens: %w (must be one more than rows)", tokens, ErrLength)
	}
	if offsets[0] != 0 {
		return fmt.Errorf("offsets: first is %d: %w (must be 0)", offsets[0], ErrLength)
	}
	for i := 1; i < len(offsets); i++ {
		if offsets[i] < offsets[i-1] {
			return fmt.Errorf("offsets: row %d: from %d to %d: %w (must not decrease)", i-1, offsets[i-1], offsets[i], ErrLength)
		}
	}
	if last := offsets[len(offsets)-1]; last != tokens {
		return fmt.Errorf("offsets: last is %d: %w (must be %d, the number of rewards)", last, ErrLength, tokens)
	}
	return nil
}
