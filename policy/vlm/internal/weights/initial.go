package weights

import (
	"math"

	"vagen/internal/rng"
	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/model"
)

// Write stores weights under the names that the family's released files have.
func Write(dir string, cfg *model.Config, dtype safetensors.DType, from Source) error {
	named := func(part model.Stored) string {
		if cfg.Family == model.Qwen25VL {
			return cfg.OtherName(part.Name)
		}
		return part.Name
	}
	var list []safetensors.Tensor
	groups := cfg.Groups().All()
	for _, g := range groups {
		for _, p := range g.Params {
			for _, part := range p.Parts {
				list = append(list, safetensors.Tensor{Name: named(part), DType: dtype, Shape: part.Dims})
			}
		}
	}
	w, err := safetensors.CreateSharded(dir, list, nil, safetensors.DefaultShardBytes)
	if err != nil {
		return err
	}
	defer w.Close()
	for _, g := range groups {
		for _, p := range g.Params {
			for _, part := range p.Parts {
				x := make([]float32, part.Size())
				if err := from(g, p, part, x); err != nil {
					return err
				}
				if err := w.Float32(named(part), x); err != nil {
					return err
				}
			}
		}
	}
	return w.Commit()
}

// NewModel fills parameters with Create's initial values. Every part has its own random
// stream.
func NewModel(cfg *model.Config, seed uint64) Source {
	embed := cfg.Groups().Embed.Params[0].Parts[0].Name
	return func(_ *model.Group, p model.Param, part model.Stored, dst []float32) error {
		switch p.Init {
		case model.InitOne:
			for i := range dst {
				dst[i] = 1
			}
		case model.InitNormal:
			std := 0.05
			if part.Name != embed {
				std = 1 / math.Sqrt(3*float64(part.Size()/part.Dims[0]))
			}
			r := rng.New(seed, rng.Init, HashName(part.Name))
			for i := range dst {
				dst[i] = float32(r.NormFloat64() * std)
			}
		case model.InitDecay:
			r := rng.New(seed, rng.Init, HashName(part.Name))
			for i := range dst {
				dst[i] = float32(math.Log(16 * (1 - r.Float64())))
			}
		}
		return nil
	}
}
