package peft

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfigsSurviveTheFile(t *testing.T) {
	for _, c := range []Config{
		{Rank: 4, Alpha: 8, Targets: []string{"k_proj", "q_proj"}, Base: "some/model"},
		{Rank: 16, Alpha: 2.5, RankStabilized: true, Pattern: `.*layers\.\d+\.mlp\.(up|down)_proj`, Saved: []string{"score"}},
	} {
		got, err := Parse(c.JSON())
		require.NoError(t, err)
		assert.Equal(t, c, got)
	}
	assert.Equal(t, 2.0, Config{Rank: 4, Alpha: 8}.Scale())
	assert.Equal(t, 4.0, Config{Rank: 4, Alpha: 8, RankStabilized: true}.Scale())
}

func TestTargetsAreLastPartsAndPatternsWholeNames(t *testing.T) {
	list := Config{Targets: []string{"q_proj", "mlp.up_proj"}}.Match()
	pattern := Config{Pattern: `.*\.(q|k)_proj`}.Match()
	for module, want := range map[string][2]bool{
		"model.layers.0.self_attn.q_proj": {true, true},
		"model.layers.0.self_attn.k_proj": {false, true},
		"model.layers.0.mlp.up_proj":      {true, false},
		"model.layers.0.xmlp.up_proj":     {false, false},
		"q_proj":                          {true, false},
		"model.seq_proj":                  {false, false},
		"model.layers.0.q_proj.extra":     {false, false},
	} {
		assert.Equal(t, want[0], list(module), module)
		assert.Equal(t, want[1], pattern(module), module)
	}
}

func TestEverythingUnsupportedIsNamed(t *testing.T) {
	_, err := Parse([]byte(`{"peft_type": "LOHA", "r": 8, "target_modules": ["q_proj"], "bias": "all", "use_dora": true,
		"rank_pattern": {"q_proj": 4}, "layers_to_transform": [1], "init_lora_weights": "pissa", "alpha_pattern": {}, "eva_config": null}`))
	require.ErrorIs(t, err, ErrConfig)
	for _, name := range []string{"LOHA", "bias", "use_dora", "rank_pattern", "layers_to_transform", "pissa"} {
		assert.ErrorContains(t, err, name)
	}
	for _, name := range []string{"alpha_pattern", "eva_config"} {
		assert.NotContains(t, err.Error(), name)
	}
	for text, want := range map[string]string{
		`{`:                     "unexpected end",
		`{"peft_type": "LORA"}`: "target_modules",
		`{"peft_type": "LORA", "target_modules": 3}`:                       "target_modules is 3",
		`{"peft_type": "LORA", "target_modules": ["q"], "r": 0}`:           "rank is 0",
		`{"peft_type": "LORA", "target_modules": ["q"], "lora_alpha": -1}`: "alpha is -1",
		`{"peft_type": "LORA", "target_modules": "(q"}`:                    "pattern",
		`{"peft_type": "LORA", "target_modules": "(?!q)"}`:                 "pattern",
	} {
		_, err := Parse([]byte(text))
		require.ErrorIs(t, err, ErrConfig, text)
		assert.ErrorContains(t, err, want, text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := Parse(raw)
		if err != nil {
			require.ErrorIs(t, err, ErrConfig)
			return
		}
		require.NoError(t, c.Check())
		c.Match()("model.layers.0.self_attn.q_proj")
	})
}

// TestLargeConfigurationsAreNotRead: a folder may come from anywhere.
func TestLargeConfigurationsAreNotRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ConfigFile)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, maxFile+1))
	_, err := Read(dir)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "at most")
}
