package endtokens

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGenerationConfigOfWrongTypesIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, GenerationFile)
	none, err := Generation(dir, 10)
	require.NoError(t, err, "the file is optional")
	require.Empty(t, none)
	for text, want := range map[string]IDs{
		`{}`: nil, `{"eos_token_id": null, "top_k": null}`: nil, `{"eos_token_id": 3, "max_new_tokens": 100}`: {3},
		`{"eos_token_id": [3, 9], "do_sample": true, "temperature": 1, "top_p": 0.5, "top_k": 20, "other": "x"}`: {3, 9},
		"\ufeff" + `{"eos_token_id": 3}`: {3},
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		got, err := Generation(dir, 10)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, parts := range map[string][]string{
		`[]`:                            {"array"},
		`null`:                          {"it is null, must be an object"},
		`{"eos_token_id": "<|end|>"}`:   {`eos_token_id is "<|end|>", must be a token id or a list of them`},
		`{"eos_token_id": [1, null]}`:   {"eos_token_id is [1, null], must be a token id or a list of them"},
		`{"eos_token_id": 1.5}`:         {"eos_token_id is 1.5"},
		`{"eos_token_id": 99999999999}`: {"eos_token_id is 99999999999"},
		`{"eos_token_id": [1, 10]}`:     {"eos_token_id is 10, must be in [0, 10)"},
		`{"eos_token_id": -1}`:          {"eos_token_id is -1, must be in [0, 10)"},
		`{"do_sample": 1, "temperature": "hot", "top_p": [1], "min_p": {}, "top_k": 2.5, "max_new_tokens": "2"}`: {
			"do_sample is 1, must be true or false", `temperature is "hot", must be a number`, "top_p is [1], must be a number",
			"min_p is {}, must be a number", "top_k is 2.5, must be an integer", `max_new_tokens is "2", must be an integer`,
		},
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Generation(dir, 10)
		for _, part := range append(parts, path) {
			require.ErrorContains(t, err, part, text)
		}
	}
}
