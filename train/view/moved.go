package view

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"slices"

	"vagen/advantage"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/credit"
)

// A report cannot compute an estimator. For the sliders of its page it has what package
// advantage computes with one parameter at a time set to each value of a grid, the others
// being those of the run: the numbers of the tokens that the loss counts, with 16 bits each,
// and the claims of the turns.

// maxReportMoved limits these numbers in bytes of the report. Tests change it.
var maxReportMoved = 16 << 20

// movedEpisode is what a report has of an episode for its sliders.
type movedEpisode struct {
	// Spans are the tokens of each row that have numbers: pairs of a first position and the
	// one after the last.
	Spans [][][2]int `json:"spans"`
	// Params are the parameters of each estimator by name.
	Params map[string][]movedParam `json:"params"`
}

// movedParam has an estimator's results for the values of one parameter.
type movedParam struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"` // ascending
	Base   int       `json:"base"`   // index of the run's value
	// Results are those for the values; that of the run's is null, since the report has it
	// in full.
	Results []*movedResult `json:"results"`
}

type movedResult struct {
	Rows  []movedRow `json:"rows"`
	Turns column     `json:"turns"` // claims
}

type movedRow struct {
	Advantage packed `json:"advantage"`
	Return    packed `json:"return"`
}

// movedJob is an estimator whose parameters a report moves.
type movedJob struct {
	name   string
	params []*param
}

// movedJobs are the estimators with the parameters that they read.
func movedJobs(names []string) []movedJob {
	var out []movedJob
	for _, name := range names {
		spec, err := advantage.Describe(name)
		if err != nil {
			continue // the report says so where it shows the estimator's numbers
		}
		if ps := paramsOf(spec); len(ps) > 0 {
			out = append(out, movedJob{name, ps})
		}
	}
	return out
}

// moved computes the sliders of a run's episodes. Episodes come in the order in which they
// get room, of which left is reduced; those that do not fit have none. An estimator that
// needs what was not recorded has none, and a value that it refuses is left out.
func (r *run) moved(keys []string, names []string, left *int) (map[string]*movedEpisode, error) {
	jobs := movedJobs(names)
	out := map[string]*movedEpisode{}
	if len(jobs) == 0 {
		return out, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	root, err := r.openRoot()
	if err != nil {
		return nil, notFound("the run's folder does not exist any more")
	}
	defer root.Close()
	var order []fileKey
	steps := map[fileKey][]*entry{} // episodes of a step are computed together
	for _, key := range keys {
		e, err := r.find(root, key)
		if err != nil {
			return nil, err
		}
		if e.kind == kindVal || r.config == nil {
			continue
		}
		if steps[e.fileKey] == nil {
			order = append(order, e.fileKey)
		}
		steps[e.fileKey] = append(steps[e.fileKey], e)
	}
	for _, k := range order {
		r.moveStep(steps[k], jobs, left, out)
	}
	return out, nil
}

// moveStep computes the sliders of episodes of one step.
func (r *run) moveStep(all []*entry, jobs []movedJob, left *int, out map[string]*movedEpisode) {
	var kept []*entry
	reserved := 0
	for _, e := range all {
		step, err := r.credit.stepOf(r, e, false)
		if err != nil {
			return // the report says so where it shows the episode's numbers
		}
		m := &movedEpisode{Spans: spans(step, e), Params: map[string][]movedParam{}}
		if most := m.size(jobs, e.Turns); most <= *left-reserved {
			reserved += most
			out[e.key()], kept = m, append(kept, e)
		}
	}
	if len(kept) == 0 {
		return
	}
	for _, j := range jobs {
		for _, p := range j.params {
			r.moveParam(kept, j.name, p, out)
		}
	}
	for _, e := range kept {
		if raw, err := json.Marshal(out[e.key()]); err == nil { // it always can be written
			*left -= len(raw)
		}
	}
}

// size is the largest number of bytes that an episode can need.
func (m *movedEpisode) size(jobs []movedJob, turns int) int {
	tokens, spans, results := 0, 0, 0
	for _, row := range m.Spans {
		for _, s := range row {
			tokens += s[1] - s[0]
		}
		spans += len(row)
	}
	for _, j := range jobs {
		for _, p := range j.params {
			results += len(p.grid)
		}
	}
	// Two columns of two bytes per token, of which base64 makes 8/3 characters, with a scale
	// and marks for each row; and a number for each claim.
	return 32*spans + results*(2*(tokens*8/3+32*len(m.Spans))+16*turns+32)
}

// moveParam computes one parameter of an estimator.
func (r *run) moveParam(all []*entry, name string, p *param, out map[string]*movedEpisode) {
	spec, _ := advantage.Describe(name) // it is known
	step, err := r.credit.stepOf(r, all[0], spec.States)
	if err != nil {
		return
	}
	base := r.config.Params()
	own := p.get(&base)
	values := append(slices.Clone(p.grid), own)
	slices.Sort(values)
	sets := make([]movedParam, len(all))
	for _, v := range slices.Compact(values) {
		moved := base
		var got *credit.Estimated
		if v != own {
			if p.set(&moved, v) != nil {
				continue
			}
			if got, err = step.Estimate(name, moved); errors.Is(err, credit.ErrUnavailable) {
				return
			} else if err != nil {
				continue
			}
		}
		for i, e := range all {
			s := &sets[i]
			s.Values = append(s.Values, v)
			if got == nil {
				s.Base = len(s.Values) - 1
				s.Results = append(s.Results, nil)
				continue
			}
			s.Results = append(s.Results, pack(creditOf(got, e), out[e.key()].Spans))
		}
	}
	for i, e := range all {
		if s := sets[i]; len(s.Values) > 1 {
			s.Name = p.name
			out[e.key()].Params[name] = append(out[e.key()].Params[name], s)
		}
	}
}

// pack keeps the numbers of some tokens.
func pack(c creditResult, spans [][][2]int) *movedResult {
	out := &movedResult{Rows: []movedRow{}, Turns: column{}}
	for i, row := range c.Rows {
		if i < len(spans) {
			out.Rows = append(out.Rows, movedRow{packColumn(row.Advantage, spans[i]), packColumn(row.Return, spans[i])})
		}
	}
	for _, t := range c.Turns {
		out.Turns = append(out.Turns, float32(t.Claim))
	}
	return out
}

// packed are numbers of 16 bits: scale times a number from -1 to 1. A report has [scale,
// base64 of little-endian numbers], one for each token of the spans, or, where all tokens of
// a span have the same number, one for each span.
type packed struct {
	scale float32
	raw   []byte
}

// MarshalJSON implements json.Marshaler.
func (p packed) MarshalJSON() ([]byte, error) {
	b := append(appendNumber([]byte{'['}, float64(p.scale), 32), ',', '"')
	return append(base64.StdEncoding.AppendEncode(b, p.raw), '"', ']'), nil
}

const (
	packedOne  = math.MaxInt16 // stands for the scale
	packedNone = math.MinInt16 // stands for no number
)

func packColumn(x column, spans [][2]int) packed {
	var p packed
	perSpan := true
	var numbers, bySpan []float32
	for _, s := range spans {
		part := x[min(s[0], len(x)):min(s[1], len(x))]
		for _, y := range part {
			if !math.IsNaN(float64(y)) && !math.IsInf(float64(y), 0) {
				p.scale = max(p.scale, float32(math.Abs(float64(y))))
			}
			perSpan = perSpan && y == part[0]
		}
		if numbers = append(numbers, part...); len(part) > 0 {
			bySpan = append(bySpan, part[0])
		}
	}
	if perSpan {
		numbers = bySpan
	}
	for _, y := range numbers {
		q := int16(packedNone)
		switch z := float64(y); {
		case math.IsNaN(z) || math.IsInf(z, 0):
		case p.scale == 0:
			q = 0
		default:
			q = int16(math.Round(z / float64(p.scale) * packedOne))
		}
		p.raw = append(p.raw, byte(q), byte(uint16(q)>>8))
	}
	return p
}

// spans are the tokens of an episode's rows that the policy's loss counts, or all that the
// policy wrote if the masks of the loss were not recorded.
func spans(step *credit.Step, e *entry) [][][2]int {
	out := [][][2]int{}
	for _, t := range step.Episodes {
		if t.Group != e.Group || t.Index != e.Index {
			continue
		}
		for i := range t.Rows {
			out = append(out, rowSpans(counted(t, i, step.Scores)))
		}
	}
	return out
}

// counted are the tokens of a row that the loss counts.
func counted(t *rollout.Trajectory, row int, scores []store.Scores) []bool {
	for i := range scores {
		if s := &scores[i]; s.Group == t.Group && s.Index == t.Index && s.Row == row && len(s.Loss) > 0 {
			return s.Loss
		}
	}
	return t.Rows[row].Response(nil)
}

func rowSpans(on []bool) [][2]int {
	out := [][2]int{}
	for i := range on {
		switch {
		case !on[i]:
		case i > 0 && on[i-1]:
			out[len(out)-1][1] = i + 1
		default:
			out = append(out, [2]int{i, i + 1})
		}
	}
	return out
}
