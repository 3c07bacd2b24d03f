package learn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vagen/internal/regular"
	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/peft"
	"vagen/policy/vlm/internal/weights"
)

// Restoration loads a learner's state from files to the device.
type Restoration struct {
	Learner   *Learner
	Folders   []string // of weights; the first folder with a tensor is used
	Optimizer string   // file, absent before the first step

	weights []*safetensors.Reader
	opt     *safetensors.Reader // nil without file
	steps   int
	found   map[string]weights.Located // weights by the part's name
	buf     []float32
}

func (r *Restoration) Open() error {
	for _, dir := range r.Folders {
		w, err := openWeights(dir)
		if err != nil {
			return err
		}
		r.weights = append(r.weights, w)
	}
	opt, err := safetensors.Open(r.Optimizer)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	r.opt = opt
	return err
}

// openWeights opens an adapter's weights, or a model's.
func openWeights(dir string) (*safetensors.Reader, error) {
	w, err := safetensors.Open(filepath.Join(dir, peft.WeightsFile))
	if errors.Is(err, os.ErrNotExist) {
		return safetensors.OpenSharded(dir)
	}
	return w, err
}

// stored reports whether checkpoints contain a parameter: with adapters they contain only
// the adapters and value heads, trained or not.
func (l *Learner) stored(p model.Param) bool {
	return l.Net.Cfg.LoRA == nil || p.Adapter || strings.HasPrefix(p.Parts[0].Name, "score.")
}

func (r *Restoration) Close() {
	for _, w := range r.weights {
		w.Close()
	}
	if r.opt != nil {
		r.opt.Close()
	}
}

// Check finds every tensor and returns all problems.
func (r *Restoration) Check() []error {
	r.found = map[string]weights.Located{}
	var bad []error
	for p, part := range model.EachPart(r.Learner.Weights.Groups) {
		if r.Learner.stored(p) {
			bad = append(bad, r.find(part, !p.Frozen)...)
		}
	}
	if r.opt == nil {
		return bad
	}
	text, ok := r.opt.Metadata()[StepsKey]
	var err error
	if r.steps, err = strconv.Atoi(text); !ok || err != nil || r.steps < 0 {
		bad = append(bad, fmt.Errorf("%s: %s is %q, must be a number of steps", r.Optimizer, StepsKey, text))
	}
	return bad
}

// CheckAdapter compares the stored adapter's configuration with the model's.
func (r *Restoration) CheckAdapter(now *peft.Config) []error {
	name := filepath.Join(r.Folders[0], peft.ConfigFile)
	raw, err := regular.ReadFile(name)
	if err != nil {
		return []error{err}
	}
	was, err := peft.Parse(raw)
	if err != nil {
		return []error{fmt.Errorf("%s: %w", name, err)}
	}
	var bad []error
	if was.Scale() != now.Scale() {
		bad = append(bad, fmt.Errorf("%s: rank %d and alpha %v scale the adapter by %v, must be %v", name, was.Rank,
			was.Alpha, was.Scale(), now.Scale()))
	}
	used := map[string]bool{}
	for _, at := range r.found {
		used[at.Name] = true
	}
	for _, name := range r.weights[0].Names() {
		if !used[name] && isAdapter(name) {
			bad = append(bad, fmt.Errorf("%s is in the checkpoint, but the model does not have this adapter", name))
		}
	}
	return bad
}

// isAdapter reports whether a tensor of a checkpoint is a matrix of an adapter.
func isAdapter(name string) bool {
	return strings.HasSuffix(name, model.LoraA) || strings.HasSuffix(name, model.LoraB)
}

// find locates a part's weights, and checks its moments if it is trained.
func (r *Restoration) find(part model.Stored, trained bool) []error {
	var bad []error
	place := weights.Located{}
	t := r.Learner.storedAs(part)
	old := r.Learner.Net.Cfg.OtherName(part.Name)
	for _, w := range slices.Backward(r.weights) {
		for _, name := range []string{old, part.Name, t.Name, peft.Prefix + part.Name} {
			if _, ok := w.Info(name); ok {
				place = weights.Located{Reader: w, Name: name}
			}
		}
	}
	if place.Reader == nil {
		return append(bad, fmt.Errorf("tensor %s of shape %v is missing in %q", t.Name, part.Dims, r.Folders))
	}
	bad = append(bad, r.checkValues(place, part)...)
	if r.opt != nil && trained {
		masters := t.DType != safetensors.F32
		for _, s := range []struct {
			prefix string
			want   bool
		}{{"m.", true}, {"v.", true}, {"master.", masters}} {
			if !s.want {
				continue
			}
			name := s.prefix + part.Name
			if _, ok := r.opt.Info(name); !ok {
				bad = append(bad, fmt.Errorf("tensor %s of shape %v is missing in %s", name, part.Dims, r.Optimizer))
				continue
			}
			bad = append(bad, r.checkValues(weights.Located{Reader: r.opt, Name: name}, part)...)
		}
		if masters {
			place = weights.Located{Reader: r.opt, Name: "master." + part.Name}
		}
	}
	r.found[part.Name] = place
	return bad
}

// checkValues checks a tensor's shape and type, and that its numbers are finite.
func (r *Restoration) checkValues(at weights.Located, part model.Stored) []error {
	if bad := weights.CheckShape(at, part); len(bad) > 0 {
		return bad
	}
	var err error
	if r.buf, err = at.Reader.Float32(at.Name, r.buf[:0]); err == nil {
		err = errors.Join(net.CheckFinite(at.Name, r.buf), at.Reader.Release(at.Name))
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// Load replaces weights and moments.
func (r *Restoration) Load() error {
	steps := r.steps
	if r.opt == nil {
		steps = -1
	}
	moments := func(prefix string) weights.Source {
		return func(_ model.Param, part model.Stored, dst []float32) error {
			_, err := r.opt.Float32(prefix+part.Name, dst[:0])
			return err
		}
	}
	return r.Learner.replace(steps, func(part model.Stored, _ []float32) ([]float32, error) {
		at := r.found[part.Name]
		x, err := at.Reader.Float32(at.Name, nil)
		if err != nil {
			return nil, err
		}
		return x, at.Reader.Release(at.Name)
	}, moments("m."), moments("v."))
}
