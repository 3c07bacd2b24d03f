package engines

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy/engine"
	"vagen/policy/vlm"
)

// TestAbilitiesArePassedOn by the learner whose responses servers generate, and by its snapshots.
func TestAbilitiesArePassedOn(t *testing.T) {
	require.Empty(t, traintest.Lost(reflect.TypeFor[*Learner](), reflect.TypeFor[*vlm.Model]()))
	require.Empty(t, traintest.Lost(reflect.TypeFor[*snapshot](), reflect.TypeFor[*engine.Policy]()))
}
