package plan

import "vagen/policy/loss"

// planHinted raises the plan to what a score of the rows with hints needs.
func (s *Setup) planHinted(p *Memory, w Workload) {
	w.Tokens += w.Hint
	at := s.planLayout(s.plannedPart(w))
	activations, logits := at.forwardBytes(s.Net), 4*at.logitBytes(s.Net.Spec)
	if activations+logits > p.Gradients+p.Activations+p.Logits {
		p.Gradients, p.Activations, p.Logits = 0, activations, logits
	}
}

// comparedBytes is the memory of the log-probs that a loss compares. A number of the teacher is a float32, which an
// optimiser step copies; the step has a float32 of the policy, one of the slope, and float64s of all while the loss is
// evaluated: EvalBytes. Tokens that are not the whole vocabulary have ids, too.
func (s *Setup) comparedBytes(w Workload) int64 {
	if w.Compared.By == "" {
		return 0
	}
	k, teacher := int64(w.Compared.K), int64(8)
	if w.Compared.By == loss.WholeVocabulary {
		k, teacher = int64(s.Net.Cfg.Text.Vocab), 4
	}
	update := w.Rows
	if w.UpdateRows > 0 {
		update = min(update, w.UpdateRows)
	}
	n := int64(w.Rows) * teacher
	if w.Train {
		n += int64(update) * (teacher + 4 + 4 + EvalBytes)
	}
	n *= int64(w.Tokens)
	if w.Hint > 0 { // there is a copy without hints
		n += int64(w.Rows) * teacher * int64(w.Tokens+w.Hint)
	}
	return n * k
}

// EvalBytes is the memory that the evaluation of a policy.Objective allocates for each log-prob that it compares.
const EvalBytes = 32
