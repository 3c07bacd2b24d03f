package reward

// Part is one named component of a turn's reward, such as "format", "success"
// or "observation" (a state reward). Values are in the environment's own units.
type Part struct {
	Name  string
	Value float64
}

// Parts is the reward of one turn in its components, in the order in which the
// environment paid them.
type Parts []Part

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
