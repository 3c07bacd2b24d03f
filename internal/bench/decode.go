package bench

import (
	"context"
	"fmt"
	"time"

	"vagen/internal/usage"
)

// leastDecoded is the minimum number of timed decoding steps, and warmDecoded the number of
// untimed steps before them. The time of a step is the mean of decodedTogether steps from it
// on, because a program can make so many tokens, which arrive at the same time.
const (
	leastDecoded    = 16
	warmDecoded     = 4
	decodedTogether = 8
)

// decode times the tokens of long responses, after an untimed pass for compilation.
func (r *runner) decode(ctx context.Context) error {
	r.Steps = max(r.Steps, leastDecoded)
	prompts, err := r.prompts()
	if err != nil {
		return err
	}
	var steps ticks
	for range 2 {
		steps = ticks{begun: map[int]bool{}}
		start := time.Now()
		out, err := r.model.Stream(ctx, prompts, r.sampling(r.Steps+warmDecoded+decodedTogether),
			func(prompt int, _ int32) { steps.note(prompt, tick{time.Now(), usage.CPUTime()}) })
		forget(r.model, prompts)
		if err == nil {
			err = firstError(out)
		}
		if err != nil {
			return err
		}
		if first := steps.parts[0]; r.first == 0 && len(first) > 1 {
			r.first = first[1].at.Sub(start)
		}
	}
	if r.times, r.cpu = steps.times(); len(r.times) == 0 {
		return fmt.Errorf("every response ended within the first %d tokens: there are no steps to time",
			warmDecoded+decodedTogether)
	}
	return nil
}

// tick is the time at which rows that decode together got their tokens.
type tick struct {
	at  time.Time
	cpu time.Duration
}

// ticks are those of a call. Rows that do not decode together, because there are more than in a batch or because work
// is divided into parts, decode one part after another.
type ticks struct {
	parts [][]tick
	begun map[int]bool // prompts with a token
	last  int          // prompt
}

// note adds a token of a prompt.
func (s *ticks) note(prompt int, now tick) {
	first, n := !s.begun[prompt], len(s.parts)
	s.begun[prompt] = true
	switch {
	case n == 0 || first && len(s.parts[n-1]) > 1: // after steps of other rows
		s.parts = append(s.parts, []tick{now})
	case prompt <= s.last: // the first row of a step
		s.parts[n-1] = append(s.parts[n-1], now)
	}
	s.last = prompt
}

// times returns the times of steps in which every row got a token, and the CPU time of all of them.
func (s *ticks) times() (steps []time.Duration, cpu time.Duration) {
	n := len(s.parts[0])
	for _, part := range s.parts {
		n = min(n, len(part))
	}
	for i := warmDecoded; i+decodedTogether < n; i++ {
		step := time.Duration(0)
		for _, part := range s.parts {
			from, to := part[i], part[i+decodedTogether]
			step, cpu = step+to.at.Sub(from.at)/decodedTogether, cpu+(to.cpu-from.cpu)/decodedTogether
		}
		steps = append(steps, step)
	}
	return steps, cpu
}
