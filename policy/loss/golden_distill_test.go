package loss

import (
	"cmp"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// vocab are recorded logits as log-probs over the vocabulary.
type vocab struct {
	logProb []float64 // positions × size
	size    int
}

func logSoftmax(c *golden.Run, name string, temperature float64) vocab {
	c.Helper()
	x, size := flatCube[float64](golden.Input[cube](c, name))
	for i := range x {
		x[i] /= temperature
	}
	for at := 0; at < len(x); at += size {
		shift(x[at:at+size], logSum(x[at:at+size]))
	}
	return vocab{x, size}
}

// at returns the log-probs of some tokens at each position.
func (v vocab) at(ids [][]int) (out []float64) {
	for i, list := range ids {
		for _, id := range list {
			out = append(out, v.logProb[i*v.size+id])
		}
	}
	return out
}

// top returns the k most likely tokens of each position.
func (v vocab) top(k int) (out [][]int) {
	for at := 0; at < len(v.logProb); at += v.size {
		ids := all(v.size)
		slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(v.logProb[at+b], v.logProb[at+a]) })
		out = append(out, ids[:k])
	}
	return out
}

func all(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// slopes returns the gradient by logits that were divided by a temperature.
func (v vocab) slopes(grad []float64, ids [][]int, temperature float64) []float64 {
	out, k := make([]float64, len(v.logProb)), 0
	for i, list := range ids {
		total := 0.0
		for _, id := range list {
			out[i*v.size+id] += grad[k] / temperature
			total, k = total+grad[k], k+1
		}
		for id, p := range v.logProb[i*v.size:][:v.size] {
			out[i*v.size+id] -= math.Exp(p) * total / temperature
		}
	}
	return out
}

// compared is a case with logits: the tokens that are compared, and the batch with their log-probs.
type compared struct {
	student, teacher vocab
	ids              [][]int
	batch            Batch[float64]
}

// logitsOf reads the student, and the teacher if there is one.
func logitsOf(c *golden.Run, temperature float64) *compared {
	c.Helper()
	out := &compared{student: logSoftmax(c, "student_logits", temperature)}
	if _, ok := c.Inputs["teacher_logits"]; ok {
		out.teacher = logSoftmax(c, "teacher_logits", temperature)
	}
	mask := input(c, "response_mask")
	zeros := make([]float64, len(mask.mask()))
	out.batch = Batch[float64]{Offsets: mask.offsets(), Mask: mask.mask(), LogProb: zeros, OldLogProb: zeros,
		Advantage: zeros}
	return out
}

// choose sets the compared tokens.
func (x *compared) choose(ids [][]int) {
	x.ids, x.batch.Chosen, x.batch.Teacher = ids, x.student.at(ids), x.teacher.at(ids)
}

// compare compares the sum of the tokens' losses, each with its weight, and the gradient by the logits.
func (x *compared) compare(c *golden.Run, p Policy, weights []float64, temperature float64) *Result {
	c.Helper()
	got := weighted(c, p, weights, &x.batch)
	c.Number("loss", got.Loss)
	if _, ok := c.Expected["grad_logits"]; ok {
		golden.Numbers(c, "grad_logits", x.student.slopes(got.GradChosen, x.ids, temperature))
	}
	return got
}

func verlTopK(c *golden.Run) {
	x := logitsOf(c, 1)
	ids := golden.Input[[][][]int](c, "topk_ids")
	y := golden.Input[cube](c, "teacher_topk_log_probs")
	x.ids = slices.Concat(ids...)
	x.batch.Chosen = x.student.at(x.ids)
	x.batch.Teacher, _ = flatCube[float64](y)
	o := DefaultOptions()
	o.DistillKL, o.DistillPG = golden.Param[string](c, "loss_mode"), golden.Param[bool](c, "use_policy_gradient")
	o.DistillTopK, o.DistillFloor = int(c.Param("topk")), c.Optional("log_prob_min_clamp", 0)
	o.DistillClamp = c.Optional("loss_max_clamp", 0)
	o.ClipLow, o.ClipHigh = c.Optional("clip_ratio_low", 0.2), c.Optional("clip_ratio_high", 0.2)
	o.DualClip = c.Optional("clip_ratio_c", 3)
	p := built(c, "opd", o)
	if o.DistillPG {
		x.batch.LogProb, x.batch.OldLogProb = column[float64](c, "log_prob"), column[float64](c, "old_log_prob")
	}
	a := verlAggregation(c, x.batch.Offsets, x.batch.Mask)
	weights, err := a.Weights(nil, x.batch.Offsets, x.batch.Mask)
	require.NoError(c, err)
	for i := range weights {
		weights[i] *= a.scale
	}
	if a.Mode == SeqMeanTokenMean {
		c.Tolerance.Abs += 1e-8 // verl adds 1e-8 to a row's count
	}
	got := x.compare(c, p, weights, 1)
	if o.DistillPG {
		golden.Numbers(c, "grad_log_prob", got.Grad)
	}
	counted := float64(countTrue(x.batch.Mask))
	for name, mass := range map[string]float64{
		"student_mass": got.Metrics.Teacher.StudentMass, "teacher_mass": got.Metrics.Teacher.TeacherMass,
	} {
		want := 0.0
		for i, of := range c.Flat(c.Expected, name) {
			if x.batch.Mask[i] {
				want += of / counted
			}
		}
		c.Float(name, mass, want)
	}
	// Before clamping, at every position; the terms without the floor at 0 are those of the divergence's sum.
	var kl []float64
	var scratch pair
	d := p.(Distill).Over
	for i, list := range x.ids {
		scratch.s, scratch.t = raise(x.batch.Chosen[i*len(list):][:len(list)], d.Floor),
			raise(x.batch.Teacher[i*len(list):][:len(list)], d.Floor)
		scratch.slope = make([]float64, len(list))
		kl = append(kl, d.sum(&scratch))
	}
	golden.Numbers(c, "token_kl", kl)
}

func raise(x []float64, floor float64) []float64 {
	out := slices.Clone(x)
	for k := range out {
		if floor < 0 {
			out[k] = max(out[k], floor)
		}
	}
	return out
}

func gkd(c *golden.Run) {
	temperature := c.Optional("temperature", 1)
	x := logitsOf(c, temperature)
	x.choose(slices.Repeat([][]int{all(x.student.size)}, len(x.batch.Mask)))
	p := Distill{Over: Divergence{Form: Whole, Choice: Choice{By: WholeVocabulary},
		Alpha: c.Optional("beta", 1)}}
	items := c.Optional("num_items_in_batch", max(1, float64(countTrue(x.batch.Mask))))
	x.compare(c, p, slices.Repeat([]float64{1 / items}, len(x.batch.Mask)), temperature)
	entropy := 0.0
	for i, m := range x.batch.Mask {
		for _, lp := range x.student.logProb[i*x.student.size:][:x.student.size] {
			if m {
				entropy -= math.Exp(lp) * lp
			}
		}
	}
	c.Number("entropy_sum", entropy)
}

func sdftTRL(c *golden.Run) {
	x := logitsOf(c, c.Optional("temperature", 1))
	o := DefaultOptions()
	o.SDFTMode = golden.Param[string](c, "distillation_mode")
	o.SDFTTail = golden.ParamOr(c, "distillation_add_tail", o.SDFTTail)
	o.SDFTAlpha = c.Optional("distillation_alpha", 0.5)
	o.SDFTTopK = int(c.Optional("distillation_topk", 100))
	o.SDFTCap = c.Optional("distillation_is_clip", 0)
	p := built(c, "sdft", o)
	var written [][]int
	for _, id := range column[float64](c, "completion_ids") {
		written = append(written, []int{int(id)})
	}
	b := &x.batch
	b.LogProb, b.Ref = x.student.at(written), x.teacher.at(written)
	if b.OldLogProb = b.LogProb; o.SDFTCap > 0 {
		b.OldLogProb = column[float64](c, "old_log_prob")
	}
	switch o.SDFTMode {
	case "full_logits":
		x.choose(slices.Repeat([][]int{all(x.student.size)}, len(b.Mask)))
	case "topk_logits":
		x.choose(x.student.top(min(o.SDFTTopK, x.student.size)))
	}
	weights := make([]float64, len(b.Mask))
	rows := float64(b.Rows()) * c.Optional("gradient_accumulation_steps", 1)
	for row := range b.Rows() {
		lo, hi := b.Offsets[row], b.Offsets[row+1]
		clear(b.Mask[lo:min(hi, lo+int(c.Optional("num_loss_tokens_to_skip", 0)))])
		for i := lo; i < hi; i++ {
			weights[i] = 1 / (rows * max(1, float64(countTrue(b.Mask[lo:hi]))))
		}
	}
	if o.SDFTMode == "sampled_token" { // whose gradient is by the written token
		r := weighted(c, p, weights, b)
		c.Number("loss", r.Loss)
		golden.Numbers(c, "grad_logits", x.student.slopes(r.Grad, written, 1))
		return
	}
	x.compare(c, p, weights, 1)
}

func sdftTinker(c *golden.Run) {
	x := logitsOf(c, 1)
	top := golden.Input[[][][][2]float64](c, "teacher_topk")
	mode := golden.Param[string](c, "mode")
	skip, k := int(c.Optional("skip_first_n_tokens", 3)), int(c.Param("topk"))
	size := int(c.Optional("vocab_size", float64(x.student.size)))
	p := Distill{Over: Divergence{Form: CrossEntropy, Choice: Choice{ByTeacher, k}}}
	if mode == "reverse_kl" {
		p.Over.Form, p.Over.Alpha = Renormalised, 1
	}
	b := &x.batch
	loss, positions := 0.0, 0
	var grad, targets, weights []float64
	for i, list := range slices.Concat(top...) {
		row, _ := locate(b.Offsets, i)
		counted := b.Mask[i] && countTrue(b.Mask[b.Offsets[row]:i+1]) > skip
		ids, q := []int{}, []float64{}
		for _, pair := range list {
			if id := int(pair[0]); counted && id < size && len(ids) < k {
				ids, q = append(ids, id), append(q, pair[1])
			}
		}
		// Positions have as many compared tokens as the teacher's list has below the vocabulary's size.
		student := vocab{x.student.logProb[i*x.student.size:][:x.student.size], x.student.size}
		one := Batch[float64]{Offsets: []int{0, 1}, Mask: []bool{len(ids) > 0}, LogProb: []float64{0},
			OldLogProb: []float64{0}, Advantage: []float64{0}, Chosen: student.at([][]int{ids}), Teacher: q}
		r := &Result{}
		if len(ids) > 0 {
			r, positions = sumOf(c, p, &one), positions+1
		}
		loss += r.Loss
		grad = append(grad, student.slopes(r.GradChosen, [][]int{ids}, 1)...)
		shift(q, logSum(q))
		for j := range k {
			id, w := 0.0, 0.0
			if j < len(ids) {
				id, w = float64(ids[j]), math.Exp(q[j])
			}
			targets, weights = append(targets, id), append(weights, w)
		}
	}
	if _, ok := c.Expected["reverse_kl_positions"]; ok {
		c.Number("reverse_kl_positions", float64(positions))
	}
	c.Number("loss", loss)
	golden.Numbers(c, "grad_logits", grad)
	golden.Numbers(c, "target_tokens", targets)
	golden.Numbers(c, "weights", weights)
}
