package config_test

import (
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/field"
	"vagen/train/config"
)

// TestNoCountMayOverflow sets each whole number of the configuration to the largest one, in each stage.
func TestNoCountMayOverflow(t *testing.T) {
	for _, stage := range []string{config.StageRL, config.StageSFT, config.StageSFTThen} {
		reference := config.Default()
		counts := counted(reflect.ValueOf(&reference).Elem(), "")
		require.Contains(t, counts, "sft.optim.lr_warmup_steps")
		require.Contains(t, counts, "huggingface_hub.hf_save_freq", "pointers are counts, too")
		require.Greater(t, len(counts), 60)
		for key := range counts {
			c := config.Default()
			c.Trainer.Stage = stage
			set := counted(reflect.ValueOf(&c).Elem(), "")[key]
			if set.Kind() == reflect.Pointer {
				set.Set(reflect.New(set.Type().Elem()))
				set = set.Elem()
			}
			set.SetInt(math.MaxInt64)
			require.Contains(t, field.Keys(c.Validate()), key, "%s: %s", stage, key)
		}
	}
	c := config.Default()
	c.SFT.Optim.WarmupSteps = field.Most + 1
	require.ErrorContains(t, c.Validate(), "sft.optim.lr_warmup_steps is 1073741825, must be at most 1073741824")
}

// counted returns the fields of type int and *int by their keys. Seeds are int64.
func counted(v reflect.Value, prefix string) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	for name, f := range field.Named(v.Type(), "yaml") {
		at := v.FieldByIndex(f.Index)
		switch {
		case f.Type.Kind() == reflect.Struct:
			for key, below := range counted(at, prefix+name+".") {
				out[key] = below
			}
		case f.Type == reflect.TypeFor[int](), f.Type == reflect.TypeFor[*int]():
			out[prefix+name] = at
		}
	}
	return out
}
