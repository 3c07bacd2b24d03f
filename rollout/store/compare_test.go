package store

import (
	"math"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/rollout"
)

// TestEverythingThatIsStoredIsCompared changes every value of a record, one after the
// other.
func TestEverythingThatIsStoredIsCompared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "step_3.parquet")
	ts := trajectories(t)
	require.NoError(t, Save(path, 3, ts))
	stored, err := Load(path)
	require.NoError(t, err)
	was := make([]*rollout.Trajectory, len(stored))
	for i, s := range stored {
		was[i] = s.Trajectory
	}
	d, err := FirstDifference(was, ts)
	require.NoError(t, err)
	require.Nil(t, d, "%v", d)
	d, err = FirstDifference(was, ts[1:])
	require.NoError(t, err)
	require.NotNil(t, d)
	ts[1].Turns[0].Parsed.Actions = append(ts[1].Turns[0].Parsed.Actions, "Up")
	d, err = FirstDifference(was, ts)
	require.NoError(t, err)
	require.Equal(t, 1, d.Episode)
	require.Equal(t, "length of turns[0].parsed.actions", d.What)

	full := func() reflect.Value {
		r := reflect.New(reflect.TypeFor[record]()).Elem()
		fill(r)
		return r
	}
	one := full()
	changed := 0
	for i := 0; ; i++ {
		is := full()
		n := i
		if !spoil(is, &n) {
			break
		}
		changed++
		what, _, _ := differ("", one, is)
		require.NotEmpty(t, what, "value %d", i)
	}
	require.Greater(t, changed, 40)
	what, _, _ := differ("", one, full())
	require.Empty(t, what)
}

// fill puts one value into every list of a record.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	}
}

// spoil changes the nth value of a record, and reports whether there is one.
func spoil(v reflect.Value, n *int) bool {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if spoil(v.Field(i), n) {
				return true
			}
		}
		return false
	case reflect.Slice:
		if spoil(v.Index(0), n) {
			return true
		}
	}
	if *n--; *n >= 0 {
		return false
	}
	switch v.Kind() {
	case reflect.Slice:
		v.SetLen(0)
	case reflect.String:
		v.SetString("other")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(math.Copysign(0, -1)) // differs from 0 only in its bits
	default:
		v.SetInt(1)
	}
	return true
}
