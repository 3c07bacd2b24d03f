package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumbersOfConfigsThatNoModelHasAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		text, vision object
		want         []string
	}{
		"tokens outside": {
			object{
				"eos_token_id": []int{7, 100}, "bos_token_id": -1, "video_token_id": 100, "vision_start_token_id": 1 << 30,
				"vision_end_token_id": 100,
			}, nil,
			[]string{
				"eos_token_id is 100, must be in [0, 100)", "bos_token_id is -1, must be in [0, 100)", "video_token_id is 100",
				"vision_start_token_id is 1073741824", "vision_end_token_id is 100",
			},
		},
		"full blocks": {
			nil, object{"fullatt_block_indexes": []int{1, 3}},
			[]string{"fullatt_block_indexes is [1 3], must be in [0, 3)"},
		},
		"full block below": {
			nil, object{"fullatt_block_indexes": []int{-1}},
			[]string{"fullatt_block_indexes is [-1], must be in"},
		},
		"quantised": {
			object{"quantization_config": object{"bits": 4}}, nil,
			[]string{"quantization_config is set: quantised weights are"},
		},
		"compressed": {
			object{"compression_config": object{"format": "int"}}, nil,
			[]string{"compression_config is set"},
		},
		"huge theta": {
			object{"rope_theta": 1e300}, nil,
			[]string{"rope_theta is 1e+300, must be in (1, 1e+12]"},
		},
		"huge positions": {
			object{"max_position_embeddings": 1 << 40}, nil,
			[]string{"max_position_embeddings is 1099511627776, must be in [0, 1073741824]"},
		},
		"huge sections": {
			object{"rope_scaling": object{"mrope_section": []int{1 << 62, 1 << 62, 4}}}, nil,
			[]string{"must not be negative or above head_dim = 8"},
		},
		"huge window": {
			nil, object{"window_size": 1 << 40},
			[]string{"window_size is 1099511627776", "at most 2^20"},
		},
		"huge weights": {
			object{"initializer_range": 1e300}, nil,
			[]string{"initializer_range is 1e+300, must be in [0, 10]"},
		},
		"negative weights": {object{"initializer_range": -1}, nil, []string{"initializer_range is -1"}},
		"part of a head": {
			object{"partial_rotary_factor": 0.25}, nil,
			[]string{"partial_rotary_factor is 0.25, only 1 is"},
		},
		"part, nested": {
			object{"rope_parameters": object{"partial_rotary_factor": 0.5}}, nil,
			[]string{"partial_rotary_factor is 0.5"},
		},
		"layers": {
			object{"layer_types": []string{"full_attention", "sliding_attention"}}, nil,
			[]string{`layer_types[1] is "sliding_attention", only full_attention is supported`},
		},
		"more layer types than layers": {
			object{"layer_types": []string{"full_attention", "full_attention", "full_attention"}}, nil,
			[]string{"layer_types has 3 entries, must have num_hidden_layers = 2"},
		},
		"llama3 scale": {
			object{"rope_scaling": object{
				"rope_type": "llama3", "factor": 1e300, "low_freq_factor": 1, "high_freq_factor": 4,
				"original_max_position_embeddings": 64, "mrope_section": []int{1, 1, 2},
			}}, nil,
			[]string{"llama3 rope scaling", "none above 1073741824"},
		},
	} {
		_, err := parse(t, flat(c.text, c.vision))
		require.ErrorIs(t, err, ErrConfig, name)
		for _, w := range c.want {
			require.ErrorContains(t, err, w, name)
		}
	}
}
