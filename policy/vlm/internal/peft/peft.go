// Package peft reads and writes adapter_config.json, in which PEFT, Hugging
// Face's library of adapters, describes a low-rank adapter, and decides which
// modules of a model it applies to.
package peft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"vagen/internal/field"
	"vagen/internal/jsontext"
	"vagen/internal/regular"
)

// The files of an adapter's folder.
const (
	ConfigFile  = "adapter_config.json"
	WeightsFile = "adapter_model.safetensors"
)

// Prefix is the prefix of module names in the weights file.
const Prefix = "base_model.model."

// ErrConfig is wrapped by errors about an adapter's configuration.
var ErrConfig = errors.New("bad adapter config")

// Config describes a LoRA adapter (Hu et al., arXiv:2106.09685).
type Config struct {
	Rank           int      `json:"r"`
	Alpha          float64  `json:"lora_alpha"`
	RankStabilized bool     `json:"use_rslora"`              // the scale is Alpha/√Rank, not Alpha/Rank (arXiv:2312.03732)
	Targets        []string `json:"-"`                       // modules by name, or by its last parts
	Pattern        string   `json:"-"`                       // regular expression for whole names, instead of Targets
	Saved          []string `json:"modules_to_save"`         // modules that are trained and stored in full
	Dropout        float64  `json:"lora_dropout"`            // on the adapter's input in training
	Base           string   `json:"base_model_name_or_path"` // base model of the adapter
}

// maxFile limits the size of a configuration in bytes.
const maxFile = 16 << 20

// Read returns the configuration in an adapter's folder.
func Read(dir string) (Config, error) {
	raw, err := regular.ReadAtMost(filepath.Join(dir, ConfigFile), maxFile, ErrConfig)
	if err != nil {
		return Config{}, err
	}
	c, err := Parse(raw)
	if err != nil {
		err = fmt.Errorf("%s: %w", dir, err)
	}
	return c, err
}

// maxRank is more than the width of any model, and keeps sizes inside an int.
const maxRank = 1 << 16

// Scale is the factor of the adapter's product.
func (c Config) Scale() float64 {
	if c.RankStabilized {
		return c.Alpha / math.Sqrt(float64(c.Rank))
	}
	return c.Alpha / float64(c.Rank)
}

// file are the keys that are read.
type file struct {
	Config
	Type    string          `json:"peft_type"`
	Targets json.RawMessage `json:"target_modules"`
	Bias    string          `json:"bias"`
	Init    json.RawMessage `json:"init_lora_weights"`
}

// ignoredKeys do not affect a loaded adapter. Every other key that is not read must be empty: null, false, 0 or without
// elements.
var ignoredKeys = []string{"auto_mapping", "revision", "inference_mode", "task_type", "peft_version", "megatron_core",
	"qalora_group_size"}

// Parse reads a configuration ; the error lists all unsupported settings.
func Parse(raw []byte) (Config, error) {
	f := file{Config: Config{Rank: 8, Alpha: 8}} // what PEFT has for keys that are missing
	var all map[string]json.RawMessage
	if err := errors.Join(jsontext.Unmarshal(raw, &all), jsontext.Unmarshal(raw, &f)); err != nil {
		return Config{}, fmt.Errorf("peft: %w: %w", ErrConfig, err)
	}
	var bad field.Checks
	if f.Type != "LORA" {
		bad.Say("peft_type is %q, must be \"LORA\"", f.Type)
	}
	if f.Bias != "" && f.Bias != "none" {
		bad.Say("bias is %q, must be \"none\"", f.Bias)
	}
	if init := string(f.Init); !slices.Contains([]string{"", "null", "true", "false", `"gaussian"`}, init) {
		bad.Say("init_lora_weights is %s, which changes the base model; must be true, false or \"gaussian\"", init)
	}
	for key := range field.Named(reflect.TypeFor[file](), "json") {
		delete(all, key)
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(ignoredKeys, key) && !empty(all[key]) {
			bad.Say("%s is %s, must be empty: it is not supported", key, all[key])
		}
	}
	c := f.Config
	if err := c.targets(f.Targets); err != nil {
		bad.Say("%w", err)
	}
	if err := bad.Err(); err != nil {
		return Config{}, fmt.Errorf("peft: %w: %w", ErrConfig, err)
	}
	return c, c.Check()
}

func (c *Config) targets(raw json.RawMessage) error {
	if json.Unmarshal(raw, &c.Targets) == nil && len(c.Targets) > 0 {
		slices.Sort(c.Targets) // PEFT writes a set
		return nil
	}
	if json.Unmarshal(raw, &c.Pattern) == nil && c.Pattern != "" {
		return nil
	}
	return fmt.Errorf("target_modules is %s, must be a list of names or a regular expression", raw)
}

// empty reports whether a JSON value is null, false, 0 or has no elements.
func empty(raw json.RawMessage) bool {
	return slices.Contains([]string{"null", "false", "0", "0.0", `""`, "[]", "{}"}, string(bytes.TrimSpace(raw)))
}

// Check returns an error that lists every invalid value.
func (c Config) Check() error {
	var bad field.Checks
	if c.Rank < 1 || c.Rank > maxRank {
		bad.Say("rank is %d, must be in [1, %d]", c.Rank, maxRank)
	}
	if !(c.Alpha > 0) || math.IsInf(c.Alpha, 0) {
		bad.Say("alpha is %v, must be positive and finite", c.Alpha)
	}
	if (len(c.Targets) == 0) == (c.Pattern == "") {
		bad.Say("%d targets and pattern %q, must be exactly one of the two", len(c.Targets), c.Pattern)
	}
	if slices.Contains(c.Targets, "") {
		bad.Say("a target is empty")
	}
	if _, err := c.pattern(); err != nil {
		bad.Say("%w", err)
	}
	if err := bad.Err(); err != nil {
		return fmt.Errorf("peft: %w: %w", ErrConfig, err)
	}
	return nil
}

func (c Config) pattern() (*regexp.Regexp, error) {
	re, err := regexp.Compile(`^(?:` + c.Pattern + `)$`)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", c.Pattern, err)
	}
	return re, nil
}

// Match returns a function that reports whether a module has an adapter: the
// pattern matches its whole name, or a target equals the name or its last parts.
// The configuration must be valid (see Check).
func (c Config) Match() func(module string) bool {
	if c.Pattern != "" {
		re, err := c.pattern()
		if err != nil {
			return func(string) bool { return false }
		}
		return re.MatchString
	}
	targets := slices.Clone(c.Targets)
	return func(module string) bool {
		return slices.ContainsFunc(targets, func(t string) bool { return module == t || strings.HasSuffix(module, "."+t) })
	}
}

// JSON is the configuration as PEFT reads it.
func (c Config) JSON() []byte {
	var targets any = c.Targets
	if c.Pattern != "" {
		targets = c.Pattern
	}
	doc := map[string]any{
		"peft_type": "LORA", "task_type": nil, "base_model_name_or_path": c.Base, "inference_mode": true,
		"r": c.Rank, "lora_alpha": c.Alpha, "use_rslora": c.RankStabilized, "lora_dropout": c.Dropout,
		"target_modules": targets,
		"bias":           "none", "fan_in_fan_out": false, "modules_to_save": c.Saved, "init_lora_weights": true,
	}
	var b bytes.Buffer
	_ = jsontext.Write(&b, doc) // maps of plain values always encode
	return b.Bytes()
}
