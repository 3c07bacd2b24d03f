package advantage

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"vagen/internal/floats"
)

// call is one call of Estimate: inputs, outputs and memory that calls reuse, in one place.
// Numbers are stored in float32; all arithmetic is in float64.
type call struct {
	spec *Spec

	Batch // without the columns that the estimator does not read; Loss is Response if the batch has that

	adv, ret  []float32
	mask      []bool  // the mask that the estimator works under
	valueMask []bool  // set by publishValueMask
	turnID    []int32 // set by publishTurnID
	source    []int   // row whose results each row gets, nil if there are no copies
	raw       Moments
	maskOnly  bool    // rewards off the mask do not count, although they may by the Spec
	zero      float32 // what whitening maps the zeros outside the mask to

	*memory
}

// memory is what a Result keeps between calls.
type memory struct {
	call           call
	spareValueMask []bool
	spareTurnID    []int32
	ones           []bool // all true
	counted        []bool // see whiten

	groups   groups
	episodes episodes
	scores   []float64 // one per row or episode
	perRow   []float64
	ids      []int // one per episode
	steps    steps

	lengths, longestOf []lengths // of episodes, of groups

	running, spareRunning []float64 // baselines after the batch, or the memory of those before it
	toCome                []float64 // of each token, the rewards to come
	columns               []column
	sums                  []sums
}

// estimate runs an estimator's core on a batch.
func estimate(dst *Result, b *Batch, name string, run func(*call) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("advantage: %s: %w", name, err)
		}
	}()
	if dst == nil {
		return fmt.Errorf("result: %w", ErrNil)
	}
	if err := b.Check(); err != nil {
		return err
	}
	dst.Resize(b.Tokens())
	if err := checkShared(dst, dst.mem.spareValueMask, b); err != nil {
		return err
	}
	c := &dst.mem.call
	*c = callOf(b, dst.mem)
	c.spec = &specs[slices.IndexFunc(specs, func(s Spec) bool { return s.Name == name })]
	c.adv, c.ret = dst.Advantages, dst.Returns
	if !c.spec.Critic {
		c.Values = nil // not checked either
	}
	clear(c.adv)
	clear(c.ret)
	err = run(c)
	dst.ValueMask, dst.TurnID, dst.Raw = c.valueMask, c.turnID, c.raw
	if err == nil {
		dst.Unread = c.unread()
		if c.spec.Running {
			dst.Running = slices.Clip(c.running)
		}
	}
	*c = call{}
	return err
}

// callOf returns a call for a batch.
func callOf(b *Batch, mem *memory) call {
	c := call{Batch: *b, memory: mem}
	if len(b.Response) > 0 {
		c.Loss = b.Response
	}
	return c
}

// unread counts the rewards other than 0 on tokens that the estimator does not read.
func (c *call) unread() int {
	var read, also []bool
	switch {
	case c.spec.Rewards == SiteAll && !c.maskOnly:
		return 0
	case c.spec.Rewards == SiteTurnEnd:
		read = c.TurnEnd
	case c.spec.TurnEnds:
		read, also = c.mask, c.TurnEnd
	default:
		read = c.mask
	}
	n := 0
	for i, r := range c.Rewards {
		if r != 0 && !read[i] && (also == nil || !also[i]) {
			n++
		}
	}
	return n
}

// publishValueMask allocates a value mask, all false, and sets all returns to IgnoreReturn.
func (c *call) publishValueMask() {
	c.spareValueMask = zeroed(c.spareValueMask, c.Tokens())
	c.valueMask = c.spareValueMask
	for t := range c.ret {
		c.ret[t] = IgnoreReturn
	}
}

// publishTurnID publishes the turns of all episodes.
func (c *call) publishTurnID(e *episodes) {
	c.spareTurnID = resize(c.spareTurnID, c.Tokens())
	c.turnID = c.spareTurnID
	for k := range e.count() {
		c.numberTurns(e.rows(k))
	}
}

// attentionMask returns Attention, or a mask of all tokens.
func (c *call) attentionMask() []bool {
	if len(c.Attention) > 0 {
		return c.Attention
	}
	for len(c.ones) < c.Tokens() {
		c.ones = append(c.ones, true)
	}
	return c.ones[:c.Tokens()]
}

// lossMask returns Loss, or attention without a loss mask.
func (c *call) lossMask() []bool {
	if len(c.Loss) > 0 {
		return c.Loss
	}
	return c.attentionMask()
}

// needValues returns an error for a non-empty batch without values.
func (c *call) needValues() error {
	if len(c.Values) == 0 && c.Tokens() > 0 {
		return fmt.Errorf("values: %w", ErrNoCritic)
	}
	return nil
}

// needTurnEnds returns an error for a batch without turn ends.
func (c *call) needTurnEnds() error {
	if len(c.TurnEnd) == 0 && c.Tokens() > 0 {
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

// notNegative returns an error for a hyperparameter that is negative or not finite.
func notNegative(name string, x float64) error {
	if !(x >= 0 && x <= math.MaxFloat64) {
		return errParameter(name, x, "not negative")
	}
	return nil
}

func errParameter(name string, x float64, allowed string) error {
	return fmt.Errorf("%s: %v: %w (%s)", name, x, ErrParameter, allowed)
}

// firstError returns the first of the errors that is not nil.
func firstError(errs ...error) error { return cmp.Or(errs...) }

// token moves the recursion over a token and stores its advantage and return.
func (c *call) token(t int, s *recursion) { c.step(t, float64(c.Rewards[t]), s) }

// step is token with another reward.
func (c *call) step(t int, reward float64, s *recursion) {
	value := float64(c.Values[t])
	a := s.step(reward, value)
	c.adv[t], c.ret[t] = float32(a), float32(a+value)
}

// endsTurn reports whether a token ends a turn although the next one may be under the mask, too.
func (c *call) endsTurn(t int) bool { return len(c.TurnEnd) > 0 && c.TurnEnd[t] }

// nextTurn returns the first turn at t or later: its first token and the token after its
// last one, both hi if there is none. A turn is a run of tokens under the mask; if the batch
// has TurnEnd, turn ends separate adjacent runs.
func (c *call) nextTurn(t, hi int) (start, end int) {
	for t < hi && !c.mask[t] {
		t++
	}
	start = t
	for t < hi && c.mask[t] {
		t++
		if c.endsTurn(t - 1) {
			break
		}
	}
	return start, t
}

// previousTurn returns the last turn before t, as nextTurn does; both are lo if there is none.
func (c *call) previousTurn(lo, t int) (start, end int) {
	for t > lo && !c.mask[t-1] {
		t--
	}
	end = t
	for t > lo && c.mask[t-1] && (t == end || !c.endsTurn(t-1)) {
		t--
	}
	return t, end
}

// eachTurn calls f for the turns of a row in order.
func (c *call) eachTurn(row int, f func(start, end int)) {
	lo, hi := c.Row(row)
	for start, end := c.nextTurn(lo, hi); start < end; start, end = c.nextTurn(end, hi) {
		f(start, end)
	}
}

// turnsBack calls f for the turns of an episode's rows, the last one first.
func (c *call) turnsBack(rows []int, f func(start, end int)) {
	for i := len(rows) - 1; i >= 0; i-- {
		lo, hi := c.Row(rows[i])
		for start, end := c.previousTurn(lo, hi); start < end; start, end = c.previousTurn(lo, start) {
			f(start, end)
		}
	}
}

// sum adds the numbers in order.
func sum(x []float32) float64 {
	total := 0.0
	for _, v := range x {
		total += float64(v)
	}
	return total
}

// maskedSum returns the sum of the row's rewards under the mask.
func (c *call) maskedSum(row int) float64 {
	total := 0.0
	for t := c.Offsets[row]; t < c.Offsets[row+1]; t++ {
		if c.mask[t] {
			total += float64(c.Rewards[t])
		}
	}
	return total
}

// spread gives the tokens from lo to hi under the mask the advantage.
func (c *call) spread(lo, hi int, a float32) {
	for t := lo; t < hi; t++ {
		if c.mask[t] {
			c.adv[t] = a
		}
	}
}

// lastTrue returns the last position with the mask set, -1 when there is none.
func lastTrue(mask []bool) int {
	for t := len(mask) - 1; t >= 0; t-- {
		if mask[t] {
			return t
		}
	}
	return -1
}

// count returns how many entries are true.
func count(mask []bool) int {
	n := 0
	for _, in := range mask {
		if in {
			n++
		}
	}
	return n
}

// check fills the results of copies and returns an error for the first number that is not
// finite, among rewards, then values where the estimator reads them, then results. Tokens that
// do not count are checked, too, because a NaN there shows that the input is wrong. It also
// returns the moments of the advantages over a mask, none without one.
func (c *call) check(over []bool) (Moments, error) {
	c.copyBack()
	values := c.Values
	if len(values) == 0 {
		values = c.Rewards
	}
	var bad float32 // x − x is 0 for finite numbers and NaN for others
	var s floats.Sums
	for t, a := range c.adv {
		bad += (c.Rewards[t] - c.Rewards[t]) + (values[t] - values[t]) + (a - a) + (c.ret[t] - c.ret[t])
		if over != nil && over[t] {
			s.Add(float64(a))
		}
	}
	if bad == 0 {
		return Moments(s.Moments()), nil
	}
	return Moments{}, firstError(c.finite("rewards", c.Rewards), c.finite("values", c.Values),
		c.finite("advantages", c.adv), c.finite("returns", c.ret))
}

// finite returns an error for the first number of a column that is not finite.
func (c *call) finite(name string, x []float32) error {
	at := notFinite(x)
	if at < 0 {
		return nil
	}
	row := 0
	for c.Offsets[row+1] <= at {
		row++
	}
	return fmt.Errorf("%s: row %d, position %d: %v: %w", name, row, at-c.Offsets[row], x[at], ErrNotFinite)
}

// notFinite returns the position of the first number that is not finite, -1 if there is none.
func notFinite(x []float32) int {
	return slices.IndexFunc(x, func(v float32) bool { return !floats.Finite(v) })
}
