package pytext

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPythonsNotationIsJSON(t *testing.T) {
	require.JSONEq(t, `[{"a": "it's Aé", "b": null, "c": [true, false, 1.5, -2]}]`,
		string(JSON(`[{'a': 'it\'s \x41\u00e9', "b": None, 'c': [True, False, 1.5, -2]}]`)))
}
