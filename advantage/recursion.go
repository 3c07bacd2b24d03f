package advantage

// recursion is the state of an advantage recursion over the steps of a row, last step first:
//
//	A(t) = r(t) + gamma·V(next) − V(t) + decay·A(next)
//
// All state is float64. Products are converted explicitly, which keeps compilers from fusing
// them with the sum, so that all machines round alike.
type recursion struct {
	gamma, decay float64
	next, acc    float64 // V and A of the following step
}

// newRecursion is generalized advantage estimation with a discount and λ.
func newRecursion(gamma, lambda float64) recursion {
	return recursion{gamma: gamma, decay: gamma * lambda}
}

// step moves the recursion over one token or turn and returns its advantage.
func (s *recursion) step(reward, value float64) float64 {
	delta := reward + float64(s.gamma*s.next) - value
	s.acc = delta + float64(s.decay*s.acc)
	s.next = value
	return s.acc
}
