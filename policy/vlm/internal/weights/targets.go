package weights

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/peft"
)

// decoderPattern matches the linear maps of decoder layers, of all families.
const decoderPattern = `model\.(language_model\.)?layers\.\d+\.` +
	`(self_attn\.[qkvo]_proj|linear_attn\.(in_proj_(qkv|z|b|a)|out_proj)|mlp\.(gate|up|down)_proj)`

// Adapt adds adapters to a model's configuration: new ones, those stored in a folder, or none. It returns their
// settings; nil for none.
func Adapt(cfg *model.Config, lora *peft.Config, stored string, log *slog.Logger) (*peft.Config, error) {
	switch {
	case lora == nil && stored == "":
		return nil, nil
	case lora == nil:
		c, err := ReadAdapterConfig(stored, log)
		if err != nil {
			return nil, err
		}
		if len(c.Saved) > 0 {
			return nil, fmt.Errorf("vlm: %s: %w: modules_to_save is %q, which a policy does not have", stored, peft.ErrConfig,
				c.Saved)
		}
		lora = &c
	case stored != "":
		return nil, fmt.Errorf("vlm: %w: LoRA and Adapter are both set, but a stored adapter has its own settings",
			backend.ErrOption)
	case len(lora.Targets) == 0 && lora.Pattern == "":
		lora.Pattern = decoderPattern
	}
	err := lora.Check()
	if err == nil {
		cfg.LoRA = &model.LoRA{Rank: lora.Rank, Scale: lora.Scale(), Match: lora.Match()}
		if stored == "" {
			err = absentTargets(cfg, lora.Targets)
		}
	}
	if err == nil {
		err = checkTargets(cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("vlm: %w: LoRA: %w", backend.ErrOption, err)
	}
	return lora, nil
}

// checkTargets checks that the adapters are on linear maps of blocks, and on the same
// ones in each layer of a type, because one executable serves all of them.
func checkTargets(cfg *model.Config) error {
	g := cfg.Groups()
	found := false
	for _, stack := range [][]model.Group{g.Layers, g.Blocks} {
		for i := range stack {
			first := slices.IndexFunc(stack, func(g model.Group) bool { return sameType(g.Params, stack[i].Params) })
			if a, b := stack[first].Params, stack[i].Params; !slices.EqualFunc(a, b, sameRole) {
				return fmt.Errorf("%s and %s have different adapters, must be the same in all layers of a type",
					stack[i].Name, stack[first].Name)
			}
			found = found || slices.ContainsFunc(stack[i].Params, func(p model.Param) bool { return p.Adapter })
		}
	}
	g.Layers, g.Blocks = nil, nil
	for _, part := range model.EachPart(g.All()) {
		if len(part.Dims) == 2 && cfg.LoRA.Match(part.Module()) {
			return fmt.Errorf("%s is a target, but only linear layers of decoder layers and vision blocks can have adapters",
				part.Module())
		}
	}
	if !found {
		return errors.New("no linear layer of the model is a target")
	}
	return nil
}

// absentTargets returns an error for targets that no linear map has in its name. It lists
// the possible ones.
func absentTargets(cfg *model.Config, targets []string) error {
	g := cfg.Groups()
	blocks := model.Groups{Roles: model.Roles[model.Group]{Blocks: g.Blocks, Layers: g.Layers}}
	var maps, names []string
	for p, part := range model.EachPart(blocks.All()) {
		if len(part.Dims) == 2 && !p.Adapter {
			maps = append(maps, part.Module())
			names = append(names, part.Module()[strings.LastIndex(part.Module(), ".")+1:])
		}
	}
	var absent []string
	for _, target := range targets {
		on := peft.Config{Targets: []string{target}}.Match()
		if !slices.ContainsFunc(maps, on) {
			absent = append(absent, target)
		}
	}
	if len(absent) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("target_modules: the model's blocks have no linear layer %q, only %q", absent, slices.Compact(names))
}

// sameType reports whether layers have the same parameters, apart from adapters.
func sameType(a, b []model.Param) bool {
	plain := func(all []model.Param) []model.Param {
		return slices.DeleteFunc(slices.Clone(all), func(p model.Param) bool { return p.Adapter })
	}
	return slices.EqualFunc(plain(a), plain(b), sameRole)
}

// sameRole reports whether parameters of two layers have the same role in them.
func sameRole(a, b model.Param) bool {
	place := func(p model.Param) string { return layerNumber.ReplaceAllString(p.Parts[0].Name, ".") }
	return place(a) == place(b)
}

var layerNumber = regexp.MustCompile(`\.(layers|blocks)\.\d+\.`)

// Freeze sets the weights that are not trained, by patterns of their names.
func Freeze(cfg *model.Config, globs []string) error {
	if len(globs) == 0 {
		return nil
	}
	patterns := make([]*regexp.Regexp, len(globs))
	for i, glob := range globs {
		patterns[i] = regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, ".*") + "$")
	}
	cfg.Frozen = func(name string) bool {
		return slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.MatchString(name) })
	}
	used := make([]bool, len(patterns))
	for _, g := range cfg.Groups().All() {
		for _, p := range g.Params {
			frozen := 0
			for _, part := range p.Parts {
				for i, re := range patterns {
					used[i] = used[i] || re.MatchString(part.Name)
				}
				if cfg.Frozen(part.Name) {
					frozen++
				}
			}
			if frozen > 0 && frozen < len(p.Parts) {
				return fmt.Errorf("vlm: %w: Freeze matches only some of the weights that are stacked with %s (q, k and v; gate and up; in_proj_*), must match all or none", backend.ErrOption, p.Parts[0].Name)
			}
		}
	}
	if i := slices.Index(used, false); i >= 0 {
		return fmt.Errorf("vlm: %w: Freeze: no weight matches %q", backend.ErrOption, globs[i])
	}
	return nil
}
