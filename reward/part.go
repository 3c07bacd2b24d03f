package reward

import "slices"

// Part is one named component of a turn's reward, such as "format", "success"
// or "observation" (a state reward). Values are in the environment's own units.
type Part struct {
	Name  string  // what the reward is for
	Value float64 // amount
}

// Parts is the reward of one turn in its components, in the environment's order.
type Parts []Part

// Add adds a part, unless its value is 0.
func (p *Parts) Add(name string, value float64) {
	if value != 0 {
		*p = append(*p, Part{Name: name, Value: value})
	}
}

// Sum adds the parts in order.
func (p Parts) Sum() float64 {
	var sum float64
	for _, part := range p {
		sum += part.Value
	}
	return sum
}

// Of returns the sum of the parts with the given name, 0 when there is none.
func (p Parts) Of(name string) float64 {
	var sum float64
	for _, part := range p {
		if part.Name == name {
			sum += part.Value
		}
	}
	return sum
}

// EpisodeMean scales the parts with the given names so that their sum over the episode
// is their mean over its turns, times horizon, the largest number of turns:
//
//	value · horizon / turns
//
// An episode that ends early then gets the same state reward as a longer one with the
// same mean. Reward parts are replaced, not changed in place.
func EpisodeMean(turns []Parts, horizon int, names ...string) {
	scale := float64(horizon) / float64(len(turns))
	for k, parts := range turns {
		scaled := make(Parts, len(parts))
		for i, part := range parts {
			if slices.Contains(names, part.Name) {
				part.Value *= scale
			}
			scaled[i] = part
		}
		turns[k] = scaled
	}
}
