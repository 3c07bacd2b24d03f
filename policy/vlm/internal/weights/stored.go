package weights

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

// ErrWeights is wrapped by errors about tensors that are missing, have the wrong
// shape, or contradict the config.
var ErrWeights = errors.New("weights do not fit the config")

// weightTypes are the types of tensors that are widened to float32.
var weightTypes = []safetensors.DType{safetensors.F32, safetensors.BF16, safetensors.F16}

// Names maps every part of a model to its tensor in a checkpoint, in the old or the new
// layout.
type Names map[string]safetensors.Tensor

// Resolve finds every parameter in the checkpoint; its error lists all problems. A value
// head may be missing. unused are tensors that the model does not have.
func Resolve(r *safetensors.Reader, cfg *model.Config) (found Names, unused []string, err error) {
	found = Names{}
	used := map[string]bool{}
	var problems []error
	for p, part := range model.EachPart(cfg.Groups().All()) {
		if p.Adapter {
			continue // not in the model's own files
		}
		name, info, ok := lookUp(r, cfg, part.Name, "")
		switch {
		case !ok && strings.HasPrefix(part.Name, "score."): // it becomes a new value head
		case !ok && cfg.OtherName(part.Name) != part.Name:
			problems = append(problems, fmt.Errorf("%s %v is missing, and so is %s", part.Name, part.Dims,
				cfg.OtherName(part.Name)))
		case !ok:
			problems = append(problems, fmt.Errorf("%s %v is missing", part.Name, part.Dims))
		default:
			bad := CheckShape(Located{r, name}, part)
			if problems = append(problems, bad...); len(bad) == 0 {
				found[part.Name], used[name] = info, true
			}
		}
	}
	if cfg.Tied {
		if err := checkTied(r, cfg, found); err != nil {
			problems = append(problems, err)
		}
		used["lm_head.weight"] = true
	}
	if len(problems) > 0 {
		return nil, nil, fmt.Errorf("%w, in %d places:\n%w", ErrWeights, len(problems), errors.Join(problems...))
	}
	for _, name := range r.Names() {
		if !used[name] && !cfg.Unused(name) {
			unused = append(unused, name)
		}
	}
	return found, unused, nil
}

// lookUp finds a tensor by a prefix and its name in memory, or that of the older layout.
func lookUp(r *safetensors.Reader, cfg *model.Config, name, prefix string) (string, safetensors.Tensor, bool) {
	if info, ok := r.Info(prefix + name); ok {
		return prefix + name, info, true
	}
	old := prefix + cfg.OtherName(name)
	info, ok := r.Info(old)
	return old, info, ok
}

// checkTied rejects a checkpoint whose config ties the head to the embedding but that
// stores a different head.
func checkTied(r *safetensors.Reader, cfg *model.Config, found Names) error {
	head, stored := r.Info("lm_head.weight")
	embed, ok := found[cfg.Groups().Embed.Params[0].Parts[0].Name]
	if !stored || !ok { // that the embedding is missing or misshapen is a problem of its own
		return nil
	}
	var same bool
	var errs [2]error
	if head.DType == embed.DType {
		var a, b []byte
		a, errs[0] = r.Bytes("lm_head.weight")
		b, errs[1] = r.Bytes(embed.Name)
		same = bytes.Equal(a, b)
	} else {
		var a, b []float32
		a, errs[0] = r.Float32("lm_head.weight", nil)
		b, errs[1] = r.Float32(embed.Name, nil)
		same = slices.Equal(a, b)
	}
	if err := errors.Join(errs[:]...); err != nil || same {
		return err
	}
	return errors.New("config.json ties lm_head to the embedding, but lm_head.weight is stored and differs from it")
}

// CheckpointSource fills parameters from the checkpoint in dir, and those that it does not
// have from otherwise.
func CheckpointSource(r *safetensors.Reader, dir string, found Names, otherwise Source) Source {
	return func(p model.Param, part model.Stored, dst []float32) error {
		t, ok := found[part.Name]
		if !ok {
			return otherwise(p, part, dst)
		}
		if _, err := r.Float32(t.Name, dst[:0]); err != nil {
			return fmt.Errorf("vlm: reading %s: %w", t.Name, err)
		}
		if err := net.CheckFinite(t.Name, dst); err != nil {
			return fmt.Errorf("vlm: reading %s: %w", filepath.Join(dir, r.Shard(t.Name)), err)
		}
		return r.Release(t.Name)
	}
}

// Located is a tensor in a file.
type Located struct {
	Reader *safetensors.Reader
	Name   string
}

// CheckShape compares a tensor's shape and type with the part's.
func CheckShape(at Located, part model.Stored) (bad []error) {
	info, _ := at.Reader.Info(at.Name)
	if !slices.Equal(info.Shape, part.Dims) {
		bad = append(bad, fmt.Errorf("%s has shape %v, must be %v", at.Name, info.Shape, part.Dims))
	}
	if !slices.Contains(weightTypes, info.DType) {
		bad = append(bad, fmt.Errorf("%s is of type %v, must be one of %v", at.Name, info.DType, weightTypes))
	}
	return bad
}

// CheckTensors compares the headers of a folder's weights with a model.
func CheckTensors(dir string, spec *model.Config) error {
	r, err := safetensors.OpenSharded(dir)
	if err != nil {
		return fmt.Errorf("vlm: %w", err)
	}
	defer r.Close()
	if _, _, err := Resolve(r, spec); err != nil {
		return fmt.Errorf("vlm: %s: %w", dir, err)
	}
	return nil
}
