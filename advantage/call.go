package advantage

import (
	"fmt"
	"slices"
)

// number is the storage type of rewards, values and results. All arithmetic is
// done in float64, whatever it is.
type number interface{ float32 | float64 }

// call is one call of Estimate: inputs, outputs and scratch memory in one
// place. Batch and Result fix the storage to float32; tests also run the same
// code on float64 storage, to compare at full precision.
type call[T number] struct {
	name    string
	offsets []int

	rewards, values                []T
	attention, loss, gae, turnEnds []bool
	group, trajectory, turn        []int
	baselines                      []T
	states                         []uint64

	adv, ret  []T
	mask      []bool  // the mask that the estimator works under
	valueMask []bool  // set by publishValueMask
	turnID    []int32 // set by publishTurnID
	raw       Moments

	spareMask []bool
	spareID   []int32
	scratch   *scratch
}

// estimate runs an estimator's core on a batch. The core gets
// the estimator as an argument instead of capturing it, so that a call allocates nothing.
func estimate[E any](dst *Result, b *Batch, name string, e E, run func(E, *call[float32]) error) error {
	if dst == nil {
		return fmt.Errorf("advantage: %s: result: %w", name, ErrNil)
	}
	if b == nil {
		return fmt.Errorf("advantage: %s: batch: %w", name, ErrNil)
	}
	if err := b.Check(); err != nil {
		return fmt.Errorf("advantage: %s: %w", name, err)
	}
	dst.Resize(b.Tokens())
	mem := dst.mem
	if err := checkShared(dst, mem.valueMask, b); err != nil {
		return fmt.Errorf("advantage: %s: %w", name, err)
	}
	loss := b.Loss
	if len(b.Response) > 0 {
		loss = b.Response
	}
	c := &mem.call
	*c = call[float32]{
		name: name, offsets: b.Offsets,
		rewards: b.Rewards, values: b.Values,
		attention: b.Attention, loss: loss, gae: b.GAE, turnEnds: b.TurnEnd,
		group: b.Group, trajectory: b.Trajectory, turn: b.Turn,
		baselines: b.Baselines, states: b.States,
		adv: dst.Advantages, ret: dst.Returns,
		spareMask: mem.valueMask, spareID: mem.turnID, scratch: &mem.scratch,
	}
	err := c.run(func() error { return run(e, c) })
	dst.ValueMask, dst.TurnID, dst.Raw = c.valueMask, c.turnID, c.raw
	if err == nil {
		dst.Unread = c.unread()
	}
	mem.valueMask, mem.turnID = c.spareMask, c.spareID
	*c = call[float32]{}
	return err
}

// run prepares the scratch memory, runs the core and names the estimator in its
// error.
func (c *call[T]) run(core func() error) error {
	c.scratch.begin(c.rows())
	if err := core(); err != nil {
		return fmt.Errorf("advantage: %s: %w", c.name, err)
	}
	return nil
}

// unread counts the rewards other than 0 on tokens that the estimator does not read.
func (c *call[T]) unread() int {
	i := slices.IndexFunc(specs, func(s Spec) bool { return s.Name == c.name })
	var read, also []bool
	switch s := &specs[i]; {
	case s.Rewards == SiteAll:
		return 0
	case s.Rewards == SiteTurnEnd:
		read = c.turnEnds
	case s.TurnEnds:
		read, also = c.mask, c.turnEnds
	default:
		read = c.mask
	}
	n := 0
	for i, r := range c.rewards {
		if r != 0 && !read[i] && (also == nil || !also[i]) {
			n++
		}
	}
	return n
}

func (c *call[T]) rows() int { return max(0, len(c.offsets)-1) }

func (c *call[T]) tokens() int { return len(c.rewards) }

// publishValueMask allocates a value mask.
func (c *call[T]) publishValueMask() {
	c.spareMask = resize(c.spareMask, c.tokens())
	c.valueMask = c.spareMask
}

// publishTurnID allocates turn ids.
func (c *call[T]) publishTurnID() {
	c.spareID = resize(c.spareID, c.tokens())
	c.turnID = c.spareID
}

// attentionMask returns Attention, or a mask of all tokens.
func (c *call[T]) attentionMask() []bool {
	if len(c.attention) > 0 {
		return c.attention
	}
	return c.scratch.allTrue(c.tokens())
}

// lossMask returns Loss, or attention without a loss mask.
func (c *call[T]) lossMask() []bool {
	if len(c.loss) > 0 {
		return c.loss
	}
	return c.attentionMask()
}

// needValues returns an error for a non-empty batch without values.
func (c *call[T]) needValues() error {
	if len(c.values) == 0 && c.tokens() > 0 {
		return fmt.Errorf("values: %w", ErrNoCritic)
	}
	return nil
}

// needTurnEnds returns an error for a batch without turn ends.
func (c *call[T]) needTurnEnds() error {
	if len(c.turnEnds) == 0 && c.tokens() > 0 {
		return fmt.Errorf("turn_end: %w", ErrNoMask)
	}
	return nil
}

// unit returns an error for a hyperparameter outside [0, 1].
func unit(name string, x float64) error {
	if !(x >= 0 && x <= 1) {
		return errParameter(name, x, "[0, 1]")
	}
	return nil
}

func errParameter(name string, x float64, allowed string) error {
	return fmt.Errorf("%s: %v: %w (%s)", name, x, ErrParameter, allowed)
}

// firstError returns the first of the errors that is not nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// skip sets the advantages of tokens that do not count to 0 and their returns to unset,
// and reports whether their rewards and values are finite. A NaN there is an error, too,
// because it shows that the input is wrong.
func (c *call[T]) skip(start, end int, unset T) bool {
	return prepare(c.rewards[start:end], c.values[start:end], c.adv[start:end], c.ret[start:end], unset)
}

// open applies skip to all tokens of a row.
func (c *call[T]) open(row int, unset T) bool {
	return c.skip(c.offsets[row], c.offsets[row+1], unset)
}

// close records the row's advantages for whitening. If ok is false because an input was
// not finite, or the results may not fit their storage, it examines the row.
func (c *call[T]) close(row int, s *spread, ok bool) {
	c.scratch.parts[row] = s.moments()
	if !ok || !s.safe() {
		c.examine(row, len(c.values) > 0)
	}
}

// examine records an error for the row's first number that is not finite:
// among rewards, then values where the estimator reads them, then results.
func (c *call[T]) examine(row int, values bool) {
	lo, hi := c.offsets[row], c.offsets[row+1]
	look := func(field string, x []T) bool {
		for t, v := range x[lo:hi] {
			if v-v != 0 {
				c.scratch.fail(row, fmt.Errorf("%s: row %d, position %d: %v: %w", field, row, t, v, ErrNotFinite))
				return true
			}
		}
		return false
	}
	switch {
	case look("rewards", c.rewards):
	case values && look("values", c.values):
	case look("advantages", c.adv):
	default:
		look("returns", c.ret)
	}
}
