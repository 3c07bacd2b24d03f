package snapshot

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

type pond struct {
	Depth float64
	Fish  []string
}

func TestAStateSurvivesTheRoundTrip(t *testing.T) {
	was := pond{math.Nextafter(0.1, 1), []string{"carp", "ü<>"}}
	raw, err := Encode("pond", map[string]int{"size": 3}, was)
	require.NoError(t, err)
	var is pond
	require.NoError(t, Decode("pond", map[string]int{"size": 3}, raw, &is))
	require.Equal(t, was, is)
}

func TestWhatIsNoSnapshotIsRefused(t *testing.T) {
	options := map[string]int{"size": 3}
	raw, err := Encode("pond", options, pond{Depth: 2})
	require.NoError(t, err)
	for what, bad := range map[string][]byte{
		"EOF":                                nil,
		"unexpected EOF":                     raw[:len(raw)-1],
		"text after the JSON value":          append(bytes.Clone(raw), '1'),
		"unknown field":                      []byte(`{"wings":2}`),
		"its version is 2, must be 1":        bytes.Replace(raw, []byte(`"version":1`), []byte(`"version":2`), 1),
		`it is of the environment "lake"`:    bytes.Replace(raw, []byte(`"pond"`), []byte(`"lake"`), 1),
		"the checksum of its state is wrong": bytes.Replace(raw, []byte(`"Depth":2`), []byte(`"Depth":3`), 1),
		"at most 16777216 are allowed":       make([]byte, MaxBytes+1),
	} {
		err := Decode("pond", options, bad, new(pond))
		testkit.Error(t, err, Err, what)
	}
	require.ErrorContains(t, Decode("pond", map[string]int{"size": 4}, raw, new(pond)), "it was made with other options")
	require.ErrorContains(t, Decode("pond", options, raw, new(struct{ Depth float64 })), "unknown field")
	require.ErrorIs(t, Decode("pond", math.NaN(), raw, new(pond)), Err)
}

func TestAStateThatCannotBeWrittenIsRefused(t *testing.T) {
	_, err := Encode("pond", nil, pond{Depth: math.NaN()})
	require.ErrorContains(t, err, "pond: snapshot:")
	_, err = Encode("pond", math.Inf(1), pond{})
	require.ErrorContains(t, err, "options:")
	_, err = Encode("pond", nil, make([]byte, MaxBytes))
	require.ErrorIs(t, err, Err)
}
