package env

// Describer is implemented by environments that can describe their current state, for
// people who compare it with what the agent said. The agent is not shown the description.
type Describer interface {
	// Describe returns the state after Reset or the last Step; "" before Reset. It changes
	// nothing.
	Describe() string
}
