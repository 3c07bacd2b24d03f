package advantage

import (
	"fmt"
	"math"
	"slices"

	"vagen/internal/floats"
)

// call is one call of Estimate: inputs, outputs and memory that calls reuse, in one place.
// Numbers are stored in float32; all arithmetic is in float64.
type call struct {
	spec    *Spec
	offsets []int

	rewards, values                []float32
	attention, loss, gae, turnEnds []bool
	group, trajectory, turn        []int
	baselines                      []float32
	states, next                   []uint64
	components                     [][]float32
	componentWeights               []float64
	agent                          []int
	before                         []float64 // running baselines
	logProbs, squares, weights     []float32

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

// estimate runs an estimator's core on a batch. The core gets the estimator as an argument
// instead of capturing it, so that a call allocates nothing.
func estimate[E any](dst *Result, b *Batch, name string, e E, run func(E, *call) error) error {
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
	if err := checkShared(dst, dst.mem.spareValueMask, b); err != nil {
		return fmt.Errorf("advantage: %s: %w", name, err)
	}
	c := &dst.mem.call
	*c = callOf(b, dst.mem)
	c.spec = &specs[slices.IndexFunc(specs, func(s Spec) bool { return s.Name == name })]
	c.adv, c.ret = dst.Advantages, dst.Returns
	if !c.spec.Critic {
		c.values = nil // not read, so not checked either
	}
	clear(c.adv)
	clear(c.ret)
	err := run(e, c)
	dst.ValueMask, dst.TurnID, dst.Raw = c.valueMask, c.turnID, c.raw
	if err == nil {
		dst.Unread = c.unread()
		if c.spec.Running {
			dst.Running = slices.Clip(c.running)
		}
	}
	*c = call{}
	if err != nil {
		return fmt.Errorf("advantage: %s: %w", name, err)
	}
	return nil
}

// callOf returns a call with the columns of a batch.
func callOf(b *Batch, mem *memory) call {
	loss := b.Loss
	if len(b.Response) > 0 {
		loss = b.Response
	}
	return call{
		offsets: b.Offsets, rewards: b.Rewards, values: b.Values,
		attention: b.Attention, loss: loss, gae: b.GAE, turnEnds: b.TurnEnd,
		group: b.Group, trajectory: b.Trajectory, turn: b.Turn,
		baselines: b.Baselines, states: b.States, next: b.Next,
		components: b.Components, componentWeights: b.ComponentWeights,
		agent: b.Agent, before: b.Running, logProbs: b.LogProbs, squares: b.SumPiSquared, weights: b.Weights, memory: mem,
	}
}

// unread counts the rewards other than 0 on tokens that the estimator does not read.
func (c *call) unread() int {
	var read, also []bool
	switch {
	case c.spec.Rewards == SiteAll && !c.maskOnly:
		return 0
	case c.spec.Rewards == SiteTurnEnd:
		read = c.turnEnds
	case c.spec.TurnEnds:
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

func (c *call) rows() int { return max(0, len(c.offsets)-1) }

func (c *call) tokens() int { return len(c.rewards) }

// row returns the start and end of a row.
func (c *call) row(i int) (lo, hi int) { return c.offsets[i], c.offsets[i+1] }

// publishValueMask allocates a value mask, all false, and sets all returns to IgnoreReturn.
func (c *call) publishValueMask() {
	c.spareValueMask = resize(c.spareValueMask, c.tokens())
	clear(c.spareValueMask)
	c.valueMask = c.spareValueMask
	for t := range c.ret {
		c.ret[t] = IgnoreReturn
	}
}

// publishTurnID publishes the turns of all episodes.
func (c *call) publishTurnID(e *episodes) {
	c.spareTurnID = resize(c.spareTurnID, c.tokens())
	c.turnID = c.spareTurnID
	for k := range e.count() {
		c.numberTurns(e.rows(k))
	}
}

// attentionMask returns Attention, or a mask of all tokens.
func (c *call) attentionMask() []bool {
	if len(c.attention) > 0 {
		return c.attention
	}
	for len(c.ones) < c.tokens() {
		c.ones = append(c.ones, true)
	}
	return c.ones[:c.tokens()]
}

// lossMask returns Loss, or attention without a loss mask.
func (c *call) lossMask() []bool {
	if len(c.loss) > 0 {
		return c.loss
	}
	return c.attentionMask()
}

// needValues returns an error for a non-empty batch without values.
func (c *call) needValues() error {
	if len(c.values) == 0 && c.tokens() > 0 {
		return fmt.Errorf("values: %w", ErrNoCritic)
	}
	return nil
}

// needTurnEnds returns an error for a batch without turn ends.
func (c *call) needTurnEnds() error {
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
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// token moves the recursion over a token and stores its advantage and return.
func (c *call) token(t int, s *recursion) { c.step(t, float64(c.rewards[t]), s) }

// step is token with another reward.
func (c *call) step(t int, reward float64, s *recursion) {
	value := float64(c.values[t])
	a := s.step(reward, value)
	c.adv[t], c.ret[t] = float32(a), float32(a+value)
}

// turnEnds separate adjacent runs of tokens under the mask.
func (c *call) endsTurn(t int) bool { return len(c.turnEnds) > 0 && c.turnEnds[t] }

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
	for t := c.offsets[row]; t < c.offsets[row+1]; t++ {
		if c.mask[t] {
			total += float64(c.rewards[t])
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
	values := c.values
	if len(values) == 0 {
		values = c.rewards
	}
	var bad float32 // x − x is 0 for finite numbers and NaN for others
	var s floats.Sums
	for t, a := range c.adv {
		bad += (c.rewards[t] - c.rewards[t]) + (values[t] - values[t]) + (a - a) + (c.ret[t] - c.ret[t])
		if over != nil && over[t] {
			s.Add(float64(a))
		}
	}
	if bad == 0 {
		return Moments(s.Moments()), nil
	}
	return Moments{}, firstError(c.finite("rewards", c.rewards), c.finite("values", c.values),
		c.finite("advantages", c.adv), c.finite("returns", c.ret))
}

// finite returns an error for the first number of a column that is not finite.
func (c *call) finite(name string, x []float32) error {
	at := notFinite(x)
	if at < 0 {
		return nil
	}
	row := 0
	for c.offsets[row+1] <= at {
		row++
	}
	return fmt.Errorf("%s: row %d, position %d: %v: %w", name, row, at-c.offsets[row], x[at], ErrNotFinite)
}

// notFinite returns the position of the first number that is not finite, -1 if there is none.
func notFinite(x []float32) int {
	return slices.IndexFunc(x, func(v float32) bool { return !floats.Finite(v) })
}
