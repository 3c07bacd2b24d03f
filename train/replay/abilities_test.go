package replay

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy/vlm"
)

// TestAbilitiesArePassedOn by a model whose responses servers generated.
func TestAbilitiesArePassedOn(t *testing.T) {
	require.Empty(t, traintest.Lost(reflect.TypeFor[sampled](), reflect.TypeFor[*vlm.Model]()))
}
