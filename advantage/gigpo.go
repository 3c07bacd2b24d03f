package advantage

import "fmt"

// GiGPO is group-in-group policy optimization: it compares episodes of a group
// as a whole, and turns that started from the same state with each other.
//
// Episode level, over the episodes with the same Group:
//
//	AE = (s − mean) / (std + ε)
//
// where s is the sum of an episode's rewards under the mask. Step level, over
// the turns of the group with the same key in States:
//
//	Rk = rk + γ·R(k+1),   AS = (Rk − mean) / (std + ε)
//
// where rk is the sum of the rewards of turn k of an episode. Every token of
// the turn gets AE + ω·AS. Standard deviations divide by n − 1. An episode alone
// in its group keeps its score, as in [GRPO]; a state that was visited once has
// AS = 0, so the estimator falls back on the episode level there. Returns are
// the same numbers; both are 0 off the mask. No critic, no whitening.
//
// A turn is a run of tokens under the mask; if the batch has TurnEnd, turn
// ends separate adjacent runs. States holds one key per turn, copies of rows
// included; another count is an ErrLength. The mask is Loss, or Attention without a
// loss mask. Rows of one Trajectory are joined in the order
// of Turn. A batch without Group or States is an ErrNoGroup, two different rows
// with one identity are an ErrConflict. TurnID is published.
//
// See Feng et al., arXiv:2505.10978. Config name: gigpo.
type GiGPO struct {
	Gamma      float64 `needs:"StepWeight"` // γ, discount per turn, in [0, 1]
	StepWeight float64 // ω, not negative; the paper uses 1
	NormByStd  bool    // divide both differences by std + ε
	Epsilon    float64 `needs:"NormByStd"` // ε; 0 means DefaultEpsilon
}

// Estimate implements [Estimator].
func (g GiGPO) Estimate(dst *Result, b *Batch) error {
	return estimate(dst, b, "gigpo", g.run)
}

func (g GiGPO) run(c *call) error {
	eps, err := epsilon(g.Epsilon)
	if err = firstError(err, unit("gamma", g.Gamma), notNegative("step weight", g.StepWeight)); err != nil {
		return err
	}
	e, groups, episodeScores, err := c.scoredEpisodes()
	if err != nil {
		return err
	}
	for k, s := range episodeScores {
		episodeScores[k] = groups.compare(k, s, g.NormByStd, eps, s)
	}
	steps, err := c.steps(e, g.Gamma)
	if err != nil {
		return err
	}
	for i, r := range steps.returns {
		steps.returns[i] = float64(g.StepWeight * steps.groups.compare(i, r, g.NormByStd, eps, 0))
	}
	for k, s := range episodeScores {
		for i := steps.start[k]; i < steps.end(k); i++ {
			steps.returns[i] += s
		}
	}
	return c.finishTurns(e, steps.returns)
}

// finishTurns gives the tokens of each turn its number, in the order of steps.
func (c *call) finishTurns(e *episodes, turns []float64) error {
	c.publishTurnID(e)
	for k := range e.count() {
		for _, row := range e.rows(k) {
			c.eachTurn(row, func(start, end int) {
				c.spread(start, end, float32(turns[0]))
				turns = turns[1:]
			})
		}
	}
	copy(c.ret, c.adv)
	_, err := c.check(nil)
	return err
}

// steps are the turns of the distinct rows, row by row in stitched order.
type steps struct {
	first   []int     // of each row: its first turn among States, and the total
	start   []int     // of each episode: its first entry in returns
	returns []float64 // discounted return, later the step advantage
	number  map[stepKey]int
	ids     []int
	groups  groups

	shared      []int     // keys of single states, for longer ones; or of the states after the turns
	distance    []float64 // of each state to success
	sum, weight []float64 // of comparisons
}

// stepKey is a state within a group.
type stepKey struct {
	group int
	state uint64
}

// steps computes the discounted returns of all turns and groups them by state.
func (c *call) steps(e *episodes, gamma float64) (*steps, error) {
	s := &c.memory.steps
	s.first = append(s.first[:0], 0)
	for row := range c.Rows() {
		s.first = append(s.first, s.first[row]+c.countTurns(row))
	}
	if err := oneEach("states", c.States, s.first[c.Rows()]); err != nil {
		return nil, err
	}
	s.start, s.returns, s.ids = s.start[:0], s.returns[:0], s.ids[:0]
	if s.number == nil {
		s.number = make(map[stepKey]int)
	}
	clear(s.number)
	for k := range e.count() {
		from := len(s.returns)
		s.start = append(s.start, from)
		for _, row := range e.rows(k) {
			c.eachTurn(row, func(start, end int) { s.returns = append(s.returns, sum(c.Rewards[start:end])) })
			for _, state := range c.States[s.first[row]:s.first[row+1]] {
				s.ids = append(s.ids, s.id(stepKey{c.Group[row], state}))
			}
		}
		for i := len(s.returns) - 2; i >= from; i-- {
			s.returns[i] += float64(gamma * s.returns[i+1])
		}
	}
	s.groups.assign(s.ids)
	s.groups.score(s.returns)
	return s, nil
}

// oneEach returns an error unless there is one key for each turn.
func oneEach(name string, keys []uint64, turns int) error {
	switch len(keys) {
	case turns:
		return nil
	case 0:
		return fmt.Errorf("%s: 0 keys for %d turns: %w", name, turns, ErrNoGroup)
	}
	return fmt.Errorf("%s: %d keys for %d turns: %w", name, len(keys), turns, ErrLength)
}

// end returns the turn after the last one of episode k.
func (s *steps) end(k int) int {
	if k+1 < len(s.start) {
		return s.start[k+1]
	}
	return len(s.ids)
}

func (s *steps) id(key stepKey) int {
	id, ok := s.number[key]
	if !ok {
		id = len(s.number)
		s.number[key] = id
	}
	return id
}

// countTurns returns the number of turns in a row.
func (c *call) countTurns(row int) int {
	n := 0
	c.eachTurn(row, func(int, int) { n++ })
	return n
}
