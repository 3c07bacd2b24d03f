package weights

import (
	"hash/fnv"
	"io"
	"math"

	"vagen/internal/rng"
	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/model"
)

// Write stores weights under the names that the family's released files have.
func Write(dir string, cfg *model.Config, dtype safetensors.DType, from Source) error {
	var list []safetensors.Tensor
	groups := cfg.Groups().All()
	for _, part := range model.EachPart(groups) {
		list = append(list, safetensors.Tensor{Name: cfg.ReleasedName(part.Name), DType: dtype, Shape: part.Dims})
	}
	w, err := safetensors.CreateSharded(dir, list, nil, safetensors.DefaultShardBytes)
	if err != nil {
		return err
	}
	defer w.Close()
	for p, part := range model.EachPart(groups) {
		x := make([]float32, part.Size())
		if err := from(p, part, x); err != nil {
			return err
		}
		if err := w.Float32(cfg.ReleasedName(part.Name), x); err != nil {
			return err
		}
	}
	return w.Commit()
}

// NewParts fills the parameters that a checkpoint does not have, whose matrices are normal with the config's deviation.
func NewParts(cfg *model.Config, seed uint64) Source {
	return initial(seed, func(model.Stored) float64 { return cfg.InitRange })
}

// NewModel fills parameters with Create's initial values.
func NewModel(cfg *model.Config, seed uint64) Source {
	embed := cfg.Groups().Embed.Params[0].Parts[0].Name
	return initial(seed, func(part model.Stored) float64 {
		if part.Name == embed {
			return 0.05
		}
		return 1 / math.Sqrt(3*float64(part.Size()/part.Dims[0]))
	})
}

// initial draws normal matrices with a deviation, ones for norms and zeros for biases. Every part has its own random
// stream.
func initial(seed uint64, deviation func(model.Stored) float64) Source {
	return func(p model.Param, part model.Stored, dst []float32) error {
		r := rng.New(seed, rng.Init, HashName(part.Name))
		var next func() float64
		switch p.Init {
		case model.InitOne:
			next = func() float64 { return 1 }
		case model.InitZero:
			next = func() float64 { return 0 }
		case model.InitUniform:
			bound := 1 / math.Sqrt(float64(part.Dims[1]))
			next = func() float64 { return (2*r.Float64() - 1) * bound }
		case model.InitDecay:
			next = func() float64 { return math.Log(16 * (1 - r.Float64())) }
		default:
			std := deviation(part)
			next = func() float64 { return r.NormFloat64() * std }
		}
		for i := range dst {
			dst[i] = float32(next())
		}
		return nil
	}
}

// HashName is FNV-1a.
func HashName(s string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, s)
	return h.Sum64()
}
